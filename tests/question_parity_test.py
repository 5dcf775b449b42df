"""The same question in the same state by every route: trainer, SavedModel, LiteRT, server and client."""

import dataclasses
import hashlib
import json

import jsonschema
import numpy as np
import pytest
import tensorflow as tf

from schemas import features
from schemas.evidence import Evidence, Vocabulary
from schemas.safety_rules import RuleSet, SafetyRule
from schemas.triage import Action
from serving.engine.litert import LiteRtEngine
from serving.message_json import message_figures
from tests.builders import http_to, network_of, served, trained_agent
from trainer.config import NetworkConfig
from trainer.decision.decision import NEUTRAL
from trainer.decision.mixture import Mixture
from trainer.decision.question_graph import QuestionGraph
from trainer.dyqn.network import WITH_PROBABILITIES, WITH_SINGLE_DECISIONS, build_network
from trainer.export import saved_model
from trainer.export.conversion import convert
from trainer.export.policy import load_version
from triage.v1 import triage_pb2
from triage_client import InvalidArgumentError, QuestionReason, TriageAction, TriageClient, evidence_state
from triage_runtime.litert import LiteRtModel

EVIDENCE_COUNT, STATES, ONE_BY_ONE = 40, 10_000, 300
AGES, SEXES, MEASURED = ("e30", "e31", "e32"), ("e35", "e36"), "e39"


def _entry(code):
    group = "age" if code in AGES else "sex" if code in SEXES else ""
    return Evidence(
        code, "symptom", code, f"{code}?", exclusive=group, instrument="stethoscope" if code == MEASURED else ""
    )


VOCABULARY = Vocabulary(_entry(f"e{cell}") for cell in range(EVIDENCE_COUNT))


@pytest.fixture(scope="module")
def rules():
    flag = SafetyRule("flag", "A red flag.", Action.RED, True, all_of=(("e1", True), ("e2", True)))
    return RuleSet((flag,), "made", f"sha256:{hashlib.sha256(b'').hexdigest()}", "")


@pytest.fixture(scope="module")
def mixture():
    generator = np.random.default_rng(0)
    present = generator.uniform(0.02, 0.4, [8, EVIDENCE_COUNT]).astype(np.float16).astype(np.float32)
    truths = generator.uniform(0.05, 0.95, [8, 8]).astype(np.float16).astype(np.float32)
    return Mixture(np.full(8, np.log(1 / 8), np.float32), present, truths, present)


@pytest.fixture(scope="module")
def base(mixture, rules, tmp_path_factory):
    model = network_of((np.zeros([EVIDENCE_COUNT, 5]), [0, 0, 1, 0, 2]))  # always asks, and otherwise says Green
    base = tmp_path_factory.mktemp("models")
    saved_model.write_version(base, trained_agent(model, VOCABULARY, rules=rules, questions=mixture))
    return base


@pytest.fixture(scope="module")
def version(base):
    return load_version(base / "1")


@pytest.fixture(scope="module")
def network():
    """A network with probabilities and random weights, which asks in some of the states."""
    settings = NetworkConfig(hidden_sizes=(8,), activation="relu", inputs="two", outputs="probabilities")
    network = build_network(EVIDENCE_COUNT, settings, seed=0)
    generator = np.random.default_rng(3)
    for layer in ("hidden_1", "q_values"):
        weights = network.get_layer(layer).get_weights()
        network.get_layer(layer).set_weights([generator.normal(0, 0.5, weight.shape) for weight in weights])
    bias = network.get_layer("q_values").bias
    bias.assign(bias + 0.5 * (np.arange(WITH_SINGLE_DECISIONS) >= WITH_PROBABILITIES))
    return network


@pytest.fixture(scope="module")
def judging(network, mixture, rules, without_litert, tmp_path_factory):
    """The folder of a version in which that network judges questions."""
    base = tmp_path_factory.mktemp("judging")
    with without_litert():
        saved_model.write_version(base, trained_agent(network, VOCABULARY, rules=rules, questions=mixture))
    return base


