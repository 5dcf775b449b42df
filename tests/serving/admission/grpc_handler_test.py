"""Calls through a real server: where they run, how they end, and what is recorded of them."""

import asyncio
import gc
import logging
import queue
import threading
import types
from typing import NamedTuple

import grpc
import numpy as np
import pytest
from google.protobuf import message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from tensorflow_serving.apis import prediction_service_pb2_grpc

from serving.admission.admission import Admission
from serving.admission.budget import LARGE_BYTES
from serving.admission.event_loop import EventLoop, Workers
from serving.admission.grpc_handler import GrpcHandler
from serving.admission.health_service import HealthService
from serving.admission.listener import Listener
from serving.errors import NotFoundError
from serving.messages import state_message
from serving.security import LocalReloads
from serving.telemetry.recorder import Telemetry
from tests.builders import channel_to, counted, predict_request, served
from tests.waiting import until
from triage.v1 import triage_service_pb2, triage_service_pb2_grpc
from triage_client import TriageClient

COUNTERS = ("handled_total", "handling_seconds_count")
TRIAGE = {"grpc_type": "unary", "grpc_service": "triage.v1.TriageService", "grpc_method": "Triage"}


@pytest.fixture
def server(serving):
    with serving(metrics_port=0) as server:
        yield server


@pytest.fixture
def channel(server):
    with channel_to(server.address) as channel:
        yield channel


def handled_calls(server, code):
    """Returns how many calls of Triage ended with a status."""
    return counted(server, "grpc_server_handled_total", **TRIAGE, grpc_code=code)


def triage(channel, code, **options):
    request = triage_service_pb2.TriageRequest(state=state_message([code]))
    stub = triage_service_pb2_grpc.TriageServiceStub(channel)
    return stub.Triage.with_call(request, timeout=30, **options)


def test_the_callers_request_id_comes_back_and_another_is_made_where_there_is_none(channel):
    _, call = triage(channel, "fever", metadata=(("x-request-id", "r-17"),))
    assert dict(call.trailing_metadata())["x-request-id"] == "r-17"
    made = [dict(triage(channel, "fever")[1].trailing_metadata())["x-request-id"] for _ in range(2)]
    assert len(set(made)) == 2


def test_answers_and_their_stages_are_counted_when_they_are_sent(server, channel):
    triage(channel, "fever")
    triage(channel, "chest_pain")
    with pytest.raises(grpc.RpcError):
        triage(channel, "fevr")
    with TriageClient(server.address, timeout_seconds=30.0) as client, client.interview() as interview:
        interview.present("fever")
        interview.no_more_evidence()
        with pytest.raises(ValueError, match="has ended"):  # and so has the call on the server
            interview.not_known()
    assert counted(server, "grpc_server_handled_total", **TRIAGE, grpc_code="OK") == 2
    assert counted(server, "grpc_server_handled_total", **TRIAGE, grpc_code="INVALID_ARGUMENT") == 1
    assert counted(server, "grpc_server_handling_seconds_count", **TRIAGE) == 3
    for stage in ("queue", "parse", "model", "respond"):
        named = {"model_version": "3", "signature": "serving_default", "stage": stage}
        assert counted(server, "triage_stage_seconds_count", **named) == 4, stage
    assert counted(server, "triage_actions_total", model_version="3", action="ask") == 2
    assert counted(server, "triage_actions_total", model_version="3", action="Red") == 1
    assert counted(server, "triage_forced_decisions_total", model_version="3") == 1
    assert counted(server, "triage_unknown_codes_total", outcome="refused") == 1
    assert counted(server, "triage_default_version", model_name="triage") == 3


def test_a_call_of_a_method_that_does_not_exist_leaves_its_name_nowhere(server, channel):
    with pytest.raises(grpc.RpcError):
        channel.unary_unary("/triage.v1.TriageService/Chosen")(b"", timeout=30)
    unknown = {"grpc_service": "unknown", "grpc_method": "unknown", "grpc_code": "UNIMPLEMENTED"}
    assert counted(server, "grpc_server_handled_total", **unknown) == 1
    assert counted(server, "grpc_server_handled_total", grpc_method="Chosen") == 0


