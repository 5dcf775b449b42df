"""The division of a training split, and what the vignettes that a network does not learn from say of it."""

import numpy as np
import pytest

from schemas.errors import InputError
from tests.builders import network_of
from trainer.config import NetworkConfig, ValidationConfig
from trainer.dyqn import validation
from trainer.dyqn.network import build_network
from trainer.dyqn.rollout import Slice
from trainer.dyqn.validation import (
    Validator,
    divide,
    fit_calibration,
)
from triage_runtime import promise


def _rows(vignettes):
    """The vignettes of a part, as (pieces of evidence, counts)."""
    starts, ends = vignettes.offsets[:-1], vignettes.offsets[1:]
    return [
        (frozenset(vignettes.signed_codes[start:end].tolist()), tuple(counts.tolist()))
        for start, end, counts in zip(starts, ends, vignettes.decision_counts, strict=True)
    ]


def _divide(vignettes, seed=0, **settings):
    return divide(vignettes, ValidationConfig(**settings), seed)


def test_every_vignette_is_learned_from_held_out_or_apart(random_vignettes):
    learned, held_out, apart = _divide(random_vignettes, seed=3, held_out_share=0.25, set_apart=0.2)
    assert len(apart.decision_counts) == 40
    # Single pieces of evidence come more than once among them, so that the share is met from below.
    assert 45 <= len(held_out.decision_counts) <= 50
    everything = sorted(map(repr, _rows(learned) + _rows(held_out) + _rows(apart)))
    assert everything == sorted(map(repr, _rows(random_vignettes)))


def test_vignettes_with_the_same_evidence_are_all_learned_from_or_all_held_out_in_whatever_order_it_stands(
    vignettes_of,
):
    rows = [(codes, [1, 0, 0, 0]) for number in range(1, 40) for codes in ([number, -40], [-40, number])]
    rows += [([-number], [1, 0, 0, 0]) for number in range(1, 40)]  # absent is not present
    for share in (0.0, 0.3):
        division = _divide(vignettes_of(rows), held_out_share=0.4, set_apart=share)
        learned, held_out = ({evidence for evidence, _ in _rows(part)} for part in division[:2])
        assert learned.isdisjoint(held_out)
        assert 40 <= len(division.held_out.decision_counts) <= 47  # .4 of 117


