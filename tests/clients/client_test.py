"""The sync client, against the real server."""

import contextlib
import socket
import threading

import grpc
import pytest

import triage_client
from triage_client import TriageAction, TriageClient, evidence_state

SECONDS = 30.0
STATE = evidence_state(["fever"])


@pytest.fixture
def client(server):
    with TriageClient(server.address, timeout_seconds=SECONDS) as client:
        yield client


def test_a_state_is_answered(client):
    response = client.triage(evidence_state(["fever"], ["chest_pain"]))
    # sigmoid([0, 1, 0, 0, 2] - [2, 0, 0, 0, 0])
    assert [round(each.value, 3) for each in response.q_values] == [0.119, 0.731, 0.5, 0.5, 0.881]
    assert response.action == TriageAction.TRIAGE_ACTION_ASK
    assert response.best_triage == TriageAction.TRIAGE_ACTION_YELLOW
    assert response.model_version == "7"


def test_a_batch_is_answered_in_its_order(client):
    responses = client.batch_triage([evidence_state(["chest_pain"]), evidence_state(["fever"], no_more_evidence=True)])
    assert [each.action for each in responses] == [
        TriageAction.TRIAGE_ACTION_RED,
        TriageAction.TRIAGE_ACTION_YELLOW,
    ]


def test_unknown_codes_are_allowed_where_that_is_said(client):
    state = evidence_state(["fever", "gout"])
    assert client.triage(state, allow_unknown_codes=True).unknown_codes == ["gout"]
    assert client.batch_triage([state], allow_unknown_codes=True)[0].unknown_codes == ["gout"]
    with client.interview(allow_unknown_codes=True) as interview:
        assert interview.present("fever").response.unknown_codes == []
        assert interview.present("gout").response.unknown_codes == ["gout"]


def test_the_model_and_its_vocabulary_are_reported(client):
    info, vocabulary = client.model_info(), client.vocabulary()
    assert (info.model_version, info.evidence_count, info.max_questions) == ("7", 2, 3)
    assert [(entry.code, entry.question) for entry in vocabulary.entries] == [
        ("fever", "fever, do you have it?"),
        ("chest_pain", "chest_pain, do you have it?"),
    ]
    assert info.vocabulary_fingerprint == vocabulary.vocabulary_fingerprint


def test_several_codes_answer_one_question(client):
    with client.interview() as interview:
        first = interview.present("fever")
        second = interview.answer(present=["fever"], absent=["chest_pain"])
        assert [each.questions_asked for each in (first, second)] == [0, 1]
        assert second.response.q_values == client.triage(evidence_state(["fever"], ["chest_pain"])).q_values
        with pytest.raises(ValueError, match="expected a code that is present or absent"):
            interview.answer()
    with client.interview() as interview:
        none = interview.absent("fever", "chest_pain").response
        assert none.q_values == client.triage(evidence_state([], ["fever", "chest_pain"])).q_values


def test_an_interview_is_answered_on_all_that_was_said(client):
    with client.interview(max_questions=2) as interview:
        first = interview.present("fever")  # ask is the best action at 0.881
        second = interview.not_known()
        third = interview.absent("chest_pain")  # the second question: at the limit the server must triage
        with pytest.raises(ValueError, match="the interview has ended"):
            interview.not_known()
    assert [each.questions_asked for each in (first, second, third)] == [0, 1, 2]
    assert [each.response.action for each in (first, second, third)] == [
        TriageAction.TRIAGE_ACTION_ASK,
        TriageAction.TRIAGE_ACTION_ASK,
        TriageAction.TRIAGE_ACTION_YELLOW,
    ]
    assert third.ended


def test_an_interview_ends_when_no_more_is_known(client):
    with client.interview() as interview:
        assert not interview.present("fever").ended
        assert interview.no_more_evidence().ended


def test_nothing_is_sent_after_the_end(scripted):
    with TriageClient(scripted[1], timeout_seconds=SECONDS) as client, client.interview() as interview:
        interview.no_more_evidence()
        with pytest.raises(ValueError, match="the interview has ended"):  # though this server's stream is still open
            interview.present("fever")


