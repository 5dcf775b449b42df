"""One agent, one answer: what the trainer says is what every route says, in the graph, on a phone and over the wire."""

import functools
import hashlib
import types

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from tensorflow_serving.apis import prediction_service_pb2_grpc
from tf_agents.trajectories import time_step as ts

from schemas import features, parity
from schemas.danger_signs import DangerSigns
from schemas.evidence import Evidence, Vocabulary
from schemas.safety_rules import RuleSet, SafetyRule
from schemas.triage import ACTION_LABELS, DECISION_LABELS, Action
from serving.engine.litert import LiteRtEngine
from serving.engine.saved_model import SavedModelEngine
from serving.engine.state_tensors import Wish
from serving.scoring.answers import Scorer
from serving.scoring.cases import Cases
from serving.wires.message_json import message_figures
from tests.builders import channel_to, http_to, predict_request, random_network, served, trained_agent, write_version
from trainer.dyqn.environment import Observation, action_spec, time_step_spec
from trainer.dyqn.network import HEADS
from trainer.dyqn.policy import QPolicy
from trainer.export.conversion import STEPS, convert
from trainer.export.policy import load_version
from trainer.export.tflite_file import run_in_parts
from trainer.graph.closure import Closure
from trainer.graph.decide import OperatingPoint, best_triage, with_floor
from trainer.graph.mixture import Mixture
from trainer.graph.novelty import THRESHOLD, Novelty
from trainer.graph.questions import QuestionGraph
from trainer.graph.rules import RuleGraph
from triage.v1 import triage_pb2
from triage_client import TriageClient, evidence_state
from triage_runtime.litert import LiteRtModel

COUNT, MAX_QUESTIONS, BATCH, ONE_BY_ONE = 40, 23, 600, 40
TOLERANCE = 1e-5
GROUPS = {"age": range(30, 33), "sex": range(35, 37)}
MEASURED, FLAGS = 39, range(10, 19)
RULES = 12
HAND_OVER_FROM = 0.3
REASONS = (None, "contradictory", "novel", "unsure")
NOVEL, UNSURE = triage_pb2.DEFERRAL_REASON_NOVEL, triage_pb2.DEFERRAL_REASON_UNSURE


def _entry(cell, flags):
    group = next((name for name, cells in GROUPS.items() if cell in cells), "")
    return Evidence(
        f"e{cell}", "symptom", f"e{cell}", f"e{cell}?", exclusive=group,
        instrument="stethoscope" if cell == MEASURED else "", red_flag="yes" if cell in flags else "",
    )  # fmt: skip


def some_rules(vocabulary):
    """Rules of two or three conditions each, that stop asking or do not."""
    generator = np.random.default_rng(4)

    def some():
        return tuple((vocabulary.codes[cell], bool(generator.integers(2))) for cell in generator.permutation(30)[:3])

    made = (
        SafetyRule(f"r{n}", f"Reason {n}.", Action(n % 3), bool(n % 2), some()[:1], some() if n % 4 else (), some())
        for n in range(RULES)
    )
    return RuleSet(tuple(made), "made", f"sha256:{hashlib.sha256(b'').hexdigest()}", "")


def some_states():
    """States with up to 12 known pieces of evidence, four with none, and questions below, at and above the limit."""
    generator = np.random.default_rng(2)
    states = np.zeros([BATCH, COUNT], np.float32)
    for row in states[4:]:
        known = generator.permutation(COUNT)[: generator.integers(1, 13)]
        row[known] = generator.choice([-1, 1], len(known))
        for cells in GROUPS.values():  # of which nobody has two
            row[[cell for cell in cells if row[cell] > 0][1:]] = 0
    return states, generator.integers(0, MAX_QUESTIONS + 5, BATCH).astype(np.int32)