@pytest.fixture(scope="module")
def states():
    generator = np.random.default_rng(1)
    states = np.zeros([STATES, EVIDENCE_COUNT], np.float32)
    for row in states:
        known = generator.permutation(EVIDENCE_COUNT)[: generator.integers(0, 13)]
        row[known] = generator.choice([-1, 1], len(known))
        for group in (AGES, SEXES):  # of which nobody has two
            cells = [VOCABULARY.index(code) for code in group]
            row[[cell for cell in cells if row[cell] > 0][1:]] = 0
    return states


def _nobody_measures(states):
    return tf.constant(np.broadcast_to([code == MEASURED for code in VOCABULARY.codes], states.shape))


@pytest.fixture(scope="module")
def expected(mixture, rules, states):
    """The codes of the three best questions in each state, in the words of the trainer."""
    graph = QuestionGraph(mixture, VOCABULARY, rules.rules, NEUTRAL)
    return graph(tf.constant(states), _nobody_measures(states)).codes.numpy()[:, :3]


def _messages(states):
    names = np.array(VOCABULARY.codes)
    return [evidence_state(names[row > 0].tolist(), names[row < 0].tolist()) for row in states]


def _cells(questions):
    return [VOCABULARY.index(question.code) for question in questions]


def _share(answers, expected):
    return np.mean([list(answer) == list(row) for answer, row in zip(answers, expected, strict=True)])


@pytest.fixture(scope="module")
def server(base):
    with served(base, http_port=0) as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with TriageClient(server.address, timeout_seconds=60) as client:
        yield client


@pytest.fixture(scope="module")
def http(server):
    with http_to(server) as http:
        yield http


def test_a_saved_model_asks_as_the_trainer_does(version, states, expected):
    signature = version.model.signatures[features.QUESTIONS]
    answer = signature(states=tf.constant(states), not_to_ask=_nobody_measures(states))
    assert _share(answer[features.QUESTION_CODES].numpy()[:, :3], expected) >= 0.999


def test_questions_that_the_deciding_network_judges_are_the_same_by_every_route(
    network, judging, mixture, rules, states
):
    known = states != 0
    groups = [known[:, [VOCABULARY.index(code) for code in group]].any(axis=1) for group in (AGES, SEXES)]
    rows = states[groups[0] & groups[1]][:200]  # no opening, which all choose alike
    graph = QuestionGraph(mixture, VOCABULARY, rules.rules, NEUTRAL, network)
    asked = graph(tf.constant(rows), _nobody_measures(rows))
    codes, worth = (values.numpy()[:, :3] for values in (asked.codes, asked.worth_asking))
    by_mixture = QuestionGraph(mixture, VOCABULARY, rules.rules, NEUTRAL)
    others = by_mixture(tf.constant(rows), _nobody_measures(rows)).codes.numpy()[:, :3]
    assert _share(others, codes) < 0.5
    assert 0.05 < worth.mean() < 0.95
    version = load_version(judging / "1")
    answers = [_by_signature(version, rows), _by_phone(version, rows), *_by_server(judging, rows)]
    for answered, worth_asking in answers:
        assert _share(answered, codes) >= 0.99
        assert np.mean(np.asarray(worth_asking) == worth) >= 0.99


def _by_signature(version, rows):
    signature = version.model.signatures[features.QUESTIONS]
    answer = signature(states=tf.constant(rows), not_to_ask=_nobody_measures(rows))
    return (answer[name].numpy()[:, :3] for name in (features.QUESTION_CODES, features.QUESTION_WORTH_ASKING))


def _by_phone(version, rows):
    model = LiteRtModel(convert(version, "none"))
    measured = _nobody_measures(np.zeros([1, EVIDENCE_COUNT])).numpy()
    answers = [model.ask(row[np.newaxis], measured) for row in rows]
    return (
        [answer[name][0, :3] for answer in answers]
        for name in (features.QUESTION_CODES, features.QUESTION_WORTH_ASKING)
    )


