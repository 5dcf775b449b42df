"""Requests that are no messages: the caller is told, and not that the server failed."""

import grpc
import pytest
from grpc_status import rpc_status

from triage.v1 import triage_pb2, triage_service_pb2

BROKEN = b"\x0a\xff"  # field 1, of a length that is cut short

FEVER = triage_service_pb2.InterviewRequest(
    evidence={"code": "fever", "status": triage_pb2.EVIDENCE_STATUS_PRESENT}
).SerializeToString()


@pytest.mark.parametrize(
    "method",
    [
        "/triage.v1.TriageService/Triage",
        "/triage.v1.TriageService/BatchTriage",
        "/tensorflow.serving.PredictionService/Predict",
        "/tensorflow.serving.ModelService/GetModelStatus",
        "/grpc.health.v1.Health/Check",
    ],
)
def test_bytes_that_are_no_message_are_an_invalid_argument(channel, method):
    call = channel.unary_unary(method)
    with pytest.raises(grpc.RpcError) as error:
        call(BROKEN, timeout=30)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.value.details().startswith("the request cannot be parsed")
    assert rpc_status.from_call(error.value) is not None


@pytest.mark.parametrize("before", [[], [FEVER]])
def test_such_bytes_end_an_interview_wherever_they_come(channel, before):
    call = channel.stream_stream("/triage.v1.TriageService/Interview")(iter([*before, BROKEN]), timeout=30)
    answers = []
    with pytest.raises(grpc.RpcError) as error:
        answers.extend(iter(lambda: next(call), None))
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.value.details().startswith("the request cannot be parsed")


@pytest.mark.parametrize("repeated", range(5))  # gRPC alone does not always hang
def test_a_server_that_got_such_bytes_can_stop(serving, repeated):
    with (
        serving() as server,
        grpc.insecure_channel(server.address, options=[("grpc.enable_http_proxy", 0)]) as channel,
    ):
        reflection = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        for call in (
            lambda: channel.unary_unary("/triage.v1.TriageService/Triage")(BROKEN, timeout=30),
            lambda: channel.unary_unary("/grpc.health.v1.Health/Check")(BROKEN, timeout=30),
            lambda: next(channel.unary_stream("/grpc.health.v1.Health/Watch")(BROKEN, timeout=30)),
            lambda: next(channel.stream_stream(reflection)(iter([BROKEN]), timeout=30)),
        ):
            with pytest.raises(grpc.RpcError) as error:
                call()
            assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_health_is_as_grpc_has_it(channel):
    assert channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=30) == b"\x08\x01"
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=30)
    assert next(watch) == b"\x08\x01"
    watch.cancel()
