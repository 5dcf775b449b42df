"""The probabilities of a decision and the point: the same in the Keras network, every signature, and on a phone."""

import numpy as np
import pytest
import tensorflow as tf

from schemas import directories
from schemas.triage import Action, action_on_wire
from tests.builders import symptoms, trained_agent
from trainer.config import NetworkConfig
from trainer.decision.decision import (
    ASK_POINTS,
    OperatingPoint,
    anything_known,
    appropriate,
    ask_value,
    best_triage,
    decide,
    q_values,
    safe,
    utilities,
)
from trainer.dyqn.network import AVERAGE, build_network
from trainer.export import saved_model
from trainer.export.conversion import convert
from trainer.export.litert import run_each
from trainer.export.policy import load_version
from triage.v1 import triage_pb2
from triage_runtime.litert import LiteRtModel

EVIDENCE_COUNT, MAX_QUESTIONS, BATCH, ONE_BY_ONE = 30, 23, 10_000, 1_000
VOCABULARY = symptoms(*(f"e{cell}" for cell in range(EVIDENCE_COUNT)))
POINT = OperatingPoint(0.25, price=0.006)  # between the operating points for which Q(ask) is learned
TOLERANCE = 1e-5
EXACT = ("action", "best_triage", "forced")
SETTINGS = NetworkConfig(
    hidden_sizes=(16, 8), activation="relu", inputs="two", dropout=0.5, networks=3,
    outputs="probabilities",
)  # fmt: skip


@pytest.fixture(scope="module")
def model():
    """Three networks of random weights, which take every action, and a calibration that differs between columns."""
    model = build_network(EVIDENCE_COUNT, SETTINGS, seed=0)
    generator = np.random.default_rng(4)
    for layer in model.layers:
        layer.set_weights([generator.normal(0, 0.5, weight.shape) for weight in layer.get_weights()])
    model.get_layer(AVERAGE).scale.assign(generator.uniform(0.5, 2, 8 + len(ASK_POINTS)))
    model.get_layer(AVERAGE).shift.assign(generator.normal(0, 0.3, 8 + len(ASK_POINTS)))
    return model


@pytest.fixture(scope="module")
def version(model, tmp_path_factory):
    trained = trained_agent(model, VOCABULARY, MAX_QUESTIONS, operating_point=POINT)
    return load_version(saved_model.write_version(tmp_path_factory.mktemp("models"), trained))


@pytest.fixture(scope="module")
def states():
    generator = np.random.default_rng(2)
    states = np.zeros([BATCH, EVIDENCE_COUNT], np.float32)
    for row in states:
        known = generator.permutation(EVIDENCE_COUNT)[: generator.integers(0, 13)]
        row[known] = generator.choice([-1, 1], len(known))
    return states


@pytest.fixture(scope="module")
def questions_asked():
    return np.random.default_rng(3).integers(0, MAX_QUESTIONS + 5, BATCH).astype(np.int32)


@pytest.fixture(scope="module")
def expected(model, states, questions_asked):
    """What the network and its operating point say, without the rows in which rounding could decide."""
    outputs = model(states)
    forced = questions_asked >= MAX_QUESTIONS
    ranked = np.sort(utilities(outputs, POINT), axis=1)
    clear = ranked[:, 3] - ranked[:, 2] > 10 * TOLERANCE
    clear &= np.abs(ranked[:, 3] - ask_value(outputs, POINT)) > 10 * TOLERANCE
    actions = decide(outputs, tf.constant(forced), anything_known(tf.constant(states)), POINT).numpy()
    # What is compared: all actions, rows that only the price ends, and rows that only the weight decides.
    assert clear.mean() > 0.95
    assert set(actions) == set(Action)
    cheap = OperatingPoint(POINT.safety_weight, price=0.001)
    asks = decide(outputs, tf.constant(forced), anything_known(tf.constant(states)), cheap).numpy()
    assert ((asks == Action.ASK) & (actions != Action.ASK)).sum() > 100
    assert (best_triage(outputs, POINT).numpy() != best_triage(outputs, OperatingPoint(0.0)).numpy()).sum() > 100
    values = {"q_values": q_values(outputs, POINT), "p_appropriate": appropriate(outputs), "p_safe": safe(outputs)}
    values = {name: value.numpy() for name, value in values.items()}
    return values | {"action": actions, "best_triage": best_triage(outputs, POINT).numpy(), "forced": forced}, clear


def assert_same(answer, expected, rows=slice(None)):
    values, clear = expected
    for name, wanted in values.items():
        actual = np.asarray(answer[name]).reshape(wanted[rows].shape)  # LiteRT puts a 1 before some batches
        if name in EXACT:
            np.testing.assert_array_equal(actual[clear[rows]], wanted[rows][clear[rows]], err_msg=name)
        else:
            np.testing.assert_allclose(actual, wanted[rows], atol=TOLERANCE, rtol=0, err_msg=name)


def _codes(states):
    return [[[f"e{cell}" for cell in np.flatnonzero(row == sign)] for row in states] for sign in (1, -1)]


def test_state_vectors_get_the_networks_probabilities_and_decision(version, states, questions_asked, expected):
    answer = version.signature(states=tf.constant(states), questions_asked=tf.constant(questions_asked))
    assert_same(answer, expected)


def test_codes_get_the_networks_probabilities_and_decision(version, states, questions_asked, expected):
    present, absent = (tf.ragged.constant(codes, dtype=tf.string).to_tensor("") for codes in _codes(states))
    answer = version.model.signatures["serving_default"](
        present=present, absent=absent, questions_asked=tf.constant(questions_asked)
    )
    assert_same(answer, expected)


def test_messages_carry_the_networks_probabilities_and_decision(version, states, questions_asked, expected):
    rows = slice(ONE_BY_ONE)
    known = zip(*_codes(states[rows]), questions_asked[rows], strict=True)
    messages = []
    for present, absent, asked in known:
        evidence = [triage_pb2.Evidence(code=code, status=triage_pb2.EVIDENCE_STATUS_PRESENT) for code in present]
        evidence += [triage_pb2.Evidence(code=code, status=triage_pb2.EVIDENCE_STATUS_ABSENT) for code in absent]
        messages.append(triage_pb2.EvidenceState(evidence=evidence, questions_asked=asked).SerializeToString())
    answers = version.model.signatures["triage"](evidence_states=tf.constant(messages))["triage_responses"].numpy()
    responses = [triage_pb2.TriageResponse.FromString(answer) for answer in answers]
    carried = {
        "q_values": [[q_value.value for q_value in response.q_values] for response in responses],
        "p_appropriate": [[each.appropriate for each in response.probabilities] for response in responses],
        "p_safe": [[each.safe for each in response.probabilities] for response in responses],
        "action": [action_on_wire(response.action) for response in responses],
        "best_triage": [action_on_wire(response.best_triage) for response in responses],
        "forced": [response.forced for response in responses],
    }
    assert_same(carried, expected, rows)


def test_the_file_that_litert_serves_gives_the_networks_probabilities_and_decision(
    version, states, questions_asked, expected
):
    model = LiteRtModel((version.folder / directories.LITERT).read_bytes())
    assert_same(model.run(states, questions_asked), expected)


def test_a_phone_gets_the_networks_probabilities_and_decision(version, states, questions_asked, expected):
    rows = slice(ONE_BY_ONE)
    answer = run_each(LiteRtModel(convert(version, "none")), states[rows], questions_asked[rows])
    assert_same(answer, expected, rows)
