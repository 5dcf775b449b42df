"""Tokens and the permission to reload, through real servers."""

import logging
import re

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from serving.errors import ForbiddenError, UnauthenticatedError
from serving.security.access import RELOAD, LocalReloads, TokenAccess
from serving.security.tokens import TokenFile
from tests.builders import channel_to
from triage_client import TriageClient, TriageError, evidence_state

TOKEN = "right-token-123"  # noqa: S105


@pytest.fixture(scope="module")
def guarded(serving, tmp_path_factory):
    """A server that requires a token."""
    path = tmp_path_factory.mktemp("tokens") / "tokens"
    path.write_text(f"other\n{TOKEN}\n")
    with serving(tokens=str(path)) as server:
        yield server


STATE = evidence_state(["fever"])
CALLS = {
    "Triage": lambda client, channel, m: client.triage(STATE),
    "BatchTriage": lambda client, channel, m: client.batch_triage([STATE]),
    "GetModelInfo": lambda client, channel, m: client.model_info(),
    "GetVocabulary": lambda client, channel, m: client.vocabulary(),
    "Interview": lambda client, channel, m: client.interview(timeout_seconds=30).present("fever"),
    "status": lambda client, channel, m: model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(
        get_model_status_pb2.GetModelStatusRequest(), timeout=30, metadata=m
    ),
    "reload": lambda client, channel, m: model_service_pb2_grpc.ModelServiceStub(channel).HandleReloadConfigRequest(
        model_management_pb2.ReloadConfigRequest(), timeout=30, metadata=m
    ),
    "predict": lambda client, channel, m: prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(
        predict_pb2.PredictRequest(), timeout=30, metadata=m
    ),
    "reflection": lambda client, channel, m: list(
        reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=30, metadata=m
        )
    ),
}
FAULTY = {"status", "reload", "predict"}
"""With a token, the services find fault with these, which are empty."""


def code_of(call, *arguments):
    try:
        call(*arguments)
    except TriageError as error:
        return error.status
    except grpc.RpcError as error:
        return error.code()
    return None


@pytest.mark.parametrize("kind", CALLS)
def test_the_right_token_and_no_other_opens_calls_of_every_kind(guarded, kind):
    for token, metadata in ((TOKEN, sent(TOKEN)), (TOKEN[:-1], sent(TOKEN[:-1])), (None, ())):
        with (
            TriageClient(guarded.address, timeout_seconds=30.0, token=token) as client,
            channel_to(guarded.address) as channel,
        ):
            expected = grpc.StatusCode.INVALID_ARGUMENT if kind in FAULTY else None
            refused = grpc.StatusCode.UNAUTHENTICATED
            assert code_of(CALLS[kind], client, channel, metadata) is (expected if token == TOKEN else refused)


@pytest.mark.parametrize(
    "metadata",
    [
        [("authorization", TOKEN)],
        [("authorization", f"Basic {TOKEN}")],
        [("authorization", "Bearer ")],
        [("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer other")],
    ],
)
def test_a_header_that_is_not_one_bearer_token_is_refused(guarded, metadata):
    with channel_to(guarded.address) as channel:
        assert code_of(CALLS["status"], None, channel, metadata) is grpc.StatusCode.UNAUTHENTICATED


def test_health_is_open_and_calls_that_do_not_exist_are_not(guarded):
    with channel_to(guarded.address) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=30)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        near = channel.unary_unary("/grpc.health.v1.HealthToo/Check")
        assert code_of(lambda: near(b"", timeout=30)) is grpc.StatusCode.UNAUTHENTICATED


def test_a_refused_call_is_logged_with_where_it_came_from_and_not_each_time_and_no_token_is(serving, tmp_path, caplog):
    (tmp_path / "tokens").write_text(TOKEN)
    with (
        caplog.at_level(logging.DEBUG),
        serving(tokens=str(tmp_path / "tokens")) as guarded,
        channel_to(guarded.address) as channel,
    ):
        for metadata in ((), sent("wrong-token-456"), (), sent(TOKEN)):
            code_of(CALLS["status"], None, channel, metadata)
    assert not any(token in caplog.text for token in (TOKEN, "wrong-token-456"))
    lines = [record.getMessage() for record in caplog.records if "without a valid token" in record.getMessage()]
    (line,) = lines
    assert re.fullmatch(r"\d+ calls without a valid token were refused, the last one from ipv4:127.0.0.1:\d+", line)


def test_without_tokens_this_machine_may_change_what_is_served(server):
    with channel_to(server.address) as channel:
        assert code_of(CALLS["reload"], None, channel, ()) is grpc.StatusCode.INVALID_ARGUMENT  # the request is empty


def sent(token):
    """The metadata of a call."""
    return [("authorization", f"Bearer {token}")]


@pytest.mark.parametrize(
    ("token", "permitted"),
    [("all", {"Triage", "reload"}), ("asks", {"Triage"}), ("reloads", {"reload"}), ("reads", set())],
)
def test_a_role_permits_calls_or_reloads(tmp_path, token, permitted):
    (tmp_path / "tokens").write_text("all\nasks roles=call\nreloads roles=reload\nreads roles=metrics\n")
    access = TokenAccess(TokenFile(tmp_path / "tokens"))
    for name, method, role in (("Triage", "/triage.v1.TriageService/Triage", "call"), ("reload", RELOAD, "reload")):
        if name in permitted:
            caller, models = access.check(method, "ipv4:10.0.0.7:4100", sent(token))
            assert (caller[:6], models) == ("token ", None)
        else:
            with pytest.raises(ForbiddenError, match=f"role '{role}'"):
                access.check(method, "ipv4:10.0.0.7:4100", sent(token))
    with pytest.raises(UnauthenticatedError, match="not valid"):
        access.check(RELOAD, "ipv4:10.0.0.7:4100", sent("other"))


@pytest.mark.parametrize("peer", ["ipv4:127.0.0.1:41", "ipv6:%5B::1%5D:41", "ipv6:%5B::ffff:127.0.0.1%5D:41"])
def test_this_machine_is_known_by_its_address(peer):
    LocalReloads().check(RELOAD, peer, ())


@pytest.mark.parametrize(
    "peer", ["ipv4:10.0.0.7:4100", "ipv6:%5Bfe80::1%5D:4100", "ipv4:127.0.0.1@a:1", "127.0.0.1", "unknown", ""]
)
def test_without_tokens_another_machine_may_not(peer):
    LocalReloads().check("/tensorflow.serving.ModelService/GetModelStatus", peer, ())
    with pytest.raises(ForbiddenError, match="own machine"):
        LocalReloads().check(RELOAD, peer, ())
