"""The division of a training split, and what the vignettes that a network does not learn from say of it."""

import numpy as np
import pytest
import scipy.special

from schemas.errors import InputError
from schemas.triage import Action
from tests.builders import network_of
from trainer.config import ValidationConfig
from trainer.dyqn.calibrate import HeldOut, Settling, divide, interviews, prefixes, settling
from trainer.dyqn.network import HEADS
from trainer.dyqn.rollout import Slice
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
    assert len(held_out.decision_counts) == 50
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
    with pytest.raises(InputError, match=f"{new} of the 500 .* 100 "):
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


@pytest.mark.parametrize("seed", range(5))
def test_many_vignettes_that_are_alike_do_not_keep_others_from_being_held_out(vignettes_of, seed):
    vignettes = vignettes_of([([max(number, 100)], [1, 0, 0, 0]) for number in range(1, 1_001)])  # 100 are alike
    assert len(_divide(vignettes, seed, held_out_share=0.1).held_out.decision_counts) == 100


@pytest.mark.parametrize(("count", "held_out"), [(40, 10), (1_000, 100), (2_000, 200), (30_000, 1_000)])
def test_a_tenth_is_held_out_but_at_least_100_if_they_are_no_more_than_a_quarter(vignettes_of, count, held_out):
    vignettes = vignettes_of([([number + 1], [1, 0, 0, 0]) for number in range(count)])
    assert len(_divide(vignettes, held_out_share=0.1).held_out.decision_counts) == held_out


RED, GREEN, BLUE = ([1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1])


def _network(kernel, bias):
    """A network whose seven logits are linear in the state."""
    return network_of((kernel, bias), outputs="probabilities")


def _settle(network, states, counts):
    """Calibrates a network by patients of one state each."""
    judged = HeldOut(np.int8(states), np.ones(len(states), int), np.array(counts))
    return Settling(judged, judged, judged.states).settle(network)


def _calibration(network):
    layer = network.get_layer(HEADS)
    return layer.scale.numpy(), layer.shift.numpy()


def _patients(count, cuts, seed=0):
    """States, the logit of each, and one decision for each: at most as urgent as j with the logit plus cuts[j]."""
    generator = np.random.default_rng(seed)
    states, slopes = generator.choice([-1, 0, 1], (count, 8)), generator.normal(0, 0.5, 8)
    chances = scipy.special.expit((states @ slopes)[:, np.newaxis] + cuts)
    return states, slopes, np.eye(4, dtype=int)[(generator.random((count, 1)) < chances).sum(axis=1)]


def test_calibration_recovers_a_known_miscalibration():
    cuts, bias = np.array([1.0, -0.5, -2.0]), np.array([1.5, 0, -1, 0, 0.5, 0])
    states, slopes, counts = _patients(6_000, cuts)
    # One clinician each: a decision is safe where all are less urgent than the one before. The network is twice too
    # sure, and says too little of one decision and too much of another.
    kernel = np.outer(slopes, [2] * 6 + [0])
    network = _network(kernel, [*(2 * np.tile(cuts, 2) - bias), 0])
    before = _settle(network, states, counts)
    scale, shift = _calibration(network)
    # Standard errors are about .01 and .03.
    np.testing.assert_allclose(scale, [0.5] * 6 + [1], atol=0.05)
    np.testing.assert_allclose(shift, [*(bias / 2), 0], atol=0.12)
    # Once more, the outputs are the same: calibration starts from the logits, not from what it made of them.
    np.testing.assert_allclose(_settle(network, states, counts).q, before.q, atol=1e-5)


def test_red_keeps_a_probability_where_no_patient_of_a_few_needed_it():
    # The network says some 7% for Red, which is appropriate for none of 1,600. A shift s, believed as strongly as
    # one patient in 16 states is, ends where 1600 x .07 exp(-s) = 16 s: s = 1.5, where .07 exp(-s) is some .015. As
    # Yellow is safe for all, too, the shift of all logits moves a little in the same direction. Without that belief
    # P(Red) would go to 0.
    cuts = np.array([99.0, 0.0, -1.0])
    states, slopes, counts = _patients(1_600, cuts)
    said = np.array([np.log(19), 0.0, -1.0])
    network = _network(np.outer(slopes, [1] * 6 + [0]), [*said, *said, 0])
    _settle(network, states, counts)
    appropriate = network(np.float32(states))["appropriate"].numpy()
    assert 0.005 < appropriate[:, Action.RED].mean() < 0.02


@pytest.mark.parametrize("counts", [[BLUE] * 100, [BLUE] * 50 + [RED] * 50])
def test_logits_stay_as_they_are_where_calibration_would_make_no_sense(counts):
    # Nothing can be fitted where all truths are the same; and turning the logits round would be no calibration.
    network = _network(np.ones([1, 7]), 0)
    _settle(network, np.repeat([[-1], [1]], 50, axis=0), counts)
    np.testing.assert_array_equal(_calibration(network), [[1] * 7, [0] * 7])


