"""The Q-network: what goes in and out, and how its weights begin."""

import numpy as np
import pytest

from trainer.dyqn.network import build_network

# Klambauer et al. (2017), "Self-Normalizing Neural Networks".
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


@pytest.fixture(scope="module")
def wide():
    return build_network(evidence_count=400, hidden_sizes=(600, 300), seed=1)


def random_states(batch, evidence_count):
    return np.random.default_rng(0).integers(-1, 2, (batch, evidence_count)).astype(np.float32)


def test_each_state_gets_five_q_values_between_zero_and_one(wide):
    q_values = wide(random_states(7, 400)).numpy()
    assert q_values.shape == (7, 5)
    assert q_values.dtype == np.float32
    assert (q_values > 0).all()
    assert (q_values < 1).all()


def test_kernels_are_lecun_normal_and_biases_zero(wide):
    for layer in wide.layers[1:]:
        kernel, bias = layer.get_weights()
        # The standard error of a standard deviation is about std / sqrt(2 n): five of them, so that chance cannot fail.
        expected, tolerance = kernel.shape[0] ** -0.5, 5 / np.sqrt(2 * kernel.size)
        np.testing.assert_allclose(kernel.std(), expected, rtol=tolerance)
        assert not bias.any()


def test_hidden_layers_are_selu_and_outputs_sigmoid():
    model = build_network(evidence_count=3, hidden_sizes=(4,), seed=5)
    states = random_states(6, 3)
    (hidden_kernel, hidden_bias), (kernel, bias) = (layer.get_weights() for layer in model.layers[1:])
    linear = states @ hidden_kernel + hidden_bias
    hidden = SELU_SCALE * np.where(linear > 0, linear, SELU_ALPHA * (np.exp(linear) - 1))
    np.testing.assert_allclose(model(states), 1 / (1 + np.exp(-(hidden @ kernel + bias))), rtol=1e-5)


def test_the_seed_alone_decides_the_weights():
    first, again, other = (build_network(5, (6, 7), seed).get_weights() for seed in (3, 3, 4))
    for one, same, different in zip(first[::2], again[::2], other[::2], strict=True):  # kernels; biases are all zero
        np.testing.assert_array_equal(one, same)
        assert (one != different).any()


def test_layers_of_equal_shape_begin_with_different_kernels():
    _, second, third, _ = (layer.get_weights()[0] for layer in build_network(5, (6, 6, 6), seed=3).layers[1:])
    assert (second != third).any()


def test_a_network_without_hidden_layers_is_a_linear_model():
    model = build_network(2, (), seed=0)
    assert [layer.name for layer in model.layers[1:]] == ["q_values"]