def _by_server(base, rows):
    """Returns what a client gets, and what HTTP says."""
    with (
        served(base, http_port=0) as server,
        TriageClient(server.address, timeout_seconds=60) as client,
        http_to(server) as http,
    ):
        by_grpc = [each.next_questions for each in client.batch_triage(_messages(rows), questions=3)]
        answers = http.post("/v1/triage", json={"states": _bodies(rows), "questions": 3}).json()["answers"]
    over_http = [each["next_questions"] for each in answers]
    return [
        ([_cells(each) for each in by_grpc], [[question.worth_asking for question in each] for each in by_grpc]),
        (
            [[VOCABULARY.index(question["code"]) for question in each] for each in over_http],
            [[question["worth_asking"] for question in each] for each in over_http],
        ),
    ]


def test_red_flags_make_the_same_question_by_every_route(network, mixture, rules, states, without_litert, tmp_path):
    """Nine of the vocabulary, and e2 where e1 is present; of at most six in one question the first is the likeliest."""
    flags = {f"e{cell}" for cell in range(10, 19)}
    vocabulary = Vocabulary(
        dataclasses.replace(entry, red_flag="yes" if entry.code in flags else "") for entry in VOCABULARY
    )
    trained = trained_agent(network, vocabulary, rules=rules, questions=mixture)
    with without_litert():
        saved_model.write_version(tmp_path, trained)
    version = load_version(tmp_path / "1")
    rows = states[:100]
    asked = QuestionGraph(mixture, vocabulary, rules.rules, NEUTRAL, network)(tf.constant(rows), _nobody_measures(rows))
    expected = [[VOCABULARY.codes[cell] for cell in row if cell >= 0] for row in asked.together.numpy()]
    assert {len(codes) for codes in expected} >= {0, 6}
    signature = version.model.signatures[features.QUESTIONS]
    answers = {"SavedModel": signature(states=tf.constant(rows), not_to_ask=_nobody_measures(rows))}
    phone = LiteRtModel(convert(version, "none"))
    measured = _nobody_measures(np.zeros([1, EVIDENCE_COUNT])).numpy()
    parts = [phone.ask(row[np.newaxis], measured) for row in rows]
    answers["phone"] = {features.QUESTION_TOGETHER: np.concatenate([part["question_together"] for part in parts])}
    grouped = {
        route: [
            [VOCABULARY.codes[cell] for cell in row if cell >= 0] for row in np.asarray(answer["question_together"])
        ]
        for route, answer in answers.items()
    }
    with served(tmp_path, http_port=0) as server, TriageClient(server.address, timeout_seconds=60) as client:
        by_grpc = [each.next_questions for each in client.batch_triage(_messages(rows), questions=2)]
        with http_to(server) as http:
            body = {"states": _bodies(rows), "questions": 2}
            by_http = [each["next_questions"] for each in http.post("/v1/triage", json=body).json()["answers"]]
            entries = http.get("/v1/vocabulary").json()["entries"]
        row = next(row for row, codes in enumerate(expected) if len(codes) == 6)
        first = by_grpc[row][0]
        with client.interview(questions=1) as interview:
            known = _bodies(rows[row : row + 1])[0]
            interview.answer(known["present"], known["absent"])
            left = interview.not_known()
            assert left.questions_asked == 1
            assert not {*left.response.next_questions[0].any_of} & {*first.any_of}
        why = client.triage(_messages(rows[row : row + 1])[0], questions=1, explain=True)
    grouped["gRPC"] = [list(questions[0].any_of) for questions in by_grpc]
    grouped["HTTP"] = [questions[0]["any_of"] for questions in by_http]
    for route, codes in grouped.items():
        assert _share(codes, expected) >= 0.99, route
    assert all(questions[0].code == questions[0].any_of[0] for questions in by_grpc if questions[0].any_of)
    assert not any(questions[1].any_of for questions in by_grpc)
    assert {entry["code"] for entry in entries if entry["red_flag"]} == flags
    assert len(why.next_questions[0].any_of) == 6