@pytest.fixture(scope="module", params=[pytest.param("Q-values", marks=pytest.mark.slow), "probabilities"])
def agent(request, made_once):
    """All that a version may have, drawn at random, the version itself, and what the trainer says of the states."""
    generator = np.random.default_rng(5)
    probable = request.param == "probabilities"
    vocabulary = Vocabulary(_entry(cell, FLAGS if probable else ()) for cell in range(COUNT))
    more = {"spread": 0.5, "seed": 3}
    if probable:
        more = {
            "spread": 0.8,
            "seed": 6,
            "inputs": "two",
            "activation": "relu",
            "networks": 2,
            "outputs": "probabilities",
        }
    present = generator.uniform(0.02, 0.4, [8, COUNT]).astype(np.float16).astype(np.float32)
    truths = generator.uniform(0.05, 0.95, [8, 8])
    truths[:, 4:] = -np.sort(-truths[:, 4:])  # what is less urgent is less safe
    truths = truths.astype(np.float16).astype(np.float32)
    prior, literals = (generator.normal(size=size).astype(np.float32) for size in ([3], [2 * COUNT, 4]))
    patients = Mixture(np.full(8, np.log(1 / 8), np.float32), present, truths, present)
    network = random_network(vocabulary, (16, 8), patients=patients, **more)
    if probable:  # a calibration that differs between columns
        outputs = network.get_layer(HEADS)
        outputs.scale.assign(generator.uniform(0.5, 2, outputs.scale.shape))
        outputs.shift.assign([1, 0.5, 0, 1.5, 0.5, -0.5, 0.7])
    trained = trained_agent(
        network,
        vocabulary,
        MAX_QUESTIONS,
        rules=some_rules(vocabulary),
        novelty=Novelty(prior, literals, np.sort(generator.normal(size=[4, 50])).astype(np.float32), 200),
        questions=patients,
        operating_point=OperatingPoint(hand_over_from=HAND_OVER_FROM),
        signs=DangerSigns({f"e{cell}": (tuple(f"e{flag}" for flag in FLAGS[:6]),) for cell in range(5)}),
    )
    states, asked = some_states()
    base = made_once(f"parity of {request.param}", lambda folder: write_version(folder, trained))
    version = load_version(base / "1")
    agent = types.SimpleNamespace(base=base, version=version, trained=trained, states=states, asked=asked)
    agent.file = functools.cache(lambda: convert(version, "none"))
    agent.turns = functools.cache(lambda: turns_on_a_phone(agent))
    agent.codes = [
        [[vocabulary.codes[cell] for cell in np.flatnonzero(row == sign)[::-1]] for sign in (1, -1)] for row in states
    ]  # in an order that is not the vocabulary's
    agent.messages = [
        evidence_state(*codes, questions_asked=int(count)) for codes, count in zip(agent.codes, asked, strict=True)
    ]
    measured = np.zeros(COUNT, bool)
    measured[MEASURED] = True
    agent.not_to_ask = np.broadcast_to(measured, states.shape)
    agent.expected = by_the_trainer(agent, probable)
    agent.clear = parity.decided_clearly(agent.expected, TOLERANCE)
    return agent


