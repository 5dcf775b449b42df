"""The Q-network: what goes in and out, and how its weights begin."""

import hypothesis
import keras
import numpy as np
import pytest
from hypothesis import strategies
from hypothesis.extra import numpy as arrays

from schemas.evidence import Evidence, Vocabulary
from trainer.config import NetworkConfig
from trainer.dyqn.network import (
    AVERAGE,
    TEXT_FEATURES,
    Average,
    PresentAndAbsent,
    build_network,
    copy_weights,
    logits_of,
    with_sums,
)
from trainer.graph.closure import Closure

# Klambauer et al. (2017), "Self-Normalizing Neural Networks".
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


@pytest.fixture(scope="module")
def wide():
    return build_network(400, NetworkConfig(hidden_sizes=(600, 300)), seed=1)


def random_states(batch, evidence_count):
    return np.random.default_rng(0).integers(-1, 2, (batch, evidence_count)).astype(np.float32)


def dense_layers(model):
    return [layer for layer in model.layers if layer.weights]


def test_kernels_are_lecun_normal_and_biases_zero(wide):
    for layer in dense_layers(wide):
        kernel, bias = layer.get_weights()
        # The standard error of a standard deviation is about std / sqrt(2 n): five of them, so that chance cannot fail.
        expected, tolerance = kernel.shape[0] ** -0.5, 5 / np.sqrt(2 * kernel.size)
        np.testing.assert_allclose(kernel.std(), expected, rtol=tolerance)
        assert not bias.any()


def test_hidden_layers_are_selu_and_outputs_sigmoid():
    model = build_network(3, NetworkConfig(hidden_sizes=(4,)), seed=5)
    states = random_states(6, 3)
    (hidden_kernel, hidden_bias), (kernel, bias) = (layer.get_weights() for layer in dense_layers(model))
    linear = states @ hidden_kernel + hidden_bias
    hidden = SELU_SCALE * np.where(linear > 0, linear, SELU_ALPHA * (np.exp(linear) - 1))
    np.testing.assert_allclose(model(states), 1 / (1 + np.exp(-(hidden @ kernel + bias))), rtol=1e-5)


def test_the_seed_alone_decides_the_weights():
    first, again, other = (
        build_network(5, NetworkConfig(hidden_sizes=(6, 7)), seed).get_weights() for seed in (3, 3, 4)
    )
    for one, same, different in zip(first[::2], again[::2], other[::2], strict=True):  # kernels; biases are all zero
        np.testing.assert_array_equal(one, same)
        assert (one != different).any()


def test_two_inputs_distinguish_presence_and_absence():
    inputs = PresentAndAbsent()(np.array([[1, -1, 0]], np.float32))
    np.testing.assert_array_equal(inputs, [[1, 0, 0, 0, 1, 0]])
    model = build_network(3, NetworkConfig(hidden_sizes=(), inputs="two"), seed=0)
    kernel = np.zeros([6, 5], np.float32)
    kernel[0, 0] = kernel[3, 0] = 1.0  # evidence 0 speaks for Red whether it is there or not: one signed input cannot
    model.get_layer("q_values").set_weights([kernel, np.zeros(5, np.float32)])
    q_red = model(np.array([[1, 0, 0], [-1, 0, 0], [0, 0, 0]], np.float32)).numpy()[:, 0]
    np.testing.assert_allclose(q_red, [1 / (1 + np.exp(-1)), 1 / (1 + np.exp(-1)), 0.5], rtol=1e-5)


@pytest.mark.parametrize("networks", [1, 3])
def test_sums_of_rows_give_the_same_outputs(networks):
    config = NetworkConfig(hidden_sizes=(16, 8), inputs="two", networks=networks, outputs="probabilities")
    network = build_network(9, config, seed=1)
    for layer in network.layers:
        if isinstance(layer, keras.layers.Dense):
            layer.bias.assign(np.linspace(-1, 1, layer.units))
    sums = with_sums(network)
    for states in (random_states(6, 9), np.zeros([2, 9], np.float32), np.eye(9, dtype=np.float32)[:1]):
        np.testing.assert_allclose(sums(states), network(states), atol=1e-6)


def test_a_kernel_absorbs_words():
    config = NetworkConfig(hidden_sizes=(6, 5), inputs="two", text_features=3, networks=2, outputs="probabilities")
    source = build_network(4, config, seed=1)
    source.get_layer(TEXT_FEATURES).set_weights([np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)])
    target = build_network(4, config.served, seed=2)
    copy_weights(source, target)
    states = random_states(20, 4)
    np.testing.assert_allclose(target(states), source(states), atol=1e-5)
    silent = build_network(4, config, seed=1)  # the same without word vectors: they do matter
    assert np.abs(silent(states).numpy() - source(states).numpy()).max() > 0.01