def test_held_out_outputs_of_a_patient_are_by_a_calibration_on_others():
    """Every second patient is less often Red than the network says, and the others more often."""
    (states, slopes, rare), (_, _, common) = (_patients(1_000, np.array([1, -0.5, -2]) + shift) for shift in (2, -2))
    network = _network(np.outer(slopes, [1] * 6 + [0]), [*np.tile([1, -0.5, -2], 2), 0])
    result = _settle(network, np.repeat(states, 2, axis=0), np.stack([rare, common], axis=1).reshape(-1, 4))
    red = result.appropriate[:, Action.RED]
    found, expected = [red[::2].mean(), red[1::2].mean()], [common[:, 0].mean(), rare[:, 0].mean()]
    np.testing.assert_allclose(found, expected, atol=0.03)


def _two_best_decisions(pieces):
    """A network: the best decision is Red with .9, and with the second piece Yellow with .8; returns its kernel, too.

    All clinicians are less urgent than Red, and Yellow is safe, with .2, and with that piece .8.
    """
    kernel, bias = np.zeros([pieces, 7]), np.full(7, -20.0)
    bias[[0, 3, 6]] = scipy.special.logit([0.2, 0.2, 0.5])
    kernel[1, [0, 3]] = -2 * bias[[0, 3]]  # the logit of .8 is that of .2 negated
    return kernel, bias


def test_asking_is_calibrated_to_what_the_next_state_is_worth_whatever_the_network_says_of_asking():
    kernel, bias = _two_best_decisions(4)
    kernel[2, 6], kernel[3, 6] = 2.0, -20.0  # the third piece is noise, the fourth the answer: both change Q(ask) alone
    network = _network(kernel, bias)
    first = np.int8([[1, second, third, 0] for second in (0, 1) for third in (-1, 1)])
    states = np.tile(np.stack([first, first + np.int8([0, 0, 0, 1])], axis=1), [25, 1, 1])
    counts = np.tile(RED, [100, 1])  # whose truths are all the same, so that the other logits stay
    judged = HeldOut(states[:, 0], np.ones(100, int), counts)
    Settling(judged, interviews(states, counts), states[:, 1]).settle(network)
    asking = network(np.float32(first))["q"][:, Action.ASK]
    np.testing.assert_allclose(asking, [0.9 - 0.004] * 2 + [0.8 - 0.004] * 2, atol=2e-3)


def test_asking_is_calibrated_by_reading_vignettes_as_well_as_by_interviews():
    network = _network(*_two_best_decisions(3))
    first = np.int8([[1, 0, 0], [1, 1, 0]])
    led = np.tile(np.stack([first, first + np.int8([0, 0, 1])], axis=1), [50, 1, 1])  # from .9 to .9, or .8 to .8
    read, counts = np.tile(first, [100, 1, 1]), np.tile(RED, [100, 1])  # from .9 to .8
    Settling(interviews(read, counts), interviews(led, counts), led[:, 0]).settle(network)
    asking = network(np.float32(first))["q"][:, Action.ASK]
    np.testing.assert_allclose(asking, [(50 * 0.9 + 100 * 0.8) / 150 - 0.004, 0.8 - 0.004], atol=2e-3)


def test_an_agent_of_cards_is_calibrated_by_what_stands_on_them(vignettes_of):
    """What its interviews add was made up: here piece 3, with which Red is rare to the network alone."""
    cards = vignettes_of([([1], RED)] * 73 + [([1], GREEN)] * 27 + [([2], RED)] * 27 + [([2], GREEN)] * 73)
    likely = np.array([1, -1, -4])  # the logit of Red: true of the first two pieces, as log(73 / 27) is 1
    kernel, bias = np.zeros([3, 7]), np.array([0, 0, -6, 0, 0, -6, 0])
    kernel[:, [0, 1, 3, 4]] = -likely[:, np.newaxis]  # that Yellow and Green are safe, or Red and Yellow too urgent
    network = _network(kernel, bias)
    on_card = np.repeat(np.eye(3, dtype=np.int8)[:2], 100, axis=0)
    led = np.stack([on_card, on_card + np.int8([0, 0, 1])], axis=1)
    result = settling(cards, 3, 23, 0, led, whole=False).settle(network)
    appropriate = network(np.eye(3, dtype=np.float32)[:2])["appropriate"]
    np.testing.assert_allclose(appropriate[:, Action.RED], [0.73, 0.27], atol=0.02)
    assert (result.appropriate.shape, result.sizes.tolist()) == ((400, 4), [2] * 200)


def test_an_agent_of_complete_patients_is_calibrated_by_interviews_with_them(vignettes_of):
    led = np.int8([[[1, 0, 0], [1, -1, 0]]])
    parts = settling(vignettes_of([([1, 3], RED)]), 3, 23, 0, led, whole=True)
    assert parts.judged is parts.asked
    assert parts.whole.tolist() == [[1, -1, 1]]  # who lacks what is not listed


def test_vignettes_are_judged_after_each_piece_that_questions_reach(vignettes_of):
    """After two questions three pieces are known, of two cards of one and of five."""
    part = vignettes_of([([1], [0, 3, 0, 0]), ([1, -2, 3, 4, 5], [3, 0, 0, 0])])
    states, sizes, counts = prefixes(part, 5, max_questions=2, seed=0)
    assert (sizes.tolist(), np.abs(states).sum(axis=1).tolist()) == ([1, 3], [1, 1, 2, 3])
    assert counts is part.decision_counts
    assert states[0].tolist() == [1, 0, 0, 0, 0]
    assert (states[1:] * [1, -1, 1, 1, 1] >= 0).all()
    assert (np.abs(np.diff(states[1:], axis=0)).sum(axis=1) == 1).all()
