"""One decision, whichever way it is asked for: the agent, the exported signatures, the server, and a TFLite file."""

import hashlib

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import time_step as ts

from schemas.safety_rules import Decision, RuleSet, SafetyRule
from schemas.triage import Action, action_on_wire
from tests.builders import random_network, served, symptoms, trained_agent
from trainer.config import TrainConfig
from trainer.decision.decision import best_triage
from trainer.decision.novelty import Novelty
from trainer.decision.rules import RuleGraph
from trainer.dyqn.agent import build_agent
from trainer.dyqn.environment import Observation, action_spec, time_step_spec
from trainer.dyqn.policy import QPolicy
from trainer.export import saved_model
from trainer.export.conversion import convert
from trainer.export.litert import run_each
from trainer.export.policy import load_version
from triage.v1 import triage_pb2
from triage_client import TriageClient, evidence_state
from triage_runtime.litert import LiteRtModel

EVIDENCE_COUNT, MAX_QUESTIONS, BATCH = 40, 23, 300
VOCABULARY = symptoms(*(f"e{cell}" for cell in range(EVIDENCE_COUNT)))
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def model():
    return random_network(EVIDENCE_COUNT, (32, 16), spread=0.2)


@pytest.fixture(scope="module")
def rules():
    """Twelve rules of two or three conditions each, that stop asking or do not."""
    generator = np.random.default_rng(4)

    def some():
        return tuple((VOCABULARY.codes[cell], bool(generator.integers(2))) for cell in generator.permutation(40)[:3])

    made = [
        SafetyRule(f"r{n}", f"Reason {n}.", Action(n % 3), bool(n % 2), some()[:1], some() if n % 4 else (), some())
        for n in range(12)
    ]
    return RuleSet(tuple(made), "made", f"sha256:{hashlib.sha256(b'').hexdigest()}", "")


@pytest.fixture(scope="module")
def statistics():
    generator = np.random.default_rng(5)
    prior, literals = (generator.normal(size=size).astype(np.float32) for size in ([3], [2 * EVIDENCE_COUNT, 4]))
    return Novelty(prior, literals, np.sort(generator.normal(size=[4, 50])).astype(np.float32), 200)


@pytest.fixture(scope="module")
def base(model, rules, statistics, tmp_path_factory):
    base = tmp_path_factory.mktemp("models")
    saved_model.write_version(base, trained_agent(model, VOCABULARY, MAX_QUESTIONS, rules=rules, novelty=statistics))
    return base


@pytest.fixture(scope="module")
def exported(base):
    return tf.saved_model.load(str(base / "1"))


@pytest.fixture(scope="module")
def states():
    """States with 1 to 12 known pieces of evidence, int `[B, E]`."""
    generator = np.random.default_rng(2)
    states = np.zeros([BATCH, EVIDENCE_COUNT], np.float32)
    for row in states:
        known = generator.permutation(EVIDENCE_COUNT)[: generator.integers(1, 13)]
        row[known] = generator.choice([-1, 1], len(known))
    states[:4] = 0  # nothing is known
    return states


@pytest.fixture(scope="module")
def questions_asked():
    """Below, at and above the limit, int32 `[B]`."""
    return np.random.default_rng(3).integers(0, MAX_QUESTIONS + 5, BATCH).astype(np.int32)