def test_a_phone_asks_as_the_trainer_does(version, states, expected):
    model = LiteRtModel(convert(version, "none"))
    measured = _nobody_measures(np.zeros([1, EVIDENCE_COUNT])).numpy()
    answers = [model.ask(row[np.newaxis], measured)[features.QUESTION_CODES][0, :3] for row in states[:ONE_BY_ONE]]
    assert _share(answers, expected[:ONE_BY_ONE]) >= 0.999


def test_a_server_asks_as_the_trainer_does(client, states, expected):
    answers = []
    for start in range(0, STATES, 1000):
        responses = client.batch_triage(_messages(states[start : start + 1000]), questions=3)
        answers += [_cells(response.next_questions) for response in responses]
    assert _share(answers, expected) >= 0.999
    alone = [client.triage(message, questions=3) for message in _messages(states[:20])]
    assert [_cells(each.next_questions) for each in alone] == answers[:20]


def test_an_interview_opens_with_age_and_sex_to_choose_from(client, http):
    """Nothing is known of either, so they come before the red flag e2; of each group, one member stands for all."""
    asked = client.triage(evidence_state(["e1"]), questions=3).next_questions
    assert {tuple(question.one_of) for question in asked[:2]} == {AGES, SEXES}
    assert asked[0].code in asked[0].one_of
    assert (asked[2].code, list(asked[2].one_of)) == ("e2", [])
    over_http = http.post("/v1/triage", json={"present": ["e1"], "questions": 1}).json()["next_questions"]
    assert over_http[0]["one_of"] == list(asked[0].one_of)
    # Who cannot tell the age is not asked about another band of it; both answers together are one question.
    with client.interview(questions=3) as interview:
        first = interview.present("e1").response.next_questions[0]
        left = interview.not_known().response.next_questions
        assert not {question.code for question in left} & set(first.one_of)
    with client.interview(questions=3) as interview:
        interview.present("e1")
        answer = interview.present("e31", "e36")
        assert answer.questions_asked == 1
        assert answer.response.next_questions[0].code == "e2"
        assert not {question.code for question in answer.response.next_questions} & {*AGES, *SEXES}


def test_what_takes_an_instrument_is_asked_only_where_somebody_can_measure(client, http):
    """Everything else but the last two codes is known; the group of e39 is none."""
    rest = [code for code in VOCABULARY.codes if code not in ("e38", MEASURED, *AGES[1:], *SEXES[1:])]
    state = evidence_state([AGES[0], SEXES[0]], [code for code in rest if code not in (AGES[0], SEXES[0])])
    assert [question.code for question in client.triage(state, questions=3).next_questions] == ["e38"]
    able = client.triage(state, questions=3, can_measure=True).next_questions
    assert {question.code for question in able} == {"e38", MEASURED}
    [batched] = client.batch_triage([state], questions=3, can_measure=True)
    assert len(batched.next_questions) == 2
    body = {"present": [AGES[0], SEXES[0]], "absent": [each.code for each in state.evidence[2:]], "questions": 3}
    assert len(http.post("/v1/triage", json=body).json()["next_questions"]) == 1
    assert len(http.post("/v1/triage", json={**body, "can_measure": True}).json()["next_questions"]) == 2


ADULT = (AGES[1], SEXES[1])


def test_a_question_says_what_it_asks_and_why(client):
    [first, second] = client.triage(evidence_state(["e1", *ADULT]), questions=2).next_questions
    assert (first.code, first.question) == ("e2", "e2?")  # a yes would be the red flag
    assert first.reason == QuestionReason.QUESTION_REASON_RED_FLAG
    assert second.reason == QuestionReason.QUESTION_REASON_INFORMATION
    assert second.expected_gain > 0
    assert 0 < second.likely < 1


def test_a_server_without_tensorflow_asks_as_the_trainer_does(base, states, expected):
    engine = LiteRtEngine(base / "1")
    questions = engine.next_questions(_messages(states[:ONE_BY_ONE]), 3, [MEASURED])
    assert _share(map(_cells, questions), expected[:ONE_BY_ONE]) >= 0.999


