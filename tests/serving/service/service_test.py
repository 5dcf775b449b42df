"""TriageService through the wire, with either engine behind it: hand-set answers, and refusals that help."""

import json
import shutil

import grpc
import numpy as np
import pytest

from serving.client.channel import ConnectionOptions
from serving.console.case import PRESENT, Case, Statement
from serving.console.served_model import ServedModel
from serving.engine.model_config import ModelConfig, VersionPolicy
from serving.engine.remote import Connection, RemoteModels
from tests.builders import channel_to, http_to, network_of, served, symptoms, trained_agent, watching, write_version
from trainer.graph.decide import OperatingPoint
from trainer.graph.mixture import Mixture
from triage.v1 import triage_pb2, triage_service_pb2, triage_service_pb2_grpc
from triage_client import TriageClient, TriageError, evidence_state

RED, YELLOW, ASK = triage_pb2.TRIAGE_ACTION_RED, triage_pb2.TRIAGE_ACTION_YELLOW, triage_pb2.TRIAGE_ACTION_ASK
GREEN = triage_pb2.TRIAGE_ACTION_GREEN
REMOTE = {"engine": "tensorflow-serving", "tf_serving": "localhost:1"}


@pytest.fixture(scope="module", params=["server", "remote_server"])
def address(request):
    """The address of a server with the engine in its process, and of one with the engine elsewhere."""
    return request.getfixturevalue(request.param).address


@pytest.fixture(scope="module")
def client(address):
    with TriageClient(address, timeout_seconds=30.0) as client:
        yield client


@pytest.fixture(scope="module")
def channel(address):
    with channel_to(address) as channel:
        yield channel


def values(response):
    return [q_value.value for q_value in response.q_values]


@pytest.mark.parametrize(
    ("state", "q_values", "action", "best_triage"),
    [
        (evidence_state(["chest_pain"]), "chest_pain_q", RED, RED),
        (evidence_state(["fever"]), "fever_q", ASK, YELLOW),
        (evidence_state(["fever"], no_more_evidence=True), "fever_q", YELLOW, YELLOW),
        (evidence_state(["fever"], questions_asked=10), "fever_q", YELLOW, YELLOW),
        (evidence_state(["fever"], questions_asked=2, max_questions=2), "fever_q", YELLOW, YELLOW),
    ],
    ids=["triage", "ask", "no more evidence", "the model's limit", "the request's limit"],
)
def test_a_state_gets_the_answer_of_the_hand_set_weights(client, hand_set, state, q_values, action, best_triage):
    response = client.triage(state)
    assert values(response) == pytest.approx(getattr(hand_set, q_values), abs=1e-6)
    assert (response.action, response.best_triage) == (action, best_triage)
    assert response.forced is (state != evidence_state(["chest_pain"]) and action != ASK)
    assert response.model_version == "3"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda client: client.triage(evidence_state(["fever"]), defer_below=1.5), "defer_below: 1.5: "),
        (lambda client: client.triage(evidence_state(["fever"] * 6)), "state.evidence: 6 "),
        (lambda client: client.batch_triage([evidence_state(["fever"])] * 5), "states: 5 "),
    ],
)
def test_a_faulty_request_is_refused_with_the_place_of_the_fault(client, call, message):
    with pytest.raises(TriageError) as error:
        call(client)
    assert error.value.status is grpc.StatusCode.INVALID_ARGUMENT
    assert error.value.message.startswith(message)


def test_a_refusal_of_many_codes_arrives_whole(client):
    # A status message longer than 8 KiB would reach the client as RESOURCE_EXHAUSTED, its text lost.
    states = [evidence_state([f"fièvre_{'é' * 100}_{number}_{place}" for number in range(5)]) for place in range(4)]
    with pytest.raises(TriageError) as error:
        client.batch_triage(states)
    assert error.value.status is grpc.StatusCode.INVALID_ARGUMENT
    assert "fièvre" in error.value.message


def test_an_interview_is_answered_after_each_piece_and_the_server_counts_the_questions(client, hand_set):
    with client.interview() as interview:
        first, second = interview.present("fever"), interview.absent("smoker")
        third, fourth = interview.not_known(), interview.present("chest_pain")
    assert [answer.questions_asked for answer in (first, second, third, fourth)] == [0, 1, 2, 3]
    assert values(first.response) == pytest.approx(hand_set.fever_q, abs=1e-6)
    assert [answer.response.action for answer in (first, second, third)] == [ASK] * 3
    assert second.response == third.response
    # Red: sigmoid(L) = 3/4; ask: fever adds 2 L, the absent smoker L.
    assert values(fourth.response) == pytest.approx((0.75, 0.75, 0.5, 0.5, 27 / 28), abs=1e-6)
    assert not any(answer.ended for answer in (first, second, third, fourth))


def test_a_version_hands_over_what_may_be_red_to_callers_who_ask_for_that(without_litert, tmp_path):
    kernel = np.zeros([3, 7])
    kernel[0, 3] = -2.5  # with a fever, not all are below Red: it is appropriate with 1 - sigmoid(.5) = .38
    kernel[1, 3] = -9.0  # with a collapse, Red is decided
    network = network_of((kernel, [3, 2, -3, 3, 2, -3, -9]), outputs="probabilities")  # Green is appropriate, and safe
    vocabulary, point = symptoms("fever", "collapse", "rash"), OperatingPoint(hand_over_from=0.3)
    with without_litert():
        write_version(tmp_path / "models", trained_agent(network, vocabulary, operating_point=point))
    with (
        served(tmp_path / "models") as server,
        TriageClient(server.address, timeout_seconds=60.0) as client,
        client.interview(defer_below=0.0) as interview,
    ):
        states = [evidence_state([code]) for code in vocabulary.codes]
        asked, silent = client.batch_triage(states, defer_below=0.0), client.batch_triage(states)
        assert interview.present("fever").ended
    unsure = triage_pb2.DEFERRAL_REASON_UNSURE
    assert [answer.deferred for answer in asked] == [unsure, 0, 0]
    assert [answer.best_triage for answer in asked] == [GREEN, RED, GREEN]
    assert not any(answer.HasField("deferred") for answer in silent)


