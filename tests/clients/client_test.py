"""What the synchronous and the asyncio client both hold to, against the real server and a scripted one."""

import asyncio
import contextlib
import inspect
import math
import socket

import grpc
import pytest

import triage_client
from tests.waiting import until
from triage_client import AsyncTriageClient, TriageAction, TriageClient, evidence_state
from triage_client.connection import MAX_ATTEMPTS

STATE = evidence_state(["fever"])
CALLS = {
    "triage": lambda client, **more: client.triage(STATE, **more),
    "batch_triage": lambda client, **more: client.batch_triage([STATE], **more),
    "model_info": lambda client, **more: client.model_info(**more),
    "vocabulary": lambda client, **more: client.vocabulary(**more),
}


def interviewed(client, **more):
    with client.interview(**more) as interview:
        return interview.present("fever")


ALL = CALLS | {"interview": interviewed}
each_call = pytest.mark.parametrize("call", ALL.values(), ids=ALL.keys())


def test_a_state_is_answered(connect, server):
    response = connect(server.address).triage(evidence_state(["fever"], ["chest_pain"]))
    # sigmoid([0, 1, 0, 0, 2] - [2, 0, 0, 0, 0])
    assert [round(each.value, 3) for each in response.q_values] == [0.119, 0.731, 0.5, 0.5, 0.881]
    assert response.action == TriageAction.TRIAGE_ACTION_ASK
    assert response.best_triage == TriageAction.TRIAGE_ACTION_YELLOW
    assert response.model_version == "7"


def test_a_batch_is_answered_in_its_order(connect, server):
    states = [evidence_state(["chest_pain"]), evidence_state(["fever"], no_more_evidence=True)]
    actions = [each.action for each in connect(server.address).batch_triage(states)]
    assert actions == [TriageAction.TRIAGE_ACTION_RED, TriageAction.TRIAGE_ACTION_YELLOW]


def test_unknown_codes_are_allowed_where_that_is_said(connect, server):
    client, state = connect(server.address), evidence_state(["fever", "gout"])
    assert client.triage(state, allow_unknown_codes=True).unknown_codes == ["gout"]
    assert client.batch_triage([state], allow_unknown_codes=True)[0].unknown_codes == ["gout"]
    with client.interview(allow_unknown_codes=True) as interview:
        assert interview.present("gout", "fever").response.unknown_codes == ["gout"]


def test_the_model_and_its_vocabulary_are_reported(connect, server):
    client = connect(server.address)
    info, vocabulary = client.model_info(), client.vocabulary()
    assert (info.model_version, info.evidence_count, info.max_questions) == ("7", 2, 3)
    assert [(entry.code, entry.question) for entry in vocabulary.entries] == [
        ("fever", "fever, do you have it?"),
        ("chest_pain", "chest_pain, do you have it?"),
    ]
    assert info.vocabulary_fingerprint == vocabulary.vocabulary_fingerprint


@each_call
def test_each_call_names_its_model(connect, server, call):
    call(connect(server.address), model="triage")
    with pytest.raises(triage_client.NotFoundError, match="adults"):
        call(connect(server.address), model="adults")


def test_an_interview_is_answered_on_all_that_was_said(connect, server):
    with connect(server.address).interview(max_questions=2) as interview:
        answers = [interview.present("fever"), interview.not_known(), interview.absent("chest_pain")]
        with pytest.raises(ValueError, match="ended"):
            interview.not_known()
    assert [each.questions_asked for each in answers] == [0, 1, 2]
    assert [each.response.action for each in answers] == [
        TriageAction.TRIAGE_ACTION_ASK,  # at 0.881
        TriageAction.TRIAGE_ACTION_ASK,
        TriageAction.TRIAGE_ACTION_YELLOW,  # at the limit of two questions the server must triage
    ]
    assert [each.ended for each in answers] == [False, False, True]


def test_several_codes_answer_one_question(connect, server):
    client = connect(server.address)
    with client.interview() as interview:
        interview.present("fever")
        second = interview.answer(present=["fever"], absent=["chest_pain"])
        with pytest.raises(ValueError, match=r"present.*absent"):
            interview.answer()
    assert second.questions_asked == 1
    assert second.response.q_values == client.triage(evidence_state(["fever"], ["chest_pain"])).q_values
    with client.interview() as interview:
        none = interview.absent("fever", "chest_pain").response
    assert none.q_values == client.triage(evidence_state([], ["fever", "chest_pain"])).q_values


def test_nothing_is_sent_after_the_end(connect, scripted):
    with connect(scripted[1]).interview() as interview:
        assert interview.no_more_evidence().ended
        with pytest.raises(ValueError, match="ended"):  # though this server's stream is still open
            interview.present("fever")


def test_interviews_that_were_left_are_given_back(server):
    def begun():
        with contextlib.suppress(triage_client.ResourceExhaustedError):
            return interviewed(client)  # refused while the server has not yet noticed that the others ended

    with TriageClient(server.address, timeout_seconds=30.0) as client:
        for _ in range(6):  # the server conducts two at a time
            until(begun)