def test_callers_who_ask_for_no_questions_get_none(client):
    assert not client.triage(evidence_state(["e1"])).next_questions
    assert not client.batch_triage([evidence_state(["e1"])])[0].next_questions


def test_no_question_is_about_what_is_not_to_be_asked_or_where_asking_is_not_possible(client):
    codes = [question.code for question in client.triage(evidence_state(["e3", *ADULT]), questions=10).next_questions]
    others = client.triage(evidence_state(["e3", *ADULT]), questions=10, not_to_ask=[*codes[:2], "gout"]).next_questions
    assert [question.code for question in others][:8] == codes[2:]
    assert not client.triage(evidence_state(["e3"], no_more_evidence=True), questions=3).next_questions


@pytest.mark.parametrize("number", [-1, 11])
def test_a_number_of_questions_out_of_range_is_refused(client, number):
    with pytest.raises(InvalidArgumentError, match=r"questions: .*expected a number from 0 to 10"):
        client.triage(evidence_state(["e3"]), questions=number)


def test_an_interview_asks_and_does_not_ask_again_what_nobody_could_tell(client):
    with client.interview(questions=2) as interview:
        answer = interview.present("e3", *ADULT)
        put = [question.code for question in answer.response.next_questions]
        assert len(put) == 2
        answer = interview.not_known()
        left = [question.code for question in answer.response.next_questions]
        assert left[0] == put[1]
        assert put[0] not in left
        assert answer.questions_asked == 1
        answer = interview.absent(left[0])
        assert put[0] not in [question.code for question in answer.response.next_questions]
        assert answer.response.action == TriageAction.TRIAGE_ACTION_ASK


def test_a_version_without_questions_says_so_where_they_are_asked_for(without_litert, tmp_path):
    with without_litert():
        saved_model.write_version(tmp_path, trained_agent(network_of((np.ones([EVIDENCE_COUNT, 5]), 0)), VOCABULARY))
    with served(tmp_path) as server, TriageClient(server.address, timeout_seconds=60) as client:
        assert client.triage(evidence_state(["e1"])).action != triage_pb2.TRIAGE_ACTION_UNSPECIFIED
        with pytest.raises(InvalidArgumentError, match="model version 1 cannot choose questions"):
            client.triage(evidence_state(["e1"]), questions=1)
        interview = client.interview(questions=1)
        with interview, pytest.raises(InvalidArgumentError, match=r"settings\.questions: model version 1"):
            interview.present("e1")


def test_an_answer_explains_itself_where_that_is_asked_for(client):
    state = evidence_state(["e1", "e2"], ["e5"])
    assert not client.triage(state).HasField("explanation")
    why = client.triage(state, explain=True).explanation
    assert sorted(each.evidence.code for each in why.effects) == ["e1", "e2", "e5"]
    # The model itself says the same of every state; the rule for Red needs both of its pieces.
    assert sorted(each.code for each in why.sufficient) == ["e1", "e2"]


def _bodies(states):
    names = np.array(VOCABULARY.codes)
    return [{"present": names[row > 0].tolist(), "absent": names[row < 0].tolist()} for row in states]


def _described(http, name):
    """The schema of the OpenAPI document with this name."""
    document = http.get("/openapi.json").json()
    return {"$ref": f"#/components/schemas/{name}", "components": document["components"]}


def test_over_http_a_state_gets_the_same_questions(http, states, expected):
    body = {"states": _bodies(states[:1000]), "questions": 3}
    answers = http.post("/v1/triage", json=body).raise_for_status().json()["answers"]
    cells = [[VOCABULARY.index(question["code"]) for question in each["next_questions"]] for each in answers]
    assert _share(cells, expected[:1000]) >= 0.999
    alone = http.post("/v1/triage", json={**_bodies(states[:1])[0], "questions": 3}).json()
    for mine, theirs in zip(alone["next_questions"], answers[0]["next_questions"], strict=True):
        gain = theirs["expected_gain"]  # sums are rounded otherwise in a batch of another size
        assert mine == {**theirs, "expected_gain": pytest.approx(gain, abs=1e-6)}
    assert not http.post("/v1/triage", json=_bodies(states[:1])[0]).json()["next_questions"]