def by_the_trainer(agent, probable):
    """What the policy says, as it plays in the environment."""
    trained, forced = agent.trained, agent.asked >= MAX_QUESTIONS
    vocabulary, rules, point = trained.vocabulary, trained.rules.rules, trained.operating_point
    time_step = ts.TimeStep(
        step_type=tf.fill([BATCH], ts.StepType.MID),
        reward=tf.zeros([BATCH, 4]),
        discount=tf.ones([BATCH]),
        observation=Observation(tf.constant(agent.states), tf.constant(forced)),
    )
    specs = time_step_spec(COUNT), action_spec()
    decided = QPolicy(*specs, trained.model, point=point).action(time_step)
    graph = RuleGraph(rules, vocabulary)
    obedient = QPolicy(*specs, trained.model, rules=graph, point=point).action(time_step)
    fired = graph.fired(tf.constant(agent.states))
    best = graph.apply(fired, decided.action, best_triage(decided.info["q"])).best_triage.numpy()
    raised = obedient.action.numpy()
    network = trained.model if probable else None
    questions = QuestionGraph(trained.questions, vocabulary, rules, trained.signs, network, point)
    asked = questions(tf.constant(agent.states), tf.constant(agent.not_to_ask))
    expected = {
        "q_values": with_floor(decided.info["q"], point).numpy(),
        "action": raised,
        "best_triage": best,
        "forced": forced,
        "rules_fired": fired.numpy(),
        "novelty": trained.novelty.percentiles(Closure(vocabulary).reduced(tf.constant(agent.states))).numpy(),
        "questions": questions_of(dict(zip(features.QUESTION, asked, strict=True))),
    }
    if probable:
        assert 0.1 < asked.worth_asking.numpy()[:, 1].mean() < 0.9
        expected |= {f"p_{head}": decided.info[head].numpy() for head in ("appropriate", "safe")}
    red = expected["p_appropriate"][:, 0] if probable else np.zeros(BATCH)
    may_be_red = (best > Action.RED) & (red >= HAND_OVER_FROM)
    expected["deferred"] = np.where(expected["novelty"] > THRESHOLD, NOVEL, np.where(may_be_red, UNSURE, 0))
    expected["deferred"][expected["action"] == Action.ASK] = 0
    # A contract is worth what it compares: all actions, forced ones and ones that rules change, values and questions
    # that differ from row to row, and few rows in which rounding could decide.
    assert (decided.action.numpy() != raised).sum() > 10
    assert set(raised.tolist()) == set(Action)
    assert raised[:4].tolist() == [Action.ASK] * 4
    assert 0 < forced.sum() < BATCH
    assert expected["q_values"].std(axis=0).min() > 0.02
    assert len({codes for codes, _, _ in expected["questions"]}) > 100
    reasons = np.bincount(expected["deferred"], minlength=4)
    assert reasons[0] > 100
    assert reasons[NOVEL] > 20
    assert (reasons[UNSURE] > 30) == probable
    assert {len(together) for _, _, together in expected["questions"]} >= {0, 6}
    return expected


def questions_of(tensors):
    """The first three questions of each state: their codes, whether each is worth asking, and the first one's group."""
    codes, worth, together = (
        np.asarray(tensors[name])
        for name in (features.QUESTION_CODES, features.QUESTION_WORTH_ASKING, features.QUESTION_TOGETHER)
    )
    return [
        (tuple(cells[cells >= 0].tolist()), tuple(worth[row, :3][cells >= 0].tolist()),
         tuple(together[row][together[row] >= 0].tolist()))
        for row, cells in enumerate(codes[:, :3])
    ]  # fmt: skip


def of_messages(agent, responses, deferred):
    """The tensors that messages are made of; whether a case is handed over, only those say that were asked for it."""
    return of_json(agent, *([message_figures(each) for each in answers] for answers in (responses, deferred)))


def of_json(agent, answers, deferred):
    """The tensors that answers in JSON are made of, see `of_messages`."""
    cell, labels = agent.trained.vocabulary.index, list(ACTION_LABELS)
    rules = [rule.rule_id for rule in agent.trained.rules]
    fired = [[fired["rule_id"] for fired in answer["fired_rules"]] for answer in answers]
    read = {
        "q_values": [[answer["q_values"][label] for label in labels] for answer in answers],
        "action": [labels.index(answer["action"]) for answer in answers],
        "best_triage": [labels.index(answer["best_triage"]) for answer in answers],
        "forced": [answer["forced"] for answer in answers],
        "rules_fired": [[rule in row for rule in rules] for row in fired],
        "novelty": [answer["novelty"] for answer in answers],
        "deferred": [REASONS.index(answer["deferred"]) for answer in deferred],
    }
    assert not any(answer["deferred"] for answer in answers)
    probabilities = [answer["probabilities"] for answer in answers]
    if probabilities[0]:
        read |= {
            f"p_{name}": [[each[label][name] for label in DECISION_LABELS] for each in probabilities]
            for name in ("appropriate", "safe")
        }
    if any(answer["next_questions"] for answer in answers):
        put = [answer["next_questions"] for answer in answers]
        read["questions"] = [
            (tuple(cell(each["code"]) for each in questions), tuple(each["worth_asking"] for each in questions),
             tuple(cell(code) for each in questions[:1] for code in each["any_of"]))
            for questions in put
        ]  # fmt: skip
        assert not any(each["any_of"] for questions in put for each in questions[1:])
    return read