def test_interviews_that_were_left_are_given_back(client):
    begun = 0
    for _ in range(1000):
        with client.interview() as interview, contextlib.suppress(triage_client.ResourceExhaustedError):
            interview.present("fever")  # refused while the server has not yet noticed that the others ended
            begun += 1
        if begun == 6:  # the server conducts two at a time
            return
    pytest.fail("the server holds on to interviews that were left")


@pytest.mark.parametrize("call", ["triage", "batch_triage", "interview"])
def test_a_wrong_code_is_an_invalid_argument_with_the_servers_words(client, call):
    def interview():
        with client.interview() as interview:
            interview.present("fevr")

    state = evidence_state(["fevr"])
    calls = {
        "triage": lambda: client.triage(state),
        "batch_triage": lambda: client.batch_triage([state]),
        "interview": interview,
    }
    with pytest.raises(triage_client.InvalidArgumentError, match="did you mean fever") as error:
        calls[call]()
    assert error.value.status is grpc.StatusCode.INVALID_ARGUMENT
    assert "did you mean fever" in error.value.message
    assert isinstance(error.value.__cause__, grpc.RpcError)


def test_a_batch_that_is_too_large_is_refused(client):
    with pytest.raises(triage_client.InvalidArgumentError, match="5 states in one call: the server takes at most 4"):
        client.batch_triage([STATE] * 5)  # the server takes 4


def test_a_server_that_is_missing_is_unavailable():
    with socket.socket() as taken:  # bound but not listening, so no other process answers on this port
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            TriageClient(address, timeout_seconds=SECONDS) as client,
            pytest.raises(triage_client.UnavailableError, match="failed to connect"),
        ):
            client.triage(STATE)


def test_another_service_is_unimplemented():
    server = grpc.server(None)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with (
        TriageClient(f"127.0.0.1:{port}", timeout_seconds=SECONDS) as client,
        pytest.raises(triage_client.UnimplementedError),
    ):
        client.triage(STATE)
    server.stop(0).wait()


@pytest.mark.parametrize("call", ["triage", "batch_triage", "model_info", "vocabulary", "interview"])
def test_every_call_has_the_clients_deadline(silent, call):
    def interview():
        with client.interview() as interview:  # which may take half an hour
            interview.present("fever")

    with TriageClient(silent, timeout_seconds=0.2) as client:
        calls = {
            "triage": lambda: client.triage(STATE),
            "batch_triage": lambda: client.batch_triage([STATE]),
            "model_info": client.model_info,
            "vocabulary": client.vocabulary,
            "interview": interview,
        }
        with pytest.raises(triage_client.DeadlineExceededError):
            calls[call]()


def test_a_call_and_an_interview_may_have_deadlines_of_their_own(silent):
    with TriageClient(silent, timeout_seconds=500) as client:
        with pytest.raises(triage_client.DeadlineExceededError):
            client.triage(STATE, timeout_seconds=0.2)
        with client.interview(timeout_seconds=0.2) as interview, pytest.raises(triage_client.DeadlineExceededError):
            interview.present("fever")


@pytest.mark.parametrize("call", ["triage", "interview"])
def test_no_call_goes_without_a_deadline(client, call):
    calls = {
        "triage": lambda: client.triage(STATE, timeout_seconds=0),
        "interview": lambda: client.interview(timeout_seconds=float("inf")),
    }
    with pytest.raises(ValueError, match="timeout_seconds: expected a number of seconds above 0"):
        calls[call]()


def test_the_deadline_is_two_seconds_where_none_is_given(scripted):
    service, address = scripted
    with TriageClient(address) as client:
        client.triage(STATE)
    assert 1.0 < service.seconds[0] < 2.5  # the call carries a duration, which the server counts from its arrival


def test_a_closed_client_says_so(server):
    client = TriageClient(server.address)
    client.close()
    with pytest.raises(ValueError, match="closed channel"):
        client.triage(STATE)


def test_threads_share_a_client(client):
    versions = []
    threads = [threading.Thread(target=lambda: versions.append(client.triage(STATE).model_version)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert versions == ["7"] * 8
