"""The fused learner does what the plain one does."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from schemas.errors import InputError
from trainer import state
from trainer.config import TrainConfig
from trainer.dyqn import learner
from trainer.dyqn.agent import DyqnAgent
from trainer.dyqn.environment import action_spec, time_step_spec
from trainer.dyqn.learner import FusedLearner, PlainLearner, build_learner
from trainer.dyqn.network import build_network, dropout_states
from trainer.dyqn.targets import Transition

EVIDENCE_COUNT, WIDTH, ROWS = 20, 6, 32


def _agent(hidden=(16, 12), **sections):
    network = sections.pop("network", {})
    config = TrainConfig.from_dict({"network": {"hidden_sizes": list(hidden or (4,)), **network}, **sections})
    config = dataclasses.replace(config, network=dataclasses.replace(config.network, hidden_sizes=hidden))
    network = build_network(EVIDENCE_COUNT, config.network, seed=3)
    generator = np.random.default_rng(4)
    network.set_weights([weight + generator.normal(0, 0.1, weight.shape) for weight in network.get_weights()])
    noise = tf.random.Generator.from_seed(0, alg="philox")
    return DyqnAgent(time_step_spec(EVIDENCE_COUNT), action_spec(), network, config, noise), config


def _batch(seed=0):
    """Transitions in which s' knows one piece of evidence more."""
    generator = np.random.default_rng(seed)
    before, after = np.zeros([2, ROWS, WIDTH], np.int32)
    for row in range(ROWS):
        count = generator.integers(1, WIDTH)
        codes = (generator.permutation(EVIDENCE_COUNT)[: count + 1] + 1) * generator.choice([-1, 1], count + 1)
        before[row, :count], after[row, : count + 1] = codes[:-1], codes
    counts = generator.multinomial(3, [0.2, 0.4, 0.3, 0.1], ROWS)
    rewards = (counts / counts.max(axis=1, keepdims=True)).astype(np.float32)
    actions = generator.integers(0, 5, ROWS).astype(np.int32)
    return Transition(
        tf.constant(before), tf.constant(actions), tf.constant(rewards), tf.constant(after), tf.fill([len(actions)], -1)
    )


def _moved(agent, learner, steps=3):
    """(losses of each step, change of every weight)."""
    before = agent.network.get_weights()
    learner.prepare()
    losses = [learner.learn(_batch(step)).action_losses.numpy() for step in range(steps)]
    return losses, [new - old for old, new in zip(before, agent.network.get_weights(), strict=True)]


@pytest.mark.parametrize(
    ("hidden", "sections"),
    [
        ((16, 12), {"optimiser": {"algorithm": "sgd", "learning_rate": 0.5}}),
        ((16, 12), {"optimiser": {"algorithm": "sgd", "learning_rate": 0.5, "weight_decay": 0.1}}),
        ((16, 12), {"optimiser": {"algorithm": "adam", "learning_rate": 0.01}}),
        ((16, 12), {"target": {"ask_query": "and", "best_triage_over": "all"}}),
        ((16, 12), {"target": {"ask_successor": "taken_only"}}),
        ((), {"optimiser": {"algorithm": "sgd", "learning_rate": 0.5}}),
        ((), {"optimiser": {"algorithm": "adam", "learning_rate": 0.01}}),
        ((16,), {"optimiser": {"algorithm": "sgd", "learning_rate": 0.5}}),
        ((8, 8, 8), {"optimiser": {"algorithm": "sgd", "learning_rate": 0.5}}),
        ((16, 12), {"optimiser": {"algorithm": "sgd", "learning_rate": 0.5}, "network": {"activation": "relu"}}),
        ((16, 12), {"optimiser": {"algorithm": "adam", "learning_rate": 0.01}, "network": {"activation": "relu"}}),
    ],
)
def test_fused_and_plain_steps_are_equal_within_float32_rounding(hidden, sections):
    (plain_agent, _), (fused_agent, config) = _agent(hidden, **sections), _agent(hidden, **sections)
    plain_losses, plain = _moved(plain_agent, PlainLearner(plain_agent))
    fused_losses, fused = _moved(fused_agent, FusedLearner(fused_agent, config))
    np.testing.assert_allclose(fused_losses, plain_losses, rtol=1e-4, atol=1e-6)
    assert max(np.abs(change).max() for change in plain) > 1e-3
    for mine, theirs in zip(fused, plain, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-5)
    for mine, theirs in zip(fused_agent.optimizer.variables, plain_agent.optimizer.variables, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), atol=1e-5)
    assert int(fused_agent.train_step_counter) == int(plain_agent.train_step_counter) == 3