def test_the_logits_of_several_networks_are_averaged():
    model = build_network(4, NetworkConfig(hidden_sizes=(5,), networks=3), seed=2)
    states = random_states(6, 4)
    logits = logits_of(model)(states).numpy()
    assert logits.shape == (6, 3, 5)
    assert np.abs(logits[:, 0] - logits[:, 1]).max() > 0.01  # they begin apart
    np.testing.assert_allclose(model(states), 1 / (1 + np.exp(-logits.mean(axis=1))), rtol=1e-5)


def test_outputs_with_probabilities_are_q_values_then_appropriate_then_safe():
    model = build_network(2, NetworkConfig(hidden_sizes=(), outputs="probabilities"), seed=0)
    wanted = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.2, 0.6, 0.5, 0.1, 0.99, 0.9, 0.6, 0.2], np.float32)
    wanted = np.append(wanted, np.linspace(0.05, 0.9, 18)).astype(np.float32)  # Q(ask) at each operating point
    bias = np.append(np.log(wanted / (1 - wanted)), [9.0] * 4)  # single decisions are no outputs
    model.get_layer("q_values").set_weights([np.zeros([2, 35], np.float32), bias])
    outputs = model(np.zeros([1, 2], np.float32)).numpy()[0]
    # Red is always safe; nothing else has to be changed here.
    # Nothing is known, so the threshold does not fall.
    np.testing.assert_allclose(outputs, [*wanted[:9], 1.0, *wanted[10:], 0.0], atol=1e-6)


@pytest.mark.parametrize("inputs", ["signed", "two"])
def test_the_last_output_grows_with_what_is_known(inputs):
    config = NetworkConfig(hidden_sizes=(), outputs="probabilities", inputs=inputs, text_features=0)
    model = build_network(900, config, seed=0)
    states = np.zeros([3, 900], np.float32)
    states[1, [3, 7, 8]] = 1, -1, -1
    states[2] = -1
    np.testing.assert_allclose(model(states).numpy()[:, -1], [0.0, 3 * 0.0015, 1.0], rtol=1e-6)


def test_what_follows_from_the_rest_does_not_lower_the_threshold():
    parents = {"fever_over_39": "fever"}
    codes = ("cough", "fever", "fever_over_39")
    vocabulary = Vocabulary(Evidence(code, "symptom", code, f"{code}?", parent=parents.get(code, "")) for code in codes)
    config = NetworkConfig(hidden_sizes=(), outputs="probabilities", inputs="two")
    model = build_network(3, config, seed=0, closure=Closure(vocabulary))
    falls = model(np.array([[0, 0, 1], [0, 1, 1], [1, 1, 0]], np.float32)).numpy()[:, -1]
    np.testing.assert_allclose(falls, [0.0015, 0.0015, 0.003], rtol=1e-6)


def test_a_calibration_scales_and_shifts_all_but_the_q_values():
    average = Average(name=AVERAGE)
    logits = np.array([[[0.0] * 5 + [-3.0] * 4 + [1.0] * 4 + [2.0] * 18]], np.float32)
    plain = average(logits).numpy()[0]
    average.scale.assign([0.5] * 26)
    average.shift.assign([0.25] * 26)
    outputs = average(logits).numpy()[0]
    np.testing.assert_array_equal(outputs[:5], plain[:5])
    np.testing.assert_allclose(outputs[5:9], 1 / (1 + np.exp(1.25)), rtol=1e-5)  # -3 / 2 + .25
    np.testing.assert_allclose(outputs[10:13], 1 / (1 + np.exp(-0.75)), rtol=1e-5)  # 1 / 2 + .25
    np.testing.assert_allclose(outputs[13:], 1 / (1 + np.exp(-1.25)), rtol=1e-5)  # 2 / 2 + .25


@hypothesis.settings(max_examples=50)
@hypothesis.given(
    arrays.arrays(np.float32, (5, 2, 31), elements=strategies.floats(-20, 20, width=32)),
    arrays.arrays(np.float32, 26, elements=strategies.floats(0.125, 8, width=32)),
    arrays.arrays(np.float32, 26, elements=strategies.floats(-4, 4, width=32)),
)
def test_probabilities_keep_what_their_definitions_say(logits, scale, shift):
    average = Average(name=AVERAGE)
    average.build(logits.shape)
    average.scale.assign(scale)
    average.shift.assign(shift)
    outputs = average(logits).numpy()
    appropriate, safe = outputs[:, 5:9], outputs[:, 9:13]
    np.testing.assert_array_equal(safe[:, 0], 1.0)
    assert (np.diff(safe, axis=1) <= 0).all()  # never falls with urgency
    assert (appropriate <= safe).all()
    assert ((outputs >= 0) & (outputs <= 1)).all()