def test_an_interview_over_http_suggests_one_question_or_as_many_as_it_is_asked_for(http):
    asks = http.post("/v1/interview", json={"present": ["e1", *ADULT]}).raise_for_status().json()
    jsonschema.validate(asks, _described(http, "Interview"))
    assert (asks["done"], asks["decision"]) == (False, None)
    [question] = asks["questions"]
    assert (question["code"], question["question"], question["reason"]) == ("e2", "e2?", "red_flag")
    others = http.post("/v1/interview", json={"questions": 2, "not_to_ask": ["e2"]}).json()
    assert len(others["questions"]) == 2
    assert "e2" not in [each["code"] for each in others["questions"]]
    assert http.post("/v1/interview", json={"present": ["e1"], "questions": 0}).json()["questions"] == []
    over = http.post("/v1/interview", json={"present": ["e1"], "no_more_evidence": True}).json()
    assert (over["done"], over["decision"], over["questions"]) == (True, "Green", [])


def test_an_interview_over_http_goes_on_while_a_red_flag_is_open(mixture, rules, without_litert, tmp_path):
    """The model is sure of Green; after e1 a yes to e2 would be the red flag."""
    model = network_of((np.zeros([EVIDENCE_COUNT, 5]), [0, 0, 2, 0, 1]))
    with without_litert():
        saved_model.write_version(tmp_path, trained_agent(model, VOCABULARY, rules=rules, questions=mixture))
    with served(tmp_path, http_port=0) as server, http_to(server) as http:

        def said(**body):
            answer = http.post("/v1/interview", json=body).raise_for_status().json()
            return answer["done"], answer["decision"], [question["code"] for question in answer["questions"]]

        assert said(present=["e1", *ADULT]) == (False, None, ["e2"])
        assert said(present=["e1", *ADULT], absent=["e2"]) == (True, "Green", [])
        assert said(present=["e1", *ADULT], not_to_ask=["e2"]) == (True, "Green", [])
        assert said(present=["e1", "e2"]) == (True, "Red", [])
        assert said(present=["e1"], no_more_evidence=True) == (True, "Green", [])
        assert said(present=["e1"], questions=0) == (True, "Green", [])
        assert said(present=["e3", *ADULT]) == (True, "Green", [])
        done, _, questions = said(present=["e3"])  # age and sex come before any decision but Red
        assert (done, questions[0] in (*AGES, *SEXES)) == (False, True)


def test_an_answer_over_http_explains_itself_where_that_is_asked_for(http, client):
    body = {"present": ["e1", "e2"], "absent": ["e5"]}
    assert http.post("/v1/triage", json=body).json()["explanation"] is None
    answer = http.post("/v1/triage", json={**body, "explain": True}).raise_for_status().json()
    jsonschema.validate(answer, _described(http, "Answer"))
    expected = client.triage(evidence_state(body["present"], body["absent"]), explain=True)
    assert answer == message_figures(expected)
    why = answer["explanation"]
    assert {(each["code"], each["status"]) for each in why["effects"]} == {
        ("e1", "present"), ("e2", "present"), ("e5", "absent"),
    }  # fmt: skip
    assert sorted(each["code"] for each in why["sufficient"]) == ["e1", "e2"]  # the rule for Red needs both


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"present": ["e1"], "questions": 11}, "questions"),
        ({"present": ["e1"], "questions": "3"}, "questions"),
        ({"present": ["e1"], "not_to_ask": "e2"}, "not_to_ask"),
        ({"present": ["e1"], "explain": 1}, "explain"),
        ({"states": [{"present": ["e1"]}], "explain": True}, "explain"),  # of a single state only
    ],
)
def test_over_http_a_faulty_wish_is_named(http, body, field):
    answer = http.post("/v1/triage", content=json.dumps(body))
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field
