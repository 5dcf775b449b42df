"""The Q-network: what goes in and out, and how its weights begin."""

import hypothesis
import numpy as np
import pytest
import scipy.special
from hypothesis import strategies
from hypothesis.extra import numpy as arrays

from tests.builders import symptoms
from trainer.config import NetworkConfig, TargetConfig
from trainer.dyqn.network import (
    DENIED,
    HEADS,
    INPUTS,
    DeniedRedFlags,
    PresentAndAbsent,
    Utilities,
    bound_denials,
    build_network,
    logits_of,
    probabilities,
)
from trainer.graph.closure import Closure
from trainer.graph.decide import best_triage
from trainer.graph.mixture import Mixture

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
    np.testing.assert_allclose(model(states)["q"], 1 / (1 + np.exp(-(hidden @ kernel + bias))), rtol=1e-5)


def test_the_seed_alone_decides_the_weights():
    first, again, other = (
        build_network(5, NetworkConfig(hidden_sizes=(6, 7)), seed).get_weights() for seed in (3, 3, 4)
    )
    for one, same, different in zip(first[::2], again[::2], other[::2], strict=True):  # kernels; biases are all zero
        np.testing.assert_array_equal(one, same)
        assert (one != different).any()


def test_two_inputs_distinguish_presence_and_absence():
    inputs = PresentAndAbsent(None)(np.array([[1, -1, 0]], np.float32))
    np.testing.assert_array_equal(inputs, [[1, 0, 0, 0, 1, 0]])
    model = build_network(3, NetworkConfig(hidden_sizes=(), inputs="two"), seed=0)
    kernel = np.zeros([6, 5], np.float32)
    kernel[0, 0] = kernel[3, 0] = 1.0  # evidence 0 speaks for Red whether it is there or not: one signed input cannot
    model.get_layer("q_values").set_weights([kernel, np.zeros(5, np.float32)])
    q_red = model(np.array([[1, 0, 0], [-1, 0, 0], [0, 0, 0]], np.float32))["q"].numpy()[:, 0]
    np.testing.assert_allclose(q_red, [1 / (1 + np.exp(-1)), 1 / (1 + np.exp(-1)), 0.5], rtol=1e-5)


def test_inputs_leave_out_what_follows_and_what_is_denied_of_red_flags():
    parents = {"high_fever": "fever", "burning_pain": "pain"}
    vocabulary = symptoms("fever", "high_fever", "pain", "burning_pain", "cough", flags=("pain",), parents=parents)
    states = [
        [0, 1, 0, 0, 0],  # high fever, from which fever follows
        [1, 1, 0, 0, 0],
        [-1, -1, 0, 0, -1],  # no fever, from which no high fever follows
        [0, 0, -1, 0, 0],  # a red flag
        [0, 0, 0, -1, 0],  # what its denial would deny as well
        [0, 0, 1, 0, 0],
    ]
    present, denied = np.split(PresentAndAbsent(vocabulary)(np.float32(states)), 2, axis=1)
    np.testing.assert_array_equal(present, [[0, 1, 0, 0, 0]] * 2 + [[0] * 5] * 3 + [[0, 0, 1, 0, 0]])
    np.testing.assert_array_equal(denied, [[0] * 5] * 2 + [[1, 0, 0, 0, 1]] + [[0] * 5] * 3)


def test_the_logits_of_several_networks_are_averaged():
    model = build_network(4, NetworkConfig(hidden_sizes=(5,), networks=3), seed=2)
    states = random_states(6, 4)
    logits = logits_of(model)(states).numpy()
    assert logits.shape == (6, 3, 5)
    assert np.abs(logits[:, 0] - logits[:, 1]).max() > 0.01  # they begin apart
    np.testing.assert_allclose(model(states)["q"], 1 / (1 + np.exp(-logits.mean(axis=1))), rtol=1e-5)


# P(safe) of Yellow to Blue, then that all clinicians were less urgent than Red to Green, then Q(ask).
CUMULATIVE = [0.75, 0.5, 0.25, 0.5, 0.25, 0.125, 0.6]