def test_a_case_in_which_nothing_is_left_to_ask_is_handed_over_by_every_route(without_litert, tmp_path):
    # Green is safe with sigmoid(1) = .73, and the best decision; asking is worth more.
    network = network_of((np.zeros([3, 7]), [3, 1, -3, 3, 1, -3, 9]), outputs="probabilities")
    half = np.full([1, 3], 0.5, np.float32)
    mixture = Mixture(np.zeros(1, np.float32), half, np.full([1, 8], 0.5, np.float32), half)
    vocabulary, base = symptoms("fever", "collapse", "rash"), tmp_path / "models"
    with without_litert():
        write_version(base, trained_agent(network, vocabulary, questions=mixture))
    codes = vocabulary.codes
    with (
        served(base, http_port=0) as server,
        http_to(server) as http,
        ServedModel(ConnectionOptions(server.address, timeout=60.0)) as console,
        TriageClient(server.address, timeout_seconds=60.0) as client,
        client.interview(defer_below=0.9, questions=1) as interview,
    ):
        some, everything = evidence_state(codes[:2]), evidence_state(codes)
        asked = client.batch_triage([some, everything], questions=1, defer_below=0.9)
        silent, safe = (client.triage(everything, questions=1, defer_below=below) for below in (None, 0.7))
        assert not interview.present(*codes[:2]).ended
        last = interview.present(codes[2])
        over_http = http.post("/v1/interview", json={"present": codes, "defer_below": 0.9}).json()
        shown = console.answer(Case(tuple(Statement(code, PRESENT, False) for code in codes)), 0.9).response
    assert [each.action for each in (*asked, silent, safe)] == [ASK] * 4
    assert not any(each.HasField("deferred") for each in (asked[0], silent, safe))
    unsure = triage_pb2.DEFERRAL_REASON_UNSURE
    assert [each.deferred for each in (asked[1], last.response, shown)] == [unsure] * 3
    assert last.ended
    assert (over_http["decision"], over_http["answer"]["deferred"]) == (None, "unsure")


def test_an_interview_without_a_deadline_is_refused(channel):
    stub = triage_service_pb2_grpc.TriageServiceStub(channel)
    for timeout in (None, 4000):
        with pytest.raises(grpc.RpcError) as error:
            next(stub.Interview(iter([triage_service_pb2.InterviewRequest()]), timeout=timeout))
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert error.value.details().endswith("3600 s")


def test_interviews_have_places_of_their_own_and_give_them_back(client):
    with client.interview() as one, client.interview() as two:
        one.present("fever")
        two.present("fever")
        with client.interview() as three, pytest.raises(TriageError) as error:
            three.present("fever")
        assert error.value.status is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert error.value.message.startswith("2 interviews")
        assert client.triage(evidence_state(["fever"])).action == ASK
        for interview in (one, two):
            interview.no_more_evidence()
            with pytest.raises(ValueError, match="ended"):
                interview.not_known()
    with client.interview() as four:
        assert four.present("fever").response.action == ASK


def test_an_interview_stays_with_its_version(model_base_path, tmp_path):
    shutil.copytree(model_base_path / "3", tmp_path / "3")
    watcher = watching(tmp_path)
    with (
        served(watcher) as server,
        TriageClient(server.address, timeout_seconds=60.0) as client,
        client.interview() as interview,
    ):
        assert interview.present("fever").response.model_version == "3"
        shutil.copytree(model_base_path / "3", tmp_path / "5")
        watcher.look()
        assert client.triage(evidence_state(["fever"])).model_version == "5"
        assert interview.not_known().response.model_version == "3"
        assert [status.state.name for status in watcher.versions.statuses()] == ["UNLOADING", "AVAILABLE"]


def test_the_model_reports_how_it_was_made(client, vocabulary):
    info = client.model_info()
    assert (info.model_version, info.evidence_count, info.max_questions) == ("3", 3, 10)
    assert info.vocabulary_fingerprint == vocabulary.fingerprint
    assert info.data_fingerprint == "sha256:data"
    assert json.loads(info.manifest_json)["metrics"] == {"safety": 0.9}


def test_a_version_that_went_away_elsewhere_is_replaced_within_the_call(model_base_path, tmp_path):
    for number in ("3", "5"):
        shutil.copytree(model_base_path / "3", tmp_path / number)
    there = watching(tmp_path, policy=VersionPolicy(numbers=frozenset([3])))
    with served(there) as back:
        connection = Connection(back.address, timeout_seconds=30.0)
        here = watching(tmp_path, RemoteModels(connection, "triage"))
        with served(here, **REMOTE) as front, TriageClient(front.address, timeout_seconds=60.0) as client:
            assert client.triage(evidence_state(["fever"])).model_version == "3"
            there.reload(ModelConfig("triage", str(tmp_path), VersionPolicy(numbers=frozenset([5]))))
            assert client.triage(evidence_state(["fever"])).model_version == "5"
        connection.close()


def test_a_request_without_a_state_is_refused(channel):
    stub = triage_service_pb2_grpc.TriageServiceStub(channel)
    with pytest.raises(grpc.RpcError) as error:
        stub.Triage(triage_service_pb2.TriageRequest(), timeout=30)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.value.details().startswith("state: ")
