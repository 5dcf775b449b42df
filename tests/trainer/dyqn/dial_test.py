"""The choice of a dial: where the agent stops, what it then reaches, and what a bound on under-triage takes."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies
from hypothesis.extra import numpy as arrays

from schemas.errors import InputError
from trainer.dyqn.decision import Dial, best_triage
from trainer.dyqn.dial import (
    COST_OF_SAFETY,
    COST_OF_STOPPING,
    NEGLIGIBLE,
    WEIGHTS,
    HeldOutOutputs,
    Quality,
    choose,
    least_dial,
    quality,
    stops,
    with_threshold,
)

ASKS, DECIDES = 0.9, 0.1  # Q(s, ask), beside Q-values of .5 for every decision


def weight_for(held_out, bound, sure_enough):
    return least_dial(held_out, bound, [Dial(weight, sure_enough) for weight in WEIGHTS]).safety_weight


def _row(ask, appropriate, safe):
    return [0.5, 0.5, 0.5, 0.5, ask, *appropriate, *safe]


GREEN = ([0.0, 0.25, 0.8, 0.1], [1.0, 0.9, 0.85, 0.1])
YELLOW = ([0.1, 0.7, 0.3, 0.0], [1.0, 0.9, 0.3, 0.0])
RED = ([0.6, 0.3, 0.0, 0.0], [1.0, 0.4, 0.0, 0.0])


@pytest.fixture
def two():
    """Of three pieces the first vignette is asked about twice; the second stops after the first of its two."""
    outputs = [_row(ASKS, *GREEN), _row(ASKS, *YELLOW), _row(ASKS, *RED), _row(DECIDES, *YELLOW), _row(DECIDES, *GREEN)]
    counts = [[2, 1, 0, 0], [0, 0, 3, 0]]
    return HeldOutOutputs(np.array(outputs, np.float32), np.array([3, 2]), np.array(counts, np.uint8))


def test_asking_ends_with_the_evidence_or_where_the_q_values_say_so(two):
    assert stops(two, Dial()).tolist() == [3, 1]


def test_asking_ends_as_soon_as_the_decision_is_sure_enough_and_not_before(two):
    # The merits with w = 0: .8, .7, .6 after one, two and three pieces of the first vignette, .7 and .8 of the second.
    assert stops(two, Dial(sure_enough=0.75)).tolist() == [1, 2]  # the second by its Q-values would have stopped at 1
    assert stops(two, Dial(sure_enough=0.81)).tolist() == [3, 2]  # with the last piece of evidence
    # With w = 1 Green has (.8 + .85) / 2 = .825 and Yellow (.7 + .9) / 2 = .8.
    assert stops(two, Dial(1.0, 0.82)).tolist() == [1, 2]


def test_quality_worked_out_by_hand(two):
    # Red after 3 of 3 pieces where Red and Yellow are given; Yellow after 1 of 2 where Green is: safe, over-triage.
    assert quality(two, Dial()) == Quality(
        appropriateness=0.5, safety=1.0, over_triage=0.5, red_found=1.0, evidence=pytest.approx(4 / 5)
    )
    # Sure enough at .75: Green for the first one, which is neither appropriate nor safe nor Red; Green for the second.
    assert quality(two, Dial(sure_enough=0.75)) == Quality(0.5, 0.5, 0.0, 0.0, pytest.approx(3 / 5))


def test_red_is_not_judged_where_there_is_none(two):
    green_only = two._replace(decision_counts=np.array([[1, 2, 0, 0], [0, 0, 3, 0]], np.uint8))
    assert quality(green_only, Dial()).red_found is None


def _single(rows, decision_counts):
    """Vignettes of one piece of evidence each."""
    outputs = np.array(rows, np.float32)
    return HeldOutOutputs(outputs, np.ones(len(rows), np.int64), np.array(decision_counts, np.uint8))


def test_the_safest_weight_that_costs_little_appropriateness_is_chosen():
    # Green has .8 + .85 w, Red w: equal at w = 5.33. From the weight 6 on Red is chosen, P(appropriate) 0, P(safe) 1.
    counts = [[0, 0, 3, 0]]
    # Of 100 vignettes one that turns from Green to Red costs .8 / 100 of P(appropriate), two cost .016; what the one
    # brings is .15 / 100 of P(safe).
    assert 0.8 / 100 < COST_OF_SAFETY < 2 * 0.8 / 100
    assert NEGLIGIBLE < 0.15 / 100
    sure = ([0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0])
    rows = [_row(DECIDES, *sure)] * 99 + [_row(DECIDES, *GREEN)]
    assert choose(_single(rows, counts * 100)).safety_weight == 6.0
    rows = [_row(DECIDES, *sure)] * 98 + [_row(DECIDES, *GREEN)] * 2
    assert choose(_single(rows, counts * 100)).safety_weight == 0.0


def test_a_weight_that_brings_no_safety_is_not_chosen():
    # Green at every weight up to 4: .8 / .85.
    assert choose(_single([_row(DECIDES, *GREEN)] * 4, [[0, 0, 3, 0]] * 4)).safety_weight == 0.0


def test_easy_vignettes_are_asked_until_the_decision_is_known():
    # After one piece Green and Yellow are as likely, and Yellow is safe; after the second one is certain. At the weight
    # 32 Yellow would have the merit (.5 + 32) / 33 = .985 at once, which hides that it is wrong every other time.
    unsure = _row(ASKS, [0.0, 0.5, 0.5, 0.0], [1.0, 1.0, 0.5, 0.0])
    yellow, green = (_row(ASKS, [0.0, p, 1 - p, 0.0], [1.0, 1.0, 1 - p, 0.0]) for p in (1.0, 0.0))
    easy = _single([unsure, yellow, unsure, green] * 50, [[0, 3, 0, 0], [0, 0, 3, 0]] * 50)
    easy = easy._replace(sizes=np.full(100, 2))
    assert quality(easy, Dial(32.0, 0.98)).appropriateness == 0.5
    dial = choose(easy)
    assert quality(easy, dial)[:2] == (1.0, 1.0)
    assert stops(easy, dial).tolist() == [2] * 100


def test_the_dial_is_chosen_by_the_probabilities_and_not_by_what_clinicians_said():
    rows = [_row(DECIDES, *GREEN)] * 4
    assert choose(_single(rows, [[0, 0, 3, 0]] * 4)) == choose(_single(rows, [[3, 0, 0, 0]] * 4))


def test_the_threshold_that_stops_earliest_at_no_great_cost_is_chosen(two):
    # P(appropriate) of Red is .98, .99 and 1 after one, two and three pieces, and P(safe) is 1. Of the budget of .015,
    # the first piece costs .02 and the second .01: the lowest threshold above .98 stops at the second.
    rising = [_row(ASKS, [p, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]) for p in (0.98, 0.9901, 1.0)]
    assert 0.01 < COST_OF_STOPPING < 0.02
    late = _single(rising, [[2, 1, 0, 0]])._replace(sizes=np.array([3]))
    assert choose(late) == Dial(0.0, 0.99)
    assert stops(late, choose(late)).tolist() == [2]
    # Where every prefix says the same, the first piece is enough, and the lowest threshold stops there.
    same = HeldOutOutputs(two.outputs[[2, 2, 2]], two.sizes[:1], two.decision_counts[:1])
    assert stops(same, choose(same)).tolist() == [1]


@pytest.mark.parametrize("weight", [0.0, 4.0, 32.0])
def test_the_budget_holds_for_both_probabilities_at_any_weight(weight):
    generator = np.random.default_rng(3)
    sizes = generator.integers(1, 8, 200)
    appropriate = generator.dirichlet([0.4] * 4, sizes.sum())
    safe = np.minimum(1.0, appropriate[:, ::-1].cumsum(axis=1)[:, ::-1])  # as urgent as the decision, or less
    outputs = np.concatenate([np.full((sizes.sum(), 5), 0.5), appropriate, safe], axis=1).astype(np.float32)
    held_out = HeldOutOutputs(outputs, sizes, np.tile(np.array([[1, 1, 1, 1]], np.uint8), [200, 1]))
    dial = with_threshold(held_out, weight)
    ends = np.cumsum(sizes)

    def promised(known):
        rows = outputs[ends - sizes + known - 1]
        taken = best_triage(rows, dial).numpy()
        return np.array([rows[np.arange(200), 5 + taken].mean(), rows[np.arange(200), 9 + taken].mean()])

    assert (promised(sizes) - promised(stops(held_out, dial)) <= COST_OF_STOPPING + 1e-6).all()


def test_if_no_dial_changes_anything_the_least_weight_is_chosen_and_little_is_asked(two):
    assert choose(HeldOutOutputs(two.outputs[2:3], np.array([1]), two.decision_counts[:1])) == Dial(0.0, 0.5)


@strategies.composite
def _outputs(draw):
    """Outputs of some states, as a network gives them: P(safe) never falls with urgency, P(appropriate) <= P(safe)."""
    rows = draw(strategies.integers(1, 8))
    shares = strategies.floats(0, 1, width=32)
    safe = -np.sort(-draw(arrays.arrays(np.float32, (rows, 4), elements=shares)), axis=1)
    safe[:, 0] = 1.0
    appropriate = np.minimum(draw(arrays.arrays(np.float32, (rows, 4), elements=shares)), safe)
    q_values = draw(arrays.arrays(np.float32, (rows, 5), elements=shares))
    return np.concatenate([q_values, appropriate, safe], axis=1)


@hypothesis.settings(max_examples=50)
@hypothesis.given(_outputs())
def test_a_larger_weight_never_gives_a_less_urgent_decision(outputs):
    decisions = np.stack([best_triage(outputs, Dial(weight)).numpy() for weight in WEIGHTS])
    # Merits that are equal but for rounding may go either way: no step of the weights is judged there.
    clear = np.ones(len(outputs), bool)
    for weight in WEIGHTS:
        merits = np.sort((outputs[:, 5:9] + np.float32(weight) * outputs[:, 9:]) / np.float32(1 + weight), axis=1)
        clear &= merits[:, 3] - merits[:, 2] > 1e-5
    assert (np.diff(decisions[:, clear], axis=0) <= 0).all()


def _exchangeable(count, seed):
    """Vignettes of which the network knows P(safe) roughly: each has a least urgent safe decision of its own."""
    generator = np.random.default_rng(seed)
    least = generator.integers(0, 4, count)
    columns = np.arange(4)
    safe = 1 / (1 + np.exp(2 * (columns - least[:, np.newaxis] - 0.5 + generator.normal(0, 1, (count, 1)))))
    safe[:, 0] = 1.0
    appropriate = np.minimum(
        safe, np.exp(-np.abs(columns - least[:, np.newaxis] - 1 + generator.normal(0, 1, (count, 1))))
    )
    outputs = np.concatenate([np.full((count, 5), 0.5), appropriate, safe], axis=1).astype(np.float32)
    return outputs, np.eye(4, dtype=np.uint8)[least]


def test_under_triage_stays_below_the_bound_on_the_average_over_resplits():
    outputs, counts = _exchangeable(1_200, seed=5)
    ones = np.ones(1_200, np.int64)
    bound, reached, weights = 0.1, [], set()
    for split in range(50):  # the mean of these has a standard error below .003
        order = np.random.default_rng(split).permutation(1_200)
        calibration, fresh = (
            HeldOutOutputs(outputs[rows], ones[rows], counts[rows]) for rows in (order[:400], order[400:])
        )
        weight = weight_for(calibration, bound, None)
        weights.add(weight)
        reached.append(1 - quality(fresh, Dial(weight)).safety)
    assert np.mean(reached) <= bound + 0.01
    # The bound decides: without it more cases are under-triaged, and it is not met by sending everybody to Red.
    everything = HeldOutOutputs(outputs, ones, counts)
    assert 1 - quality(everything, Dial()).safety > bound + 0.02
    assert 0.0 not in weights
    assert np.mean(reached) > 0.03


def test_the_least_weight_that_keeps_the_bound_is_chosen():
    # 99 vignettes, of which ten want Yellow: Green for all under-triages those 10, (10 + 1) / (99 + 1) = .11.
    counts = [[0, 3, 0, 0]] * 10 + [[0, 0, 3, 0]] * 89
    held_out = _single([_row(DECIDES, *GREEN)] * 99, counts)
    assert weight_for(held_out, 0.1101, None) == 0.0
    # Only Red for all, from the weight 6 on, brings it below .11.
    assert weight_for(held_out, 0.1099, None) == 6.0


@pytest.mark.parametrize("bound", [0.0, 1.0, -0.1, 5.0])
def test_a_bound_that_is_not_a_share_is_refused(two, bound):
    with pytest.raises(InputError, match="above 0 and below 1"):
        weight_for(two, bound, None)


def test_a_bound_that_too_few_vignettes_can_show_is_refused():
    # Without a single mistake (0 + 1) / (n + 1) <= .05 takes 19 vignettes.
    faultless = _single([_row(DECIDES, *GREEN)] * 19, [[0, 0, 3, 0]] * 19)
    assert weight_for(faultless, 0.05, None) == 0.0
    fewer = _single([_row(DECIDES, *GREEN)] * 18, [[0, 0, 3, 0]] * 18)
    with pytest.raises(InputError, match="at least 19 held-out vignettes, and there are 18"):
        weight_for(fewer, 0.05, None)


def test_a_bound_that_no_weight_reaches_is_refused():
    wrong = ([0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0])
    with pytest.raises(InputError, match="no weight up to 32 reaches it"):
        weight_for(_single([_row(DECIDES, *wrong)] * 100, [[0, 0, 3, 0]] * 100), 0.05, None)