def state_vectors(agent):
    answer = agent.version.signature(states=tf.constant(agent.states), questions_asked=tf.constant(agent.asked))
    asks = agent.version.model.signatures[features.QUESTIONS]
    asked = asks(states=tf.constant(agent.states), not_to_ask=tf.constant(agent.not_to_ask))
    return answer | {"questions": questions_of(asked)}


def columns(agent):
    """The inputs of `serving_default`: rows of codes of one length, and the numbers of questions."""
    present, absent = ([row[sign] + [""] * (12 - len(row[sign])) for row in agent.codes] for sign in (0, 1))
    return {"present": present, "absent": absent, "questions_asked": agent.asked.tolist()}


def codes(agent):
    given = {name: tf.constant(rows) for name, rows in columns(agent).items()}
    return agent.version.model.signatures["serving_default"](**given)


def messages(agent):
    serialized = tf.constant([message.SerializeToString() for message in agent.messages])
    answers = agent.version.model.signatures["triage"](evidence_states=serialized)["triage_responses"].numpy()
    responses = list(map(triage_pb2.TriageResponse.FromString, answers))
    return of_messages(agent, responses, responses)


def litert(agent):
    engine = LiteRtEngine(agent.base / "1")
    responses = engine.triage(agent.messages, [Wish(3)] * len(agent.messages))
    return of_messages(agent, responses, responses) | {"deferred": engine.decide(agent.states, agent.asked)["deferred"]}


def score(agent):
    [answers] = scored(agent, 0, 0.0)
    rules = [rule.rule_id for rule in agent.trained.rules]
    decisions, labels = ([label.lower() for label in names] for names in (DECISION_LABELS, ACTION_LABELS))
    read = {
        "q_values": np.transpose([answers[f"q_{label}"] for label in labels]),
        "rules_fired": [[rule in row for rule in rules] for row in answers["fired_rules"]],
        "deferred": [REASONS.index(reason or None) for reason in answers["deferred"]],
    } | {name: answers[name] for name in ("forced", "novelty")}
    read |= {name: [ACTION_LABELS.index(each) for each in answers[name]] for name in ("action", "best_triage")}
    return read | {
        f"p_{name}": np.transpose([answers[f"{name}_{label}"] for label in decisions])
        for name in ("appropriate", "safe")
        if f"{name}_red" in answers
    }


def scored(agent, questions, *defer_below):
    """The columns of `triage score` for each threshold."""
    engine, (present, absent) = SavedModelEngine(agent.base / "1"), zip(*agent.codes, strict=True)
    names = list(map(str, range(BATCH)))
    cases = Cases(names, names, list(present), list(absent), agent.asked)
    for threshold in defer_below:
        scorer = Scorer(engine, questions, allow_unknown_codes=False, defer_below=threshold)
        yield scorer.answer(cases.ids, scorer.encode(cases))


def turns_on_a_phone(agent):
    turn = Interpreter(model_content=agent.file()).get_signature_runner("questions")

    def run(states, asked):
        return turn(states=states, questions_asked=asked, not_to_ask=agent.not_to_ask[:1])

    return run_in_parts(run, agent.states[:ONE_BY_ONE], agent.asked[:ONE_BY_ONE])


def phone(agent):
    model, turns = LiteRtModel(agent.file()), agent.turns()
    answer = run_in_parts(model.run, agent.states[:ONE_BY_ONE], agent.asked[:ONE_BY_ONE])
    return answer | {"questions": questions_of(turns)}


def grpc_batch(agent):
    with TriageClient(agent.server.address, timeout_seconds=60) as client:
        deferred = client.batch_triage(agent.messages, defer_below=0.0)
        return of_messages(agent, client.batch_triage(agent.messages, questions=3), deferred)