def test_with_probabilities_q_values_are_utilities_and_that_of_asking():
    config = NetworkConfig(hidden_sizes=(), outputs="probabilities")
    model = build_network(2, config, seed=0, target=TargetConfig(safety_weight=3.0))
    model.get_layer("q_values").set_weights([np.zeros([2, 7]), scipy.special.logit(CUMULATIVE)])
    safe = np.array([1, 0.75, 0.5, 0.25])
    appropriate = safe - [0.5, 0.25, 0.125, 0]
    utility = [0.875, 0.6875, 0.46875, 0.25]  # (.5 + 3) / 4, (.5 + 2.25) / 4, (.375 + 1.5) / 4, (.25 + .75) / 4
    heads = model(np.zeros([1, 2]))
    for head, expected in {"q": [*utility, 0.6], "appropriate": appropriate, "safe": safe}.items():
        np.testing.assert_allclose(heads[head][0], expected, atol=1e-6)


def test_a_calibration_scales_and_shifts_each_logit_and_lets_asking_depend_on_the_best_decision():
    outputs = Utilities(TargetConfig())
    outputs.build((None, 2, 7))
    outputs.scale.assign([0.5] * 6 + [2.0])
    outputs.shift.assign([0.25, 0, 0, 0, 0, 0, -1])
    outputs.best.assign(0.5)
    heads = outputs(np.float32([[[1.0] * 6 + [0.4]] * 2]))
    best = scipy.special.logit((1 - scipy.special.expit(0.5) + 1) / 2)  # Red is safe, and else too urgent
    asking = 2 * 0.4 - 1 + 0.5 * best
    result = [heads["q"][0, 4], *heads["safe"][0, 1:3]]
    np.testing.assert_allclose(result, scipy.special.expit([asking, 0.5 + 0.25, 0.5]), rtol=1e-5)


@hypothesis.given(arrays.arrays(np.float32, (5, 6), elements=strategies.floats(-20, 20, width=32)))
def test_probabilities_are_a_distribution_whatever_the_logits(cumulative):
    appropriate, safe = (each.numpy() for each in probabilities(cumulative))
    np.testing.assert_array_equal(safe[:, 0], 1.0)
    assert (np.diff(safe, axis=1) <= 0).all()  # the more urgent, the safer
    less_urgent = safe - appropriate
    assert (np.diff(less_urgent, axis=1) <= 1e-6).all()
    assert (appropriate >= 0).all()
    # Whoever is less urgent than a decision makes the next one safe.
    assert (less_urgent[:, :-1] <= safe[:, 1:] + 1e-6).all()


def test_the_mixture_starts_the_logits_and_each_denied_red_flag_adds_to_all_of_them():
    vocabulary = symptoms("flag", "other", "cough", flags=("flag", "other"))
    truths = [[0.6, 0.6, 0.1, 0.05, 1, 0.8, 0.2, 0.1], [0.2, 0.5, 0.6, 0.4, 1, 0.9, 0.8, 0.6]]
    present = np.float32([[0.5, 0.2, 0.5], [0.1, 0.2, 0.5]])
    layer = DeniedRedFlags(vocabulary, Mixture(np.log([0.5, 0.5]), present, np.float32(truths), present))
    states = np.float32([[0, 0, 0], [-1, 0, 0], [-1, -1, 0]])
    added = layer(states).numpy()
    # Means over both classes: safe, then safe less appropriate.
    start = scipy.special.logit([0.85, 0.5, 0.35, 0.6, 0.3, 0.15])
    # Feared is .8 of the first class and .2 of the second; .5 and .9 of them do not have the flag: (.4 + .18) / 1.
    # All have the other flag with .2. The factor begins at softplus(0) = log 2.
    relief = -np.log([1, 0.58, 0.58 * 0.8])
    np.testing.assert_allclose(added, start + np.log(2) * relief[:, np.newaxis], rtol=1e-4, atol=1e-6)
    layer.most.assign(0.1)
    np.testing.assert_allclose(layer(states), start + np.log(2) * np.array([[0], [0.1], [0.1]]), rtol=1e-4, atol=1e-6)