def test_calls_whose_callers_leave_are_counted_whether_they_run_or_wait(gated):
    ended = queue.SimpleQueue()
    settings = {"max_workers": 1, "max_interviews": 1, "max_waiting": 1}  # one thread, and two places more
    request = triage_service_pb2.TriageRequest(state=state_message(["fever"]))
    with served(gated.watcher(), grace_seconds=60, metrics_port=0, **settings) as server:
        with channel_to(server.address) as channel:
            stub = triage_service_pb2_grpc.TriageServiceStub(channel)
            held = [stub.Triage.future(request, timeout=600) for _ in range(4)]
            for call in held:
                call.add_done_callback(ended.put)
            assert ended.get(timeout=60).code() is grpc.StatusCode.RESOURCE_EXHAUSTED  # so the others are there
            for call in held:
                call.cancel()
            until(lambda: handled_calls(server, "CANCELLED") == 3)  # calls are counted after their end

            def late():
                with pytest.raises(grpc.RpcError):
                    stub.Triage(request, timeout=0.2)  # there is no answer, and on a busy machine no call
                return handled_calls(server, "DEADLINE_EXCEEDED")

            until(late)
            gated.gate.set()
            triage(channel, "fever")
        assert [handled_calls(server, code) for code in ("RESOURCE_EXHAUSTED", "OK")] == [1, 1]
        all_ended, timed = (counted(server, f"grpc_server_{name}", **TRIAGE) for name in COUNTERS)
        assert all_ended == timed >= 6


def test_decisions_and_rules_are_counted_by_whichever_service_and_signature_they_are_made(guarded_base_path):
    with served(guarded_base_path, grace_seconds=1, metrics_port=0) as server:
        with channel_to(server.address) as channel:
            triage(channel, "chest_pain")  # pain
            ask = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict
            for request in PREDICTIONS:
                ask(request, timeout=30)
        counts = {
            (name, value): counted(server, f"triage_{name}_total", model_version="4", **{label: value})
            for name, label, values in (
                ("rules_fired", "rule_id", ("pain", "fever", "hot_smoker")),
                ("actions", "action", ("Red", "ask")),
                ("urgencies", "urgency", ("Red", "Yellow")),
            )
            for value in values
        }
        unknown = counted(server, "triage_unknown_codes_total", outcome="left_out")
        forced = counted(server, "triage_forced_decisions_total", model_version="4")
    assert counts == {
        ("rules_fired", "pain"): 4,  # of the typed service, and of each of three signatures
        ("rules_fired", "fever"): 2,
        ("rules_fired", "hot_smoker"): 1,
        ("actions", "Red"): 5,
        ("actions", "ask"): 1,  # fever alone: the rule does not stop asking
        ("urgencies", "Red"): 5,
        ("urgencies", "Yellow"): 1,
    }
    assert (unknown, forced) == (1, 1)


# Decisions are counted even if the output filter drops them.
PREDICTIONS = (
    predict_request(
        {
            "present": [["fever", "smoker"], ["chest_pain", ""], ["fever", ""]],  # fever and hot_smoker, pain, fever
            "absent": [[""], [""], [""]],
            "questions_asked": np.int32([0, 0, 0]),
        },
        outputs=["q_values"],
    ),
    predict_request(
        {"states": np.float32([[1, 0, 0]]), "questions_asked": np.int32([10])}, "state", ["action"]
    ),  # pain, forced
    predict_request(
        {"evidence_states": [state_message(["chest_pain", "gout"]).SerializeToString()]}, "triage"
    ),  # pain, and a code that is not known
)


class Recorded(Telemetry):
    """Records how calls ended."""

    def __init__(self):
        super().__init__()
        self.ends = queue.SimpleQueue()

    def end(self, call, kind, code):
        self.ends.put((call.request.method, kind, code))

    def next(self):
        return self.ends.get(timeout=30)


def number(data):
    """Parses a number, and records the thread."""
    try:
        return int(data), threading.current_thread().name
    except ValueError as error:
        raise message.DecodeError from error


class Service:
    """Methods of every kind, on numbers."""

    def __init__(self):
        self.gate, self.closed = threading.Event(), threading.Event()

    async def double(self, request, context):
        return f"{2 * request[0]} parsed by {request[1]}"

    def slow(self, request, context):
        assert self.gate.wait(60)
        return f"{request[0]} in {threading.current_thread().name}"

    async def fail(self, request, context):
        raise NotFoundError(f"no {request[0]} here")

    async def up_to(self, request, context):
        for value in range(request[0]):
            yield str(value)

    async def echo(self, requests, context):
        try:
            async for request in requests:
                yield str(request[0])
        finally:
            self.closed.set()

    def handlers(self):
        make = {"Double": self.double, "Slow": self.slow, "Fail": self.fail}
        unary = {name: grpc.unary_unary_rpc_method_handler(method, number, str.encode) for name, method in make.items()}
        return grpc.method_handlers_generic_handler(
            "test.Service",
            {
                **unary,
                "UpTo": grpc.unary_stream_rpc_method_handler(self.up_to, number, str.encode),
                "Echo": grpc.stream_stream_rpc_method_handler(self.echo, number, str.encode),
            },
        )