@pytest.mark.parametrize("call", ["triage", "batch_triage", "interview"])
def test_a_wrong_code_is_an_invalid_argument_that_names_its_field_and_the_nearest_codes(connect, server, call):
    client, state = connect(server.address), evidence_state(["fevr"])

    def refused_interview():
        with client.interview() as interview:
            interview.present("fevr")

    calls = {
        "triage": lambda: client.triage(state),
        "batch_triage": lambda: client.batch_triage([STATE, state]),
        "interview": refused_interview,
    }
    with pytest.raises(triage_client.InvalidArgumentError, match="fevr") as error:
        calls[call]()
    assert error.value.status is grpc.StatusCode.INVALID_ARGUMENT
    assert isinstance(error.value.__cause__, grpc.RpcError)
    [violation] = error.value.violations
    field = {"batch_triage": "states[1].evidence[0].code"}.get(call, "state.evidence[0].code")
    assert (violation.field, violation.reason) == (field, "UNKNOWN_CODE")
    assert (violation.code, violation.nearest_codes) == ("fevr", ("fever",))
    assert (error.value.reason, error.value.retry_after_seconds) == ("INVALID_REQUEST", None)


def test_a_server_that_is_missing_is_unavailable(connect):
    with socket.socket() as taken:  # bound but not listening, so no other process answers on this port
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(triage_client.UnavailableError):
            connect(f"127.0.0.1:{taken.getsockname()[1]}").triage(STATE)


@each_call
def test_every_call_has_the_clients_deadline(connect, silent, call):
    with pytest.raises(triage_client.DeadlineExceededError):  # an interview's own would be half an hour
        call(connect(silent, timeout_seconds=0.2))


@pytest.mark.parametrize("call", [CALLS["triage"], interviewed], ids=["triage", "interview"])
def test_a_call_and_an_interview_may_have_deadlines_of_their_own_and_never_none(connect, silent, call):
    client = connect(silent, timeout_seconds=500)
    with pytest.raises(triage_client.DeadlineExceededError):
        call(client, timeout_seconds=0.2)
    with pytest.raises(ValueError, match="timeout_seconds"):
        call(client, timeout_seconds=float("inf"))


@pytest.mark.parametrize("client", [TriageClient, AsyncTriageClient])
def test_the_deadline_is_two_seconds_where_none_is_given(client):
    assert inspect.signature(client).parameters["timeout_seconds"].default == 2.0


def test_a_task_that_is_cancelled_is_cancelled(silent):
    async def cancel(call):
        task = asyncio.ensure_future(call)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def main():
        async with AsyncTriageClient(silent, timeout_seconds=30.0) as client:
            await cancel(client.triage(STATE))
            async with client.interview() as interview:
                await cancel(interview.present("fever"))
                with pytest.raises(ValueError, match="ended"):
                    await interview.present("fever")

    asyncio.run(main())


@pytest.mark.parametrize("call", [CALLS["triage"], interviewed], ids=["triage", "interview"])
def test_a_closed_client_says_so(connect, server, call):
    client = connect(server.address)
    client.close()
    with pytest.raises(ValueError, match="closed"):
        call(client)


@each_call
def test_every_call_carries_the_token(connect, scripted, call):
    service, address = scripted
    call(connect(address, token="abc"))
    call(connect(address))
    assert service.tokens == ["Bearer abc", None]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_call_is_tried_again_while_the_server_is_unavailable(connect, scripted, call):
    service, address = scripted
    service.failures = [grpc.StatusCode.UNAVAILABLE] * (MAX_ATTEMPTS - 1)
    call(connect(address))
    assert list(service.calls.values()) == [MAX_ATTEMPTS]


@pytest.mark.parametrize(
    ("status", "attempts"), [(grpc.StatusCode.UNAVAILABLE, MAX_ATTEMPTS), (grpc.StatusCode.INTERNAL, 1)]
)
def test_attempts_are_limited_and_another_failure_is_not_tried_again(connect, scripted, status, attempts):
    service, address = scripted
    service.failures = [status] * 10
    with pytest.raises(triage_client.TriageError) as error:
        connect(address).triage(STATE)
    assert (error.value.status, service.calls["Triage"]) == (status, attempts)


def test_an_interview_is_not_tried_again(connect, scripted):
    service, address = scripted
    service.failures = [grpc.StatusCode.UNAVAILABLE] * 10
    with pytest.raises(triage_client.TriageError):  # of which status depends on what asyncio notices first
        interviewed(connect(address))
    assert service.calls == {"Interview": 1}


def test_a_server_that_fails_more_than_it_answers_gets_no_second_attempts(scripted):
    service, address = scripted
    service.failures = [grpc.StatusCode.UNAVAILABLE] * 100
    with TriageClient(address, timeout_seconds=30.0) as client:
        attempts = []
        for _ in range(4):
            before = service.calls["Triage"]
            with pytest.raises(triage_client.UnavailableError):
                client.triage(STATE)
            attempts.append(service.calls["Triage"] - before)
    # Each failure takes one of 20 tokens, and only above 10 is a call tried again: 20 - 4 - 4 - 2 = 10.
    assert attempts == [4, 4, 2, 1]


@pytest.mark.parametrize(
    ("wrong", "error", "named"),
    [
        *(({name: said}, TypeError, name) for name in ("present", "absent") for said in ("fever", ["fever", math.nan])),
        ({"questions_asked": True}, TypeError, "True"),
        ({"max_questions": 2**31}, ValueError, ""),  # in protobuf's words
        ({"present": ["\ud800"]}, ValueError, ""),
    ],
)
def test_what_is_no_evidence_state_is_refused(wrong, error, named):
    with pytest.raises(error, match=named):
        evidence_state(**wrong)