@pytest.fixture(scope="module")
def expected(model, rules, statistics, states, questions_asked):
    """What the agent's own policy says, as it plays in the environment, and what plain Python says of the rules."""
    forced = questions_asked >= MAX_QUESTIONS
    specs = time_step_spec(EVIDENCE_COUNT), action_spec()
    agent = build_agent(model, TrainConfig())
    obedient = QPolicy(*specs, model, rules=RuleGraph(rules.rules, VOCABULARY))
    time_step = ts.TimeStep(
        step_type=tf.fill([BATCH], ts.StepType.MID),
        reward=tf.zeros([BATCH, 4]),
        discount=tf.ones([BATCH]),
        observation=Observation(tf.constant(states), tf.constant(forced)),
    )
    decided = agent.policy.action(time_step)
    q_values, unruled = decided.info, decided.action.numpy()
    actions = obedient.action(time_step).action.numpy()
    present, absent = codes_of(states)
    fired = [[rule.fires(*known) for rule in rules] for known in zip(present, absent, strict=True)]
    raised, triage = [], []
    for row, best in enumerate(best_triage(q_values).numpy()):
        decision = Decision(Action(best), unruled[row] == Action.ASK)
        for rule in (rule for rule, does in zip(rules, fired[row], strict=True) if does):
            decision = decision.under(rule)
        raised.append(decision.action)
        triage.append(decision.best_triage)
    assert actions.tolist() == raised
    assert (actions != unruled).sum() > 20
    assert actions[:4].tolist() == [Action.ASK] * 4
    # A test of parity is worth what it compares: rows of both kinds, all actions, values that differ from row to row,
    # and no row in which rounding could decide.
    assert 0 < forced.sum() < BATCH
    assert set(actions) == set(Action)
    assert q_values.numpy().std(axis=0).min() > 0.05
    ranked = np.sort(q_values, axis=1)
    assert (ranked[:, 1:] - ranked[:, :-1])[4:].min() > 2 * TOLERANCE
    return {
        "q_values": q_values.numpy(),
        "action": actions,
        "best_triage": triage,
        "forced": forced,
        "rules_fired": fired,
        "novelty": statistics.percentiles(tf.constant(states)).numpy(),
    }


@pytest.fixture(scope="module")
def messages(states, questions_asked):
    return [
        evidence_state(*codes, questions_asked=int(count))
        for codes, count in zip(zip(*codes_of(states), strict=True), questions_asked, strict=True)
    ]


def codes_of(states):
    """Returns the present and the absent codes of each state, in an order that is not the vocabulary's."""
    return [
        [[VOCABULARY.codes[cell] for cell in np.flatnonzero(row == sign)[::-1]] for row in states] for sign in (1, -1)
    ]


def padded(rows):
    return tf.ragged.constant(rows, dtype=tf.string).to_tensor("")


def assert_same(answer, expected):
    np.testing.assert_allclose(answer["q_values"], expected["q_values"], atol=TOLERANCE, rtol=0)
    np.testing.assert_allclose(answer["novelty"], expected["novelty"], atol=0.021, rtol=0)  # a step is 1/50
    for name in ("action", "best_triage", "forced", "rules_fired"):
        np.testing.assert_array_equal(answer[name], expected[name], err_msg=name)


def fields_of(responses):
    """Returns the fields of TriageResponse messages as arrays."""
    return {
        "q_values": [[q_value.value for q_value in response.q_values] for response in responses],
        "action": [action_on_wire(response.action) for response in responses],
        "best_triage": [action_on_wire(response.best_triage) for response in responses],
        "forced": [response.forced for response in responses],
        "novelty": [response.novelty for response in responses],
        "rules_fired": [
            [f"r{number}" in {rule.rule_id for rule in response.fired_rules} for number in range(12)]
            for response in responses
        ],
    }


def test_state_vectors_get_the_agents_answer(exported, states, questions_asked, expected):
    answer = exported.signatures["state"](states=tf.constant(states), questions_asked=tf.constant(questions_asked))
    assert_same(answer, expected)


def test_a_phone_gets_the_agents_answer(base, states, questions_asked, expected):
    model = LiteRtModel(convert(load_version(base / "1"), "none"))
    assert_same(run_each(model, states, questions_asked), expected)


def test_codes_get_the_agents_answer(exported, states, questions_asked, expected):
    present, absent = codes_of(states)
    answer = exported.signatures["serving_default"](
        present=padded(present), absent=padded(absent), questions_asked=tf.constant(questions_asked)
    )
    assert_same(answer, expected)


def test_messages_get_the_agents_answer(exported, messages, expected):
    serialized = tf.constant([message.SerializeToString() for message in messages])
    answers = exported.signatures["triage"](evidence_states=serialized)["triage_responses"].numpy()
    assert_same(fields_of([triage_pb2.TriageResponse.FromString(answer) for answer in answers]), expected)


def test_calls_of_the_server_get_the_agents_answer(base, messages, expected):
    with served(base) as server, TriageClient(server.address, timeout_seconds=60) as client:
        assert_same(fields_of(client.batch_triage(messages)), expected)
        one_by_one = fields_of([client.triage(message) for message in messages[:20]])
        assert_same(one_by_one, {name: values[:20] for name, values in expected.items()})