class Handled(NamedTuple):
    service: Service
    telemetry: Recorded
    channel: grpc.Channel
    handler: GrpcHandler
    loop: EventLoop

    def begin(self, method):
        """Sends only the headers of a call."""
        return self.channel.stream_unary(method).future(never())

    def end_silent(self, number):
        """Ends the calls that wait for a request, which takes two looks; there are this many."""
        until(lambda: self.handler.idle_timeout.waiting == number)
        for _ in range(2):
            self.loop.run(self._look())
        until(lambda: not self.handler.idle_timeout.waiting)  # so that the next call is not taken for one of these

    async def _look(self):
        self.handler.idle_timeout.look()


def never():
    """Returns an iterator of requests that never yields."""
    return iter(queue.SimpleQueue().get, None)


@pytest.fixture
def handled(loop):
    """Any service behind a handler, with three places and one worker; Echo may idle."""
    service, telemetry = Service(), Recorded()
    may_idle = frozenset(["/test.Service/Echo"])
    handler = GrpcHandler(Admission(LocalReloads(), calls=3), Workers(1), telemetry, 6000.0, may_idle)
    handler.add_generic_rpc_handlers((service.handlers(),))
    health_pb2_grpc.add_HealthServicer_to_server(HealthService(health.HealthServicer()), handler)
    listener = Listener(loop, handler, ("127.0.0.1", 0), 6000.0, [("grpc.max_concurrent_streams", 16)])
    listener.start()
    with channel_to(listener.address) as channel:
        yield Handled(service, telemetry, channel, handler, loop)
    service.gate.set()
    listener.stop(0)


def test_coroutines_run_on_the_loop_and_functions_in_a_worker_meanwhile(handled):
    slow = handled.channel.unary_unary("/test.Service/Slow").future(b"7", timeout=60)
    assert handled.channel.unary_unary("/test.Service/Double")(b"4", timeout=60) == b"8 parsed by under test"
    handled.service.gate.set()
    assert slow.result().startswith(b"7 in worker")


def test_a_large_request_is_parsed_in_a_worker(handled):
    double = handled.channel.unary_unary("/test.Service/Double")
    assert double(b"4".rjust(LARGE_BYTES), timeout=60) == b"8 parsed by under test"
    assert double(b"4".rjust(LARGE_BYTES + 1), timeout=60).startswith(b"8 parsed by worker")


def test_streams_are_answered_one_by_one_and_their_generators_are_closed(handled):
    assert list(handled.channel.unary_stream("/test.Service/UpTo")(b"3", timeout=60)) == [b"0", b"1", b"2"]
    assert handled.telemetry.next() == ("/test.Service/UpTo", "bidi_stream", "OK")
    said = queue.SimpleQueue()
    answers = handled.channel.stream_stream("/test.Service/Echo")(iter(said.get, None), timeout=60)
    for value in (b"7", b"8"):
        said.put(value)
        assert next(answers) == value
    answers.cancel()
    assert handled.service.closed.wait(60)
    method, kind, code = handled.telemetry.next()
    assert (method, kind) == ("/test.Service/Echo", "bidi_stream")
    assert code in ("CANCELLED", "OK")  # gRPC may report the end of the requests before its reason


