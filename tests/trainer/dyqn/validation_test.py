"""Vignettes held out of the training: which they are, what they say of a network, and how they calibrate it."""

import numpy as np
import pytest

from trainer.config import NetworkConfig
from trainer.dyqn import validation
from trainer.dyqn.network import AVERAGE, build_network
from trainer.dyqn.validation import MOST_HELD_OUT, HeldOut, fit_calibration, hold_out


def _rows(vignettes):
    """The vignettes of a part, as (pieces of evidence, counts)."""
    starts, ends = vignettes.offsets[:-1], vignettes.offsets[1:]
    return [
        (frozenset(vignettes.signed_codes[start:end].tolist()), tuple(counts.tolist()))
        for start, end, counts in zip(starts, ends, vignettes.decision_counts, strict=True)
    ]


def test_every_vignette_is_learned_from_or_held_out(random_vignettes):
    learned, held_out = hold_out(random_vignettes, 0.2, seed=3)
    # Single pieces of evidence come more than once among them, so that the share is met from below.
    assert 35 <= len(held_out.decision_counts) <= 40
    assert sorted(map(repr, _rows(learned) + _rows(held_out))) == sorted(map(repr, _rows(random_vignettes)))


def test_the_seed_alone_decides_which_are_held_out(random_vignettes):
    first, again, other = (_rows(hold_out(random_vignettes, 0.2, seed)[1]) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_vignettes_with_the_same_evidence_stay_together_in_whatever_order_it_stands(vignettes_of):
    rows = [(codes, [1, 0, 0, 0]) for number in range(1, 40) for codes in ([number, -40], [-40, number])]
    rows += [([-number], [1, 0, 0, 0]) for number in range(1, 40)]  # absent is not present
    learned, held_out = (_rows(part) for part in hold_out(vignettes_of(rows), 0.4, seed=0))
    assert {evidence for evidence, _ in learned}.isdisjoint(evidence for evidence, _ in held_out)
    pairs = [evidence for evidence, _ in held_out if len(evidence) == 2]
    assert len(pairs) == 2 * len(set(pairs)) > 0


@pytest.mark.parametrize(("share", "count"), [(0.0, 50), (0.2, 2), (0.5, 1)])
def test_where_nothing_can_be_held_out_all_is_learned_from(vignettes_of, share, count):
    # A fifth of two vignettes, or half of one, is none.
    vignettes = vignettes_of([([number + 1], [1, 0, 0, 0]) for number in range(count)])
    learned, held_out = hold_out(vignettes, share, seed=0)
    assert held_out is None
    assert learned is vignettes


def test_where_all_vignettes_are_alike_none_is_held_out(vignettes_of):
    assert hold_out(vignettes_of([([1, 2], [1, 0, 0, 0])] * 50), 0.2, seed=0)[1] is None


def test_a_group_that_is_too_large_does_not_keep_others_from_being_held_out(vignettes_of):
    rows = [([41, 42], [1, 0, 0, 0])] * 60 + [([number + 1], [1, 0, 0, 0]) for number in range(40)]
    for seed in range(10):  # the group of 60 comes first for some of them
        held_out = hold_out(vignettes_of(rows), 0.2, seed)[1]
        assert len(held_out.decision_counts) == 20


def test_no_more_are_held_out_than_are_of_use(vignettes_of):
    rows = [([number + 1], [1, 0, 0, 0]) for number in range(5 * MOST_HELD_OUT + 500)]
    assert len(hold_out(vignettes_of(rows), 0.2, seed=0)[1].decision_counts) == MOST_HELD_OUT


def test_calibration_recovers_a_known_miscalibration():
    generator = np.random.default_rng(0)
    true_logits = generator.normal(0, 2, (8_000, 8))
    truths = (generator.random(true_logits.shape) < 1 / (1 + np.exp(-true_logits))).astype(np.float32)
    # The network is twice too sure of appropriateness, and says too little of safety by 1.5: scale and shift undo that.
    given = np.concatenate([2 * true_logits[:, :4], true_logits[:, 4:] - 1.5], axis=1)
    scale, shift = fit_calibration(given, truths)
    # 32,000 pairs: standard errors are about .007 for a scale of .5, and .02 for a shift.
    np.testing.assert_allclose(scale, [0.5] * 4 + [1.0] * 4, atol=0.06)
    np.testing.assert_allclose(shift, [0.0] * 4 + [1.5] * 4, atol=0.1)


def test_logits_stay_as_they_are_where_calibration_would_make_no_sense():
    logits = np.linspace(-1, 1, 80).reshape(10, 8)
    truths = np.ones([10, 8], np.float32)  # all safe: nothing can be fitted
    truths[:, :4] = logits[:, :4] < 0  # the higher the logit, the rarer: turning it round would be no calibration
    scale, shift = fit_calibration(logits, truths)
    np.testing.assert_array_equal(scale, 1.0)
    np.testing.assert_array_equal(shift, 0.0)


def _network(vignettes, **settings):
    config = NetworkConfig(hidden_sizes=(8,), networks=2, **settings)
    network = build_network(30, config, seed=1)
    return network, HeldOut(hold_out(vignettes, 0.5, seed=0)[1], 30, seed=0)


def test_calibrating_makes_probabilities_match_what_is_true_and_leaves_q_values(random_vignettes):
    network, held_out = _network(random_vignettes, outputs="probabilities")
    before = held_out.calibrate(network)
    raw = build_network(30, NetworkConfig(hidden_sizes=(8,), networks=2, outputs="probabilities"), seed=1)
    raw.set_weights(network.get_weights())
    raw.get_layer(AVERAGE).scale.assign(np.ones(8))
    raw.get_layer(AVERAGE).shift.assign(np.zeros(8))
    states = np.eye(30, dtype=np.float32)
    np.testing.assert_allclose(network(states)[:, :5], raw(states)[:, :5], atol=1e-6)
    assert np.abs(network(states).numpy() - raw(states).numpy())[:, 5:].max() > 0.05
    # Once more, the outputs are the same: calibration starts from the logits, not from what it made of them.
    np.testing.assert_allclose(held_out.calibrate(network).outputs, before.outputs, atol=1e-5)


def test_the_outputs_of_held_out_vignettes_are_those_of_the_network_for_every_prefix(random_vignettes):
    network, held_out = _network(random_vignettes, outputs="probabilities")
    part = hold_out(random_vignettes, 0.5, seed=0)[1]
    found = held_out.calibrate(network)
    np.testing.assert_array_equal(found.sizes, np.diff(part.offsets))
    np.testing.assert_array_equal(found.decision_counts, part.decision_counts)
    assert found.outputs.shape == (found.sizes.sum(), 13)
    # At its last piece all evidence of a vignette is known, whatever the order.
    states = np.zeros([len(found.sizes), 30], np.float32)
    for state, start, end in zip(states, part.offsets[:-1], part.offsets[1:], strict=True):
        codes = part.signed_codes[start:end]
        state[np.abs(codes) - 1] = np.sign(codes)
    np.testing.assert_allclose(found.outputs[np.cumsum(found.sizes) - 1], network(states), atol=1e-5)


@pytest.mark.parametrize(("outputs", "columns", "judged"), [("q_values", 5, 4), ("probabilities", 13, 8)])
def test_the_loss_of_a_network_that_says_nothing(vignettes_of, outputs, columns, judged):
    # Every output is .5, which calibration cannot scale: log 2 for each reward, or for each probability.
    part = hold_out(vignettes_of([([number + 1], [0, 0, 3, 0]) for number in range(30)]), 0.5, seed=0)[1]
    network = build_network(30, NetworkConfig(hidden_sizes=(), outputs=outputs), seed=0)
    network.get_layer("q_values").set_weights([np.zeros([30, columns], np.float32), np.zeros(columns, np.float32)])
    assert HeldOut(part, 30, seed=0).loss(network) == pytest.approx(judged * np.log(2), abs=1e-4)


def test_being_too_sure_alone_does_not_raise_the_loss(vignettes_of):
    # Piece d present means decision d, which the network says in a linear model; other pieces say nothing.
    eye = np.eye(4, dtype=int)
    rows = [([number % 4 + 1, number + 5], eye[number % 4].tolist()) for number in range(80)]
    part = hold_out(vignettes_of(rows), 0.5, seed=0)[1]
    held_out = HeldOut(part, 90, seed=0)
    network = build_network(90, NetworkConfig(hidden_sizes=(), outputs="probabilities"), seed=0)
    kernel = np.zeros([90, 13], np.float32)
    kernel[:4, 5:9] = 2 * eye - 1
    kernel[:4, 9:] = 2 * np.tril(np.ones([4, 4])) - 1
    losses = []
    for certainty in (1, 8):
        network.get_layer("q_values").set_weights([certainty * kernel, np.zeros(13, np.float32)])
        losses.append(held_out.loss(network))
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    assert losses[0] < 0.8 * 8 * np.log(2)


def test_many_states_are_judged_in_parts(random_vignettes, monkeypatch):
    network, held_out = _network(random_vignettes, outputs="probabilities")
    whole = held_out.loss(network)
    monkeypatch.setattr(validation, "_ROWS", 7)
    assert held_out.loss(network) == pytest.approx(whole, rel=1e-5)