@pytest.mark.parametrize(
    ("activation", "algorithm", "hidden"), [("relu", "sgd", (32, 24, 16)), ("selu", "adam", (16,))]
)
def test_fused_and_compiled_steps_are_equal_under_dropout(activation, algorithm, hidden):
    sections = {
        "network": {"dropout": 0.6, "activation": activation},
        "optimiser": {"algorithm": algorithm, "learning_rate": 0.5 if algorithm == "sgd" else 0.01},
    }
    # XLA draws other masks than eager TensorFlow, so the reference is compiled too.
    compiled_agent, _ = _agent(hidden, **sections, learner={"engine": "compiled"})
    fused_agent, config = _agent(hidden, **sections)
    compiled_losses, compiled = _moved(compiled_agent, PlainLearner(compiled_agent))
    fused_losses, fused = _moved(fused_agent, FusedLearner(fused_agent, config))
    np.testing.assert_allclose(fused_losses, compiled_losses, rtol=1e-4, atol=1e-6)
    for mine, theirs in zip(fused, compiled, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-5)
    for mine, theirs in zip(dropout_states(fused_agent.network), dropout_states(compiled_agent.network), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_q_values_are_those_of_the_network_whatever_the_precision():
    for precision in ("float32", "bfloat16"):
        agent, config = _agent(learner={"precision": precision}, network={"dropout": 0.5})
        codes = _batch().s_t
        expected = PlainLearner(agent).q_values(codes)
        np.testing.assert_allclose(FusedLearner(agent, config).q_values(codes), expected, atol=1e-6)


@pytest.mark.parametrize(("algorithm", "dropout"), [("sgd", 0.0), ("sgd", 0.5), ("adam", 0.0)])
def test_bfloat16_moves_the_weights_by_nearly_the_same_step(algorithm, dropout):
    sections = {"optimiser": {"algorithm": algorithm, "learning_rate": 0.1}, "network": {"dropout": dropout}}
    (exact_agent, exact_config), (agent, config) = (
        _agent((64, 64), **sections, learner={"precision": precision}) for precision in ("float32", "bfloat16")
    )
    _, exact = _moved(exact_agent, FusedLearner(exact_agent, exact_config), steps=1)
    _, rounded = _moved(agent, FusedLearner(agent, config), steps=1)
    assert any((mine != theirs).any() for mine, theirs in zip(rounded, exact, strict=True))
    if algorithm == "sgd":  # Adam divides by the gradient's size, which turns rounding of a tiny one into a whole step
        for mine, theirs in zip(rounded, exact, strict=True):
            # A factor is rounded by 0.4% at most; Q-values move by less, but their errors, a fraction of them, more.
            assert np.linalg.norm(mine - theirs) < 0.03 * np.linalg.norm(theirs)


def test_bfloat16_learns_from_weights_set_from_outside_once_it_is_prepared():
    (agent, config), (same, _) = (_agent((16, 16), learner={"precision": "bfloat16"}) for _ in range(2))
    late, early = FusedLearner(agent, config), None
    weights = [weight * 1.5 for weight in agent.network.get_weights()]
    agent.network.set_weights(weights)
    same.network.set_weights(weights)
    early = FusedLearner(same, config)
    for mine, theirs in zip(_moved(agent, late, 1)[1], _moved(same, early, 1)[1], strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("algorithm", ["sgd", "adam"])
def test_a_step_that_is_not_finite_changes_nothing_and_says_so(precision, algorithm):
    agent, config = _agent(learner={"precision": precision}, optimiser={"algorithm": algorithm})
    learner, batch = FusedLearner(agent, config), _batch()
    rewards = batch.r_t.numpy()
    rewards[0, 1] = np.nan
    bias = agent.network.get_layer("hidden_2").bias
    finite = bias.numpy()
    # An infinite activation leaves the sigmoid, and with it the loss, finite: the gradient alone tells.
    for faulty, first in ((batch._replace(r_t=tf.constant(rewards)), finite[0]), (batch, np.nan), (batch, np.inf)):
        bias.assign([first, *finite[1:]])
        learner.prepare()
        before = [weight.tobytes() for weight in agent.network.get_weights()]
        assert not bool(learner.learn(faulty).finite)
        assert [weight.tobytes() for weight in agent.network.get_weights()] == before
        assert int(agent.train_step_counter) == int(agent.optimizer.iterations) == 0
    bias.assign(finite)
    learner.prepare()
    assert bool(learner.learn(batch).finite)


def test_the_configuration_names_the_engine():
    for engine, kind in (("plain", PlainLearner), ("compiled", PlainLearner), ("fused", FusedLearner)):
        agent, config = _agent(learner={"engine": engine})
        assert isinstance(build_learner(agent, config), kind)


def test_bfloat16_needs_the_fused_engine():
    with pytest.raises(InputError, match="precision bfloat16 needs the engine fused"):
        TrainConfig.from_dict({"learner": {"engine": "plain", "precision": "bfloat16"}})


@pytest.mark.parametrize(
    "network",
    [{"networks": 2}, {"outputs": "probabilities"}, {"inputs": "two"}],
)
def test_the_fused_learner_refuses_a_network_that_it_does_not_compute(network):
    agent, config = _agent(network=network, learner={"engine": "plain"})
    with pytest.raises(InputError, match=r"--engine fused supports one network .*: choose --engine compiled"):
        FusedLearner(agent, config)


def test_the_fused_learner_refuses_another_loss():
    agent, config = _agent(target={"loss": "cross_entropy"}, learner={"engine": "plain"})
    with pytest.raises(InputError, match="the squared error: choose --engine compiled"):
        FusedLearner(agent, config)


def test_the_fused_learner_refuses_an_activation_that_it_does_not_know():
    agent, config = _agent(learner={"engine": "plain"})
    agent.network.get_layer("hidden_1").activation = tf.nn.gelu
    with pytest.raises(InputError, match="SELU or ReLU"):
        FusedLearner(agent, config)


@pytest.mark.parametrize(
    "sections",
    [
        {"network": {"networks": 2}},
        {"network": {"outputs": "probabilities"}},
        {"network": {"inputs": "two"}},
        {"target": {"loss": "cross_entropy"}},
        {"validation": {"parts": 5}},
        {"optimiser": {"average": 0.9}},
    ],
)
def test_the_configuration_refuses_the_fused_engine_for_what_it_does_not_compute(sections):
    with pytest.raises(InputError, match="choose the engine compiled"):
        TrainConfig.from_dict({"learner": {"engine": "fused"}, **sections})


CODES, COLUMNS, UNITS = 12, 5, 3


def _codes(rows, seed=0):
    """Random signed codes, 0 to COLUMNS a row, padding in between as well as behind."""
    generator = np.random.default_rng(seed)
    codes = np.zeros([rows, COLUMNS], np.int32)
    for row in codes:
        count = generator.integers(0, COLUMNS + 1)
        places = generator.permutation(COLUMNS)[:count]
        row[places] = (generator.permutation(CODES)[:count] + 1) * generator.choice([-1, 1], count)
    return tf.constant(codes)


def test_product_is_that_of_the_dense_states():
    kernel = tf.Variable(np.random.default_rng(1).normal(size=(CODES, UNITS)).astype(np.float32))
    codes = _codes(40)
    dense = tf.matmul(state.from_signed_codes(codes, CODES), kernel)
    np.testing.assert_allclose(learner.product(codes, kernel), dense, atol=1e-6)


def test_product_of_a_state_worked_out_by_hand():
    kernel = tf.Variable([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
    # Evidence 2 present, evidence 0 absent: 4 - 1 and 40 - 10.
    np.testing.assert_array_equal(learner.product(tf.constant([[3, 0, -1], [0, 0, 0]]), kernel), [[3, 30], [0, 0]])


def test_kernel_gradient_is_that_of_the_dense_product():
    codes = _codes(40)
    deltas = tf.constant(np.random.default_rng(2).normal(size=(40, UNITS)).astype(np.float32))
    rows = learner.kernel_gradient(codes, tf.concat([deltas, -deltas], axis=0))
    assert len(set(rows.indices.numpy().tolist())) == len(rows.indices)
    result = np.zeros([CODES, UNITS], np.float32)
    result[rows.indices.numpy()] = rows.values
    expected = tf.matmul(state.from_signed_codes(codes, CODES), deltas, transpose_a=True)
    np.testing.assert_allclose(result, expected, atol=1e-5)


def test_kernel_gradient_leaves_rows_out_that_no_state_touches():
    deltas = tf.constant([[1.0], [2.0], [-1.0], [-2.0]])
    rows = learner.kernel_gradient(tf.constant([[4, 0], [-4, 2]]), deltas)
    # Evidence 3 is present in row 0 and absent in row 1: 1 - 2; evidence 1 is present in row 1: 2.
    assert dict(zip(rows.indices.numpy().tolist(), rows.values.numpy()[:, 0].tolist(), strict=True)) == {3: -1, 1: 2}


def test_kernel_gradient_of_empty_states_is_empty():
    rows = learner.kernel_gradient(tf.zeros([2, 4], tf.int32), tf.ones([4, UNITS]))
    assert rows.values.shape == [0, UNITS]