def grpc_one_by_one(agent):
    with TriageClient(agent.server.address, timeout_seconds=60) as client:
        answers = [client.triage(each, questions=3) for each in agent.messages[:ONE_BY_ONE]]
        return of_messages(
            agent, answers, [client.triage(each, defer_below=0.0) for each in agent.messages[:ONE_BY_ONE]]
        )


def http(agent):
    bodies = [
        {"present": present, "absent": absent, "questions_asked": asked}
        for (present, absent), asked in zip(agent.codes, agent.asked.tolist(), strict=True)
    ]
    with http_to(agent.server) as client:
        asked = ({"questions": 3}, {"defer_below": 0.0})
        answers = (client.post("/v1/triage", json={"states": bodies, **each}).raise_for_status() for each in asked)
        return of_json(agent, *(each.json()["answers"] for each in answers))


def predict(agent):
    request = predict_request(columns(agent))
    with channel_to(agent.server.address) as channel:
        response = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request, timeout=120)
    return {name: tf.make_ndarray(tensor) for name, tensor in response.outputs.items()}


def tensorflow_servings_rest(agent):
    with http_to(agent.server) as client:
        answer = client.post("/v1/models/triage:predict", json={"inputs": columns(agent)})
    return answer.raise_for_status().json()["outputs"]


@pytest.fixture(scope="module")
def server(agent):
    with served(agent.base, http_port=0) as server:
        yield server


GRAPH = {
    "state vectors": state_vectors, "codes": codes, "messages": messages, "LiteRT": litert, "a phone": phone,
    "triage score": score,
}  # fmt: skip
WIRE = {
    "BatchTriage": grpc_batch, "Triage": grpc_one_by_one, "/v1/triage": http, "Predict": predict,
    "TensorFlow Serving's REST API": tensorflow_servings_rest,
}  # fmt: skip
ASKS = {"state vectors", "LiteRT", "a phone", "BatchTriage", "Triage", "/v1/triage"}
"""The routes that also choose questions."""


@pytest.mark.parametrize("route", GRAPH)
def test_every_route_through_the_graph_gets_the_agents_answer(agent, route):
    assert_same(agent, route, GRAPH[route](agent))


@pytest.mark.parametrize("route", WIRE)
def test_every_route_over_the_wire_gets_the_agents_answer(agent, server, route):
    agent.server = server
    assert_same(agent, route, WIRE[route](agent))


@pytest.mark.parametrize("agent", ["probabilities"], indirect=True)
def test_who_cannot_tell_of_red_flags_asked_about_together_is_asked_about_none_of_them_again(agent, server):
    asked = agent.expected["questions"]
    row = next(row for row in np.flatnonzero(~agent.expected["forced"]) if len(asked[row][2]) == 6)
    with TriageClient(server.address, timeout_seconds=60) as client:
        first = client.triage(agent.messages[row], questions=1, explain=True).next_questions[0]
        assert len(first.any_of) == 6  # with reasons, too
        with client.interview(questions=1) as interview:
            interview.answer(*agent.codes[row])
            left = interview.not_known()
        entries = client.vocabulary().entries
    assert left.questions_asked == 1
    assert not {*left.response.next_questions[0].any_of} & {*first.any_of}
    assert {entry.code for entry in entries if entry.red_flag} == {f"e{cell}" for cell in FLAGS}