@pytest.mark.parametrize(
    ("method", "data", "code"),
    [
        ("Fail", b"7", grpc.StatusCode.NOT_FOUND),
        ("Double", b"seven", grpc.StatusCode.INVALID_ARGUMENT),
        ("Slow", b"seven", grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
def test_a_failure_ends_a_call_with_its_status_and_gives_its_place_back(handled, method, data, code):
    for _ in range(4):  # more than there are places
        with pytest.raises(grpc.RpcError) as error:
            handled.channel.unary_unary(f"/test.Service/{method}")(data, timeout=60)
        assert error.value.code() is code
        assert handled.telemetry.next() == (f"/test.Service/{method}", "unary", code.name)
    until(lambda: handled.handler.admission.concurrency.taken == 0)


class GoneContext:
    """A call whose caller leaves just before it would get the status."""

    def __init__(self):
        self.error = grpc.aio.InternalError("cannot be sent")

    def peer(self):
        return "ipv4:127.0.0.1:5000"

    def time_remaining(self):
        return None

    def invocation_metadata(self):
        return ()

    async def read(self):
        return b"7"

    async def abort(self, code, details, metadata):
        raise self.error


def test_a_failure_after_the_caller_left_leaves_nothing_in_the_log(handled, caplog):
    context = GoneContext()

    async def answer():
        details = types.SimpleNamespace(method="/test.Service/Fail")
        return await handled.handler.service(details).stream_unary(None, context)

    with caplog.at_level(logging.DEBUG):
        assert asyncio.run(answer()) is None
    assert context.error.__context__ is None  # otherwise the failure would be logged with it
    assert handled.telemetry.next() == ("/test.Service/Fail", "unary", "NOT_FOUND")
    assert handled.handler.admission.concurrency.taken == 0
    assert "no 7 here" not in caplog.text


@pytest.fixture
def no_collection():
    """Disables garbage collection, so that cycles stay."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def interview(channel, *evidence):
    requests = [triage_service_pb2.InterviewRequest(evidence={"code": code, "status": 1}) for code in evidence]
    requests.append(triage_service_pb2.InterviewRequest(no_more_evidence=True))
    list(triage_service_pb2_grpc.TriageServiceStub(channel).Interview(iter(requests), timeout=30))


def left(channel):
    answers = channel.stream_stream("/triage.v1.TriageService/Interview")(never(), 30)
    answers.cancel()
    answers.result()


@pytest.mark.parametrize(
    ("call", "codes"),
    [
        (lambda channel: triage(channel, "fever"), {"OK"}),
        (lambda channel: triage(channel, "fevr"), {"INVALID_ARGUMENT"}),
        (lambda channel: interview(channel, "fever"), {"OK"}),
        (
            lambda channel: channel.unary_unary("/tensorflow.serving.PredictionService/Predict")(b""),
            {"INVALID_ARGUMENT"},
        ),
        (left, {"CANCELLED"}),
    ],
    ids=["answered", "faulty", "interview", "in a worker", "left"],
)
def test_a_call_that_has_ended_is_released_at_once_and_not_at_the_next_garbage_collection(
    serving, no_collection, call, codes
):
    """gRPC refuses calls with UNAVAILABLE on a connection that has too many of them in memory."""
    with (
        serving(max_streams=16) as server,
        channel_to(server.address) as channel,
    ):
        ended_with = set()
        for _ in range(20):
            try:
                call(channel)
                ended_with.add("OK")
            except grpc.FutureCancelledError:
                ended_with.add("CANCELLED")
            except grpc.RpcError as error:
                ended_with.add(error.code().name)
    assert ended_with == codes


@pytest.mark.parametrize("method", ["test.Service/Double", "test.Service/Slow", "grpc.health.v1.Health/Check"])
def test_callers_who_send_no_request_are_cut_off_and_give_their_places_back(handled, method):
    silent = [handled.begin(f"/{method}") for _ in range(3)]
    handled.end_silent(3)
    assert {call.code() for call in silent} == {grpc.StatusCode.CANCELLED}
    until(lambda: handled.handler.admission.concurrency.taken == 0)
    assert handled.channel.unary_unary("/test.Service/Double")(b"4", timeout=60) == b"8 parsed by under test"


def test_a_stream_in_which_nothing_is_said_is_cut_off_unless_it_may_idle(handled):
    said = queue.SimpleQueue()
    echo = handled.channel.stream_stream("/test.Service/Echo")(iter(said.get, None), timeout=600)
    other = handled.begin("/test.Service/Double")
    until(lambda: handled.handler.admission.concurrency.taken == 2)
    handled.end_silent(1)
    assert other.code() is grpc.StatusCode.CANCELLED
    said.put(b"7")
    assert next(echo) == b"7"
    echo.cancel()


def test_a_unary_call_without_a_request_is_reported_so(handled):
    with pytest.raises(grpc.RpcError) as error:
        handled.channel.stream_unary("/test.Service/Double")(iter([]), timeout=60)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "missing" in error.value.details()


def test_calls_take_places_when_their_headers_arrive_and_health_needs_none(handled):
    said = queue.SimpleQueue()
    silent = [handled.channel.stream_unary("/test.Service/Double").future(iter(said.get, None)) for _ in range(3)]
    until(lambda: handled.handler.admission.concurrency.taken == 3)
    with pytest.raises(grpc.RpcError) as error:
        handled.channel.unary_unary("/test.Service/Double")(b"4", timeout=60)
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    check = health_pb2_grpc.HealthStub(handled.channel).Check
    assert check(health_pb2.HealthCheckRequest(), timeout=60).status == health_pb2.HealthCheckResponse.SERVING
    for call in silent:
        call.cancel()


BROKEN = b"\x0a\xff"  # field 1, of a length that is cut short


def test_a_server_can_stop_after_malformed_bytes(serving):
    with (
        serving() as server,
        channel_to(server.address) as channel,
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