def test_what_the_agent_to_start_from_has_learned_from_is_not_held_out_nor_is_what_has_the_same_evidence(vignettes_of):
    vignettes = vignettes_of([([number // 2 + 1], [1, 0, 0, 0]) for number in range(400)])  # pairs
    before = np.arange(400) % 2 == 0  # one of each pair
    before[200:] = False
    division = divide(vignettes, ValidationConfig(held_out_share=0.3), 0, before)
    held_out = {code for codes, _ in _rows(division.held_out) for code in codes}
    assert len(division.held_out.decision_counts) == 120
    assert held_out <= set(range(101, 201))
    same = divide(vignettes, ValidationConfig(held_out_share=0.3), 0, np.zeros(400, bool))
    assert _rows(same.held_out) == _rows(_divide(vignettes, held_out_share=0.3).held_out)


@pytest.mark.parametrize("new", [0, 99])
def test_where_too_few_vignettes_are_new_to_the_agent_to_start_from_none_is_held_out_of_the_others(vignettes_of, new):
    # At least 100 have to be held out, as a quarter of 500 is more.
    vignettes = vignettes_of([([number + 1], [1, 0, 0, 0]) for number in range(500)])
    before, config = np.arange(500) >= new, ValidationConfig(held_out_share=0.1)
    with pytest.raises(
        InputError, match=f"only {new} of the 500 training vignettes are new .* 100 have to be held out"
    ):
        divide(vignettes, config, 0, before)
    before[new] = False
    before[:100] = False
    assert len(divide(vignettes, config, 0, before).held_out.decision_counts) == 100
    assert divide(vignettes, ValidationConfig(), 0, before).held_out is None


def test_a_promise_is_wrong_no_more_often_than_its_confidence_permits_where_many_patients_are_alike():
    # Of 220 kinds of patients with one piece of evidence, 55 are decided wrongly: a risk of .25, of which "at most .2"
    # is not true. An exact test at .1 may call it true in at most 10% of the draws, of independent patients in few.
    wrong = np.arange(220) % 4 == 0
    generator, promised = np.random.default_rng(0), 0
    for seed in range(300):
        kinds = generator.integers(220, size=3_000)
        codes = np.where(kinds < 110, kinds + 1, 109 - kinds)
        vignettes = Slice(np.arange(3_001), codes, np.tile([1, 0, 0, 0], (3_000, 1)))
        apart = _divide(vignettes, seed, set_apart=0.1).apart.signed_codes
        errors = wrong[np.where(apart > 0, apart - 1, 109 - apart)].sum()
        promised += promise.p_value(promise.Count(int(errors), len(apart)), 0.2) <= 0.1
    assert promised <= 30


@pytest.mark.parametrize(("share", "count"), [(0.0, 50), (0.2, 2), (0.5, 1)])
def test_with_too_few_vignettes_networks_learn_from_all(vignettes_of, share, count):
    # A fifth of two vignettes, or half of one, is none; a quarter of two is none, too.
    vignettes = vignettes_of([([number + 1], [1, 0, 0, 0]) for number in range(count)])
    assert _divide(vignettes, held_out_share=share, set_apart=share) == (vignettes, None, None)


@pytest.mark.parametrize(("count", "held_out"), [(40, 10), (1_000, 100), (2_000, 200), (30_000, 1_000)])
def test_a_tenth_is_held_out_but_at_least_100_if_they_are_no_more_than_a_quarter(vignettes_of, count, held_out):
    vignettes = vignettes_of([([number + 1], [1, 0, 0, 0]) for number in range(count)])
    assert len(_divide(vignettes, held_out_share=0.1).held_out.decision_counts) == held_out


def test_calibration_recovers_a_known_miscalibration():
    generator = np.random.default_rng(0)
    true_logits = generator.normal(0, 2, (8_000, 8))
    truths = (generator.random(true_logits.shape) < 1 / (1 + np.exp(-true_logits))).astype(np.float32)
    # The network is twice too sure of appropriateness, and says too little of Red (1.5) and too much of Green (-1):
    # scale and shifts undo that.
    bias = np.array([1.5, 0, -1, 0, 0, 1.5, 0, 0])
    scale, shift = fit_calibration(true_logits * [2, 2, 2, 2, 1, 1, 1, 1] - bias, truths)
    # 32,000 pairs: standard errors are about .007 for a scale of .5, and .03 for a shift.
    np.testing.assert_allclose(scale, [0.5] * 4 + [1.0] * 4, atol=0.06)
    np.testing.assert_allclose(shift, bias * scale, atol=0.1)


def test_red_keeps_a_probability_where_no_patient_of_a_few_needed_it():
    # 100 patients in 16 states each; the network says some 7% for Red, which is appropriate for none. A shift s,
    # believed as strongly as one patient is, ends where 1600 x .07 exp(s) = 16 |s|: s = -1.5, where .07 exp(s) is some
    # .015. Without that belief P(Red) would go to 0.
    generator = np.random.default_rng(0)
    logits = generator.normal(0, 1, (1_600, 8))
    truths = (generator.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.float32)
    logits[:, 0] -= np.log(19)
    truths[:, 0] = 0
    scale, shift = fit_calibration(logits, truths)
    assert 0.01 < np.mean(1 / (1 + np.exp(-(scale * logits + shift)[:, 0]))) < 0.02


def test_logits_stay_as_they_are_where_calibration_would_make_no_sense():
    logits = np.linspace(-1, 1, 80).reshape(10, 8)
    truths = np.ones([10, 8], np.float32)  # all safe: nothing can be fitted
    truths[:, :4] = logits[:, :4] < 0  # the higher the logit, the rarer: turning it round would be no calibration
    scale, shift = fit_calibration(logits, truths)
    np.testing.assert_array_equal(scale, 1.0)
    np.testing.assert_array_equal(shift, 0.0)


def _half(vignettes):
    return divide(vignettes, ValidationConfig(set_apart=0.5), seed=0).apart


def _validator(part, evidence_count=30, max_questions=23):
    return Validator(part, evidence_count, max_questions, seed=0)


def _network(vignettes, **settings):
    config = NetworkConfig(hidden_sizes=(8,), networks=2, **settings)
    return build_network(30, config, seed=1), _validator(_half(vignettes))


def test_calibrating_makes_probabilities_match_what_is_true_and_leaves_q_values(random_vignettes):
    network, validator = _network(random_vignettes, outputs="probabilities")
    states = np.eye(30, dtype=np.float32)
    raw = network(states).numpy()
    validator.settle(network)
    before = validator.outputs(network).outputs
    np.testing.assert_allclose(network(states)[:, :5], raw[:, :5], atol=1e-6)
    assert np.abs(network(states).numpy() - raw)[:, 5:].max() > 0.05
    # Once more, the outputs are the same: calibration starts from the logits, not from what it made of them.
    validator.settle(network)
    np.testing.assert_allclose(validator.outputs(network).outputs, before, atol=1e-5)


def test_an_agent_of_cards_is_calibrated_by_what_stands_on_them(vignettes_of):
    """What its interviews add was made up: here piece 3, with which Red is rare to the network alone."""
    red, green = [1, 0, 0, 0], [0, 0, 1, 0]
    cards = vignettes_of([([1], red)] * 73 + [([1], green)] * 27 + [([2], red)] * 27 + [([2], green)] * 73)
    likely = np.array([1, -1, -4])  # the logit of Red: true of the first two pieces, as log(73 / 27) is 1
    kernel = np.zeros([3, 35])
    kernel[:, [5, 7, 10, 11]] = np.stack([likely, -likely, -likely, -likely], axis=1)  # Red, Green; safe: Yellow, Green
    network = network_of((kernel, np.eye(35)[[6, 8, 12]].sum(axis=0) * -6), outputs="probabilities")
    on_card = np.repeat(np.eye(3, dtype=np.int8)[:2], 100, axis=0)
    states = np.stack([on_card, on_card + np.int8([0, 0, 1])], axis=1)
    validation.calibrated_by_interviews(network, states, cards.decision_counts, _validator(cards, 3))
    np.testing.assert_allclose(network(np.eye(3, dtype=np.float32)[:2])[:, 5], [0.73, 0.27], atol=0.02)


def test_the_outputs_of_vignettes_are_those_of_the_network_for_every_prefix(random_vignettes):
    network, validator = _network(random_vignettes, outputs="probabilities")
    part = _half(random_vignettes)
    validator.settle(network)
    result = validator.outputs(network)
    np.testing.assert_array_equal(result.sizes, np.diff(part.offsets))
    np.testing.assert_array_equal(result.decision_counts, part.decision_counts)
    assert result.outputs.shape == (result.sizes.sum(), 32)
    # At its last piece all evidence of a vignette is known, whatever the order.
    states = np.zeros([len(result.sizes), 30], np.float32)
    for state, start, end in zip(states, part.offsets[:-1], part.offsets[1:], strict=True):
        codes = part.signed_codes[start:end]
        state[np.abs(codes) - 1] = np.sign(codes)
    np.testing.assert_allclose(result.outputs[np.cumsum(result.sizes) - 1], network(states), atol=1e-5)


def test_pieces_that_no_question_reaches_are_not_judged(vignettes_of):
    """After two questions three pieces are known, of two cards of one and of five."""
    validator = _validator(vignettes_of([([1], [0, 3, 0, 0]), ([1, 2, 3, 4, 5], [3, 0, 0, 0])]), max_questions=2)
    states, rows = validator.prefixes()
    assert (rows.tolist(), np.abs(states).sum(axis=1).tolist()) == ([0, 1, 1, 1], [1, 1, 2, 3])
    network = build_network(30, NetworkConfig(hidden_sizes=(8,), outputs="probabilities"), seed=1)
    assert validator.outputs(network).sizes.tolist() == [1, 3]


@pytest.mark.parametrize(("outputs", "columns", "judged"), [("q_values", 5, 4), ("probabilities", 35, 8)])
def test_the_loss_of_a_network_without_information(vignettes_of, outputs, columns, judged):
    # Every output is .5, which calibration cannot scale: log 2 for each reward, or for each probability.
    part = _half(vignettes_of([([number + 1], [0, 0, 3, 0]) for number in range(30)]))
    network = network_of((np.zeros([30, columns]), 0), outputs=outputs)
    assert _validator(part).loss(network) == pytest.approx(judged * np.log(2), abs=1e-4)