@pytest.mark.parametrize("agent", ["probabilities"], indirect=True)
@pytest.mark.parametrize("questions", [0, 3])
def test_what_comes_next_and_why_is_the_same_in_files_and_over_the_wire(agent, server, questions):
    below = None, 0.6
    with TriageClient(server.address, timeout_seconds=60) as client:
        served = [client.batch_triage(agent.messages, questions=questions, defer_below=each) for each in below]
    for threshold, answers, columns in zip(below, served, scored(agent, questions, *below), strict=True):
        figures = [message_figures(answer) for answer in answers]
        steps = [(each["next"], each["deferred"] or "") for each in figures]
        reasons = columns.get("deferred", [""] * BATCH)
        scored_steps = list(zip(columns["next"], reasons, strict=True))
        same = np.array([one == other for one, other in zip(steps, scored_steps, strict=True)])
        assert same[agent.clear].mean() >= 0.99  # where values are close, rounding may decide
        assert {step for step, _ in steps} == {"ask", "decide", *["hand_over"] * (threshold is not None)}
        if questions:
            asked = [[each["code"] for each in answer["next_questions"]] for answer in figures]
            assert np.mean([one == other for one, other in zip(asked, columns["next_questions"], strict=True)]) >= 0.99


@pytest.mark.parametrize("agent", ["probabilities"], indirect=True)
def test_who_has_two_ages_is_handed_over_by_every_graph(agent):
    there = [f"e{cell}" for cell in (1, *GROUPS["age"][:2])]
    state = np.zeros([1, COUNT], np.float32)
    state[0, [1, *GROUPS["age"][:2]]] = 1
    asked = np.zeros(1, np.int32)
    signatures = agent.version.model.signatures
    answers = (
        signatures["state"](states=tf.constant(state), questions_asked=tf.constant(asked)),
        signatures["serving_default"](
            present=tf.constant([there]), absent=tf.constant([[""]]), questions_asked=tf.constant(asked)
        ),
        LiteRtEngine(agent.base / "1").decide(state, asked),
        LiteRtModel(agent.file()).run(state, asked),
    )
    contradictory = triage_pb2.DEFERRAL_REASON_CONTRADICTORY
    assert [np.asarray(answer["deferred"]).tolist() for answer in answers] == [[contradictory]] * 4


@pytest.mark.parametrize("agent", ["probabilities"], indirect=True)
def test_a_phone_says_what_is_next_as_the_server_does(agent, server):
    with TriageClient(server.address, timeout_seconds=60) as client:
        answers = [client.triage(each, questions=3, defer_below=0.0) for each in agent.messages[:ONE_BY_ONE]]
    steps = [STEPS[number] for number in agent.turns()["next"]]
    assert steps == [triage_pb2.NextStep.Name(answer.next).removeprefix("NEXT_STEP_").lower() for answer in answers]
    assert {*steps} == {*STEPS}


def assert_same(agent, route, answer):
    rows = len(answer["action"])
    assert rows in (ONE_BY_ONE, BATCH)
    clear, forced = agent.clear[:rows], agent.expected["forced"][:rows]
    usual = np.abs(np.reshape(answer["novelty"], rows) - agent.expected["novelty"][:rows]) < TOLERANCE
    assert usual.mean() > 0.95
    assert agent.clear.mean() > 0.95
    for name, expected in agent.expected.items():
        if name == "questions" or (name, route) == ("deferred", "messages"):
            continue
        actual, expected = np.reshape(answer[name], expected[:rows].shape), expected[:rows]
        if expected.dtype.kind == "f":
            bound = 0.021 if name == "novelty" else TOLERANCE  # a step of a percentile is 1/50
            np.testing.assert_allclose(actual, expected, atol=bound, rtol=0, err_msg=name)
        else:
            compared = clear & usual if name == "deferred" else clear
            np.testing.assert_array_equal(actual[compared], expected[compared], err_msg=name)
    assert ("questions" in answer) == (route in ASKS)
    if route in ASKS:
        pairs = list(zip(answer["questions"], agent.expected["questions"][:rows], strict=True))
        same = [actual == expected for (actual, expected), late in zip(pairs, forced, strict=True) if not late]
        assert np.mean(same) >= 0.99  # where values are close, rounding may decide
        if route in WIRE:
            assert {actual for (actual, _), late in zip(pairs, forced, strict=True) if late} == {((), (), ())}
    if "action_label" in answer:
        labels = [label.decode() if isinstance(label, bytes) else label for label in np.asarray(answer["action_label"])]
        assert labels == [ACTION_LABELS[action] for action in np.asarray(answer["action"])]