RELATED = symptoms(
    "pain", "burning_pain", "collapse", "deep_collapse", "fever", "high_fever", "cough",
    flags=("pain", "collapse", "deep_collapse", "high_fever"),
    parents={"burning_pain": "pain", "deep_collapse": "collapse", "high_fever": "fever"},
)  # fmt: skip


@pytest.fixture(scope="module")
def related():
    """A network over `RELATED` that starts from random patients."""
    generator = np.random.default_rng(0)
    prior, present, denied = (generator.uniform(0.05, 0.95, shape) for shape in (5, (5, 7), (5, 7)))
    safe = np.sort(generator.uniform(0.05, 0.95, (5, 3)))[:, ::-1]
    truths = np.concatenate([generator.uniform(0.05, 0.5, (5, 4)), np.ones([5, 1]), safe], axis=1)
    patients = Mixture(*map(np.float32, (np.log(prior), present, truths, denied)))
    config = NetworkConfig(hidden_sizes=(6,), inputs="two", networks=2, outputs="probabilities")
    return build_network(RELATED, config, 0, patients)


def set_at_random(network, generator):
    """Sets all weights, bounds and the calibration."""
    for weight in network.trainable_variables:
        weight.assign(generator.normal(0, 1.5, weight.shape))
    network.get_layer(INPUTS).most.assign(generator.uniform(1, 3))
    network.get_layer(DENIED).most.assign(generator.uniform(0, 5))
    outputs = network.get_layer(HEADS)
    outputs.scale.assign([generator.uniform(0.2, 2)] * 7)
    outputs.shift.assign(generator.normal(0, 1, 7))
    outputs.best.assign(generator.normal())


@hypothesis.settings(max_examples=20)
@hypothesis.given(strategies.integers(0, 2**32))
def test_another_denied_red_flag_never_makes_the_best_decision_more_urgent(related, seed):
    generator = np.random.default_rng(seed)
    set_at_random(related, generator)
    states = generator.choice(np.float32([-1, 0, 1]), (200, 7), p=[0.3, 0.5, 0.2])
    denied = states.copy()
    flag = generator.choice(np.flatnonzero(RELATED.red_flags), 200)
    rows = np.flatnonzero(states[np.arange(200), flag] == 0)
    denied[rows, flag[rows]] = -1
    before, after = (best_triage(related(each)["q"]).numpy() for each in (states, denied))
    assert (after >= before).all()


def test_what_follows_from_a_state_changes_no_output(related):
    set_at_random(related, np.random.default_rng(1))
    states = random_states(50, 7)
    states = states[~Closure(RELATED).contradicts(states).numpy()]
    assert len(states) > 10
    closed, stated = related(Closure(RELATED)(states)), related(states)
    for head, values in stated.items():
        np.testing.assert_allclose(closed[head], values, atol=1e-6)


def test_denials_are_bounded_by_what_they_weigh_on_vignettes(related):
    # Pain and collapse are red flags. On one card of 21 both are denied, on the others collapse alone or with cough.
    both, alone, with_cough = np.int8([[-1, 0, -1, 0, 0, 0, 0], [0, 0, -1, 0, 0, 0, 0], [0, 0, -1, 0, 0, 0, -1]])
    bound_denials(related, np.stack([both] + [alone] * 10 + [with_cough] * 10))
    inputs, layer = related.get_layer(INPUTS), related.get_layer(DENIED)
    # In all, 2 + 10 + 20 are denied. So fever and cough, of which both are denied here, weigh half of 32 / 21 each.
    denied = inputs(np.float32([[0, 0, 0, 0, -1, 0, -1]]))[0, 7:]
    np.testing.assert_allclose(denied, [0, 0, 0, 0, 16 / 21, 0, 16 / 21], rtol=1e-6)
    # What is reached on one of twenty cards is beyond the bound.
    of_both, of_collapse = layer.relief(np.float32([both, with_cough])).numpy()
    assert layer.most.numpy() == pytest.approx(of_collapse)
    assert of_both > of_collapse > 0
    bound_denials(related, np.zeros([1, 7], np.int8))
    assert inputs.most.numpy() == 1
