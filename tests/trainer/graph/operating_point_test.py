"""The choice of a point: where the agent stops, what it then reaches, and what it is worth."""

import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies
from hypothesis.extra import numpy as arrays

from schemas.triage import Action
from trainer.graph.decide import ASK_POINTS, PRICES, OperatingPoint, best_triage
from trainer.graph.operating_point import (
    BUDGET,
    CHOICES,
    RED_BUDGET,
    THRESHOLDS,
    WEIGHTS,
    HeldOutOutputs,
    Quality,
    choose,
    quality,
    stops,
    worth,
)

ASKS, DECIDES = 0.99, 0.1  # Q(ask) at every operating point
PLAIN = OperatingPoint(0.0)


def _row(ask, appropriate, safe):
    return [0.5, 0.5, 0.5, 0.5, 0.5, *appropriate, *safe, *[ask] * len(ASK_POINTS), 0.0]


GREEN = ([0.0, 0.25, 0.8, 0.1], [1.0, 0.9, 0.85, 0.1])
YELLOW = ([0.1, 0.7, 0.3, 0.0], [1.0, 0.9, 0.3, 0.0])
RED = ([0.6, 0.3, 0.0, 0.0], [1.0, 0.4, 0.0, 0.0])


@pytest.fixture
def two():
    """Of three pieces the first vignette is asked about twice; the second stops after the first of its two."""
    outputs = [_row(ASKS, *GREEN), _row(ASKS, *YELLOW), _row(ASKS, *RED), _row(DECIDES, *YELLOW), _row(DECIDES, *GREEN)]
    counts = [[2, 1, 0, 0], [0, 0, 3, 0]]
    return HeldOutOutputs(np.array(outputs, np.float32), np.array([3, 2]), np.array(counts, np.uint8))


def test_asking_ends_with_the_evidence_or_where_q_ask_says_so(two):
    assert stops(two, PLAIN).tolist() == [3, 1]


def test_asking_ends_as_soon_as_the_decision_is_sure_enough_and_not_before(two):
    # Utilities with w = 0: .8, .7, .6 after one, two and three pieces of the first vignette, .7 and .8 of the second.
    # By its Q(ask), the first one asks to the end, and the second one stops at 1.
    assert stops(two, OperatingPoint(0.0, sure_enough=0.69)).tolist() == [3, 1]
    assert stops(two, OperatingPoint(0.0, sure_enough=0.75)).tolist() == [3, 2]
    rows = [_row(DECIDES, *each) for each in (GREEN, YELLOW, RED, YELLOW, GREEN)]
    decides = two._replace(outputs=np.array(rows, np.float32))
    assert stops(decides, OperatingPoint(0.0, sure_enough=0.75)).tolist() == [1, 2]
    assert stops(decides, OperatingPoint(0.0, sure_enough=0.81)).tolist() == [3, 2]  # with the last piece of evidence
    # With w = 1 Green has (.8 + .85) / 2 = .825 and Yellow (.7 + .9) / 2 = .8.
    assert stops(decides, OperatingPoint(1.0, 0.82)).tolist() == [1, 2]


def test_quality_worked_out_by_hand(two):
    # Red after 3 of 3 pieces where Red and Yellow are given; Yellow after 1 of 2 where Green is: safe, over-triage.
    assert quality(two, PLAIN) == Quality(
        appropriateness=0.5, safety=1.0, over_triage=0.5, red_found=1.0, evidence=pytest.approx(4 / 5)
    )
    # Sure enough at .75, it decides Green for the second one, after both pieces.
    assert quality(two, OperatingPoint(0.0, sure_enough=0.75)) == Quality(1.0, 1.0, 0.0, 1.0, pytest.approx(5 / 5))


def _single(rows, decision_counts):
    """Vignettes of one piece of evidence each."""
    outputs = np.array(rows, np.float32)
    return HeldOutOutputs(outputs, np.ones(len(rows), np.int64), np.array(decision_counts, np.uint8))


def _asking(values):
    """Q(ask) that rises by `values` for each piece that is still to come, less the price; [R, 18] for two pieces."""
    return [max(value - price, 0.0) for value in values for price in PRICES]


def test_easy_vignettes_are_asked_until_the_decision_is_known():
    # After one piece Green and Yellow are as likely, and Yellow is safe; after the second one is certain, worth
    # 1 at any weight, less the price. At the weight 32 Yellow has the utility (.5 + 32) / 33 = .985 at once.
    unsure = [0.5] * 5 + [0.0, 0.5, 0.5, 0.0, 1.0, 1.0, 0.5, 0.0] + _asking([1.0, 1.0, 1.0]) + [0.0]
    yellow, green = (_row(DECIDES, [0.0, p, 1 - p, 0.0], [1.0, 1.0, 1 - p, 0.0]) for p in (1.0, 0.0))
    easy = _single([unsure, yellow, unsure, green] * 50, [[0, 3, 0, 0], [0, 0, 3, 0]] * 50)
    easy = easy._replace(sizes=np.full(100, 2))
    at_once = easy.outputs[::2, 5:13].reshape(-1, 2, 4)
    assert (at_once[:, 0, 1] + 32 * at_once[:, 1, 1]).mean() / 33 > 0.98
    point = choose(easy)
    assert quality(easy, point)[:2] == (1.0, 1.0)
    assert stops(easy, point).tolist() == [2] * 100


def test_a_large_weight_asks_although_safety_alone_makes_a_decision_worth_much():
    """At first Yellow has the utility (.7 + 8 x .995) / 9 = .962. Then Green has 1, of which Q(ask) knows nothing."""
    first, last = (
        _row(DECIDES, [0.0, 0.7, 0.3, 0.0], [1.0, 0.995, 0.3, 0.0]),
        _row(DECIDES, [0.0, 0.0, 1.0, 0.0], [1.0] * 4),
    )
    held_out = _single([first, last] * 50, [[0, 0, 3, 0]] * 50)._replace(sizes=np.full(50, 2))
    assert stops(held_out, choose(held_out, 8.0)).tolist() == [2] * 50


@pytest.mark.parametrize("decided", [GREEN, YELLOW, RED])
def test_where_asking_brings_nothing_nothing_is_asked(decided):
    alike = HeldOutOutputs(
        np.array([_row(DECIDES, *decided)] * 6, np.float32), np.array([3, 3]), np.array([[0, 0, 3, 0]] * 2, np.uint8)
    )
    assert stops(alike, choose(alike)).tolist() == [1, 1]


def _interviews(seed, patients, pieces, appropriate_of):
    """Interviews whose Q(ask) is what the last state is worth, less the price of each question."""
    generator = np.random.default_rng(seed)
    appropriate = appropriate_of(generator, (patients, pieces))  # [M, N, 4]
    safe = np.minimum(1.0, appropriate[..., ::-1].cumsum(axis=2)[..., ::-1])
    ask = []
    for share, price in ASK_POINTS:
        worth = ((1 - share) * appropriate + share * safe).max(axis=2)  # [M, N]
        ask.append(np.maximum(worth[:, -1:] - price * np.arange(pieces - 1, -1, -1), 0.0))
    q_values, last = np.full((patients, pieces, 5), 0.5), np.zeros((patients, pieces, 1))
    columns = [q_values, appropriate, safe, np.stack(ask, axis=2), last]
    outputs = np.concatenate(columns, axis=2).reshape(-1, 14 + len(ASK_POINTS)).astype(np.float32)
    return HeldOutOutputs(outputs, np.full(patients, pieces), np.ones((patients, 4), np.uint8))


def _learning(generator, shape):
    """The decision becomes clearer with each answer."""
    sharpness = np.geomspace(0.5, 8.0, shape[1])[:, np.newaxis]
    logits = generator.normal(size=(shape[0], 1, 4)) * sharpness
    return np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)


@pytest.mark.parametrize("shown", [True, False], ids=["the probabilities show it", "the clinicians show it"])
def test_what_stands_on_cards_is_heard_though_interviews_could_do_without(shown):
    """At first Yellow has the utility (.5 + 1) / 2 = .75, and Q(ask) is .76 less the price: asking needs one below .01.

    Then Green is right. In interviews it is so from the start, and the highest price would do. Where the probabilities
    expect next to nothing of the last piece, .505 after .5, the clinicians' decisions tell.
    """
    asking = FIRST_LACKS
    first = [0.5] * 5 + [0.0, 0.5, 0.5, 0.0, 1.0, 1.0, 0.5, 0.0] + asking
    last = _row(DECIDES, [0.0, 0.2, 1.0, 0.0] if shown else [0.0, 0.495, 0.505, 0.0], [1.0, 1.0, 1.0, 0.0])
    interviews = _single([last] * 2, [[0, 0, 3, 0]] * 2)
    assert choose(interviews, 1.0).price == max(CHOICES)
    cards = interviews._replace(card_outputs=np.array([first, last] * 2, np.float32), card_sizes=np.array([2, 2]))
    for point in (choose(cards), choose(cards, 1.0)):
        assert [stops(play, point).tolist() for play in cards.plays] == [[1, 1], [2, 2]]
    assert 0.005 < choose(cards, 1.0).price < 0.01  # the highest one that hears them


FIRST_LACKS = [
    *(0.76 - price for _, price in ASK_POINTS),
    0.0,
]  # Q(ask) that asks at prices below .01 if utility is .75


def test_a_few_emergencies_that_only_asking_finds_are_asked_for():
    """Of 40 patients one is decided Yellow, with the utility (.7 + .8) / 2 = .75, or Red when everything is known.

    Without asking, P(appropriate) loses .3 / 40 and P(safe) .2 / 40, less than a budget, but no Red case is found.
    """
    first = [0.5] * 5 + [0.3, 0.7, 0.3, 0.0, 1.0, 0.8, 0.1, 0.0] + FIRST_LACKS
    last = _row(DECIDES, [1.0, 0.2, 0.0, 0.0], [1.0, 0.2, 0.0, 0.0])
    other = _row(DECIDES, [0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0])
    held_out = _single([first, last, *[other] * 78], [[3, 0, 0, 0], *[[0, 0, 3, 0]] * 39])
    held_out = held_out._replace(sizes=np.full(40, 2))
    assert stops(held_out, choose(held_out)).tolist() == [2, *[1] * 39]


@pytest.mark.parametrize(("cards", "known"), [(100, 2), (400, 1)])
def test_what_few_cards_show_counts_with_its_standard_error(cards, known):
    """Yellow is decided at first and Green at last, which one card's clinicians alone require.

    Of 100 cards, .01 is lost, within the budget, but its standard error is .01, too; of 400, .0025 + .0025.
    """
    first = [0.5] * 5 + [0.0, 0.5, 0.5, 0.0, 1.0, 1.0, 0.5, 0.0] + FIRST_LACKS
    last = _row(DECIDES, [0.0, 0.495, 0.505, 0.0], [1.0, 1.0, 1.0, 0.0])
    held_out = _single([last] * cards, [[0, 0, 3, 0], *[[0, 2, 1, 0]] * (cards - 1)])
    held_out = held_out._replace(card_outputs=np.array([first, last] * cards, np.float32), card_sizes=np.full(cards, 2))
    assert stops(held_out.plays[1], choose(held_out)).tolist() == [known] * cards


DATA_SETS = {
    "ordinary": (5, _learning),
    "hard": (5, lambda generator, shape: generator.dirichlet([5.0] * 4, shape)),
    "one piece each": (1, _learning),
    "40 pieces each": (40, _learning),
}


def _reached(held_out, point, known=None):
    """P(appropriate), P(safe) and minus the pieces known in the mean, where the agent stops or after `known` pieces."""
    patients, rows = len(held_out.sizes), np.arange(len(held_out.sizes))
    known = stops(held_out, point) if known is None else known
    outputs = held_out.outputs.reshape(patients, held_out.sizes[0], -1)[rows, known - 1]
    taken = best_triage(outputs, point).numpy()
    return np.array([outputs[rows, 5 + taken].mean(), outputs[rows, 9 + taken].mean(), -known.mean()])


@pytest.mark.parametrize("name", DATA_SETS)
def test_no_point_that_could_be_chosen_dominates_the_chosen_one(name):
    held_out = _interviews(0, 60, *DATA_SETS[name])
    mine = _reached(held_out, choose(held_out))
    stopping = [*((None, price) for price in PRICES), *((threshold, PRICES[-1]) for threshold in THRESHOLDS)]
    for weight, (threshold, price) in itertools.product((1.0, 2.0, 4.0), stopping):
        other = _reached(held_out, OperatingPoint(weight, threshold, price))
        assert not ((other >= mine).all() and (other > mine + 1e-6).any()), (weight, price, threshold)


@pytest.mark.parametrize("name", DATA_SETS)
@pytest.mark.parametrize("weight", [0.0, 1.0, 8.0])
def test_the_budget_holds_for_both_probabilities_at_any_weight(name, weight):
    held_out = _interviews(6, 60, *DATA_SETS[name])
    point = choose(held_out, weight)
    assert point.safety_weight == weight
    lost = _reached(held_out, point, held_out.sizes) - _reached(held_out, point)
    assert (lost[:2] <= BUDGET + 1e-6).all()


@pytest.mark.parametrize("name", DATA_SETS)
def test_a_larger_weight_finds_no_fewer_red_cases(name):
    """As their share may fall by its budget against asking everything, so may it from one weight to the next."""
    held_out = _interviews(7, 200, *DATA_SETS[name])
    ends = np.cumsum(held_out.sizes) - held_out.sizes
    found = []
    for weight in WEIGHTS[::3]:
        outputs = held_out.outputs[ends + stops(held_out, point := choose(held_out, weight)) - 1]
        red = outputs[:, 5]
        found.append(red[best_triage(outputs, point).numpy() == Action.RED].sum() / max(red.sum(), 1e-9))
    assert np.diff(found).min() >= -RED_BUDGET


def test_where_every_point_exceeds_a_budget_it_is_still_none_that_another_one_dominates():
    """Of ten patients one is Red in the end, whom no point asks: Green is worth .999 at first, and Q(ask) is 0.

    The others are Green before and after. At the lowest price alone they are asked, which brings nothing.
    """
    first = _row(DECIDES, [0.0, 0.0, 0.999, 0.0], [1.0, 1.0, 0.999, 0.0])
    last = _row(DECIDES, [1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0])
    asked = first[:13] + [1.0 if price == PRICES[0] else 0.0 for _, price in ASK_POINTS] + [0.0]
    held_out = _single([first, last, *[asked, first] * 9], [[3, 0, 0, 0], *[[0, 0, 3, 0]] * 9])
    held_out = held_out._replace(sizes=np.full(10, 2))
    assert stops(held_out, OperatingPoint(1.0, price=PRICES[0])).tolist() == [1, *[2] * 9]
    assert stops(held_out, choose(held_out)).tolist() == [1] * 10


@strategies.composite
def _outputs(draw):
    """Outputs of some states, as a network gives them: P(safe) never falls with urgency, P(appropriate) <= P(safe)."""
    rows = draw(strategies.integers(1, 8))
    shares = strategies.floats(0, 1, width=32)
    safe = -np.sort(-draw(arrays.arrays(np.float32, (rows, 4), elements=shares)), axis=1)
    safe[:, 0] = 1.0
    appropriate = np.minimum(draw(arrays.arrays(np.float32, (rows, 4), elements=shares)), safe)
    q_values = draw(arrays.arrays(np.float32, (rows, 5), elements=shares))
    return np.concatenate(
        [q_values, appropriate, safe, np.full((rows, len(ASK_POINTS)), 0.5), np.zeros((rows, 1))], axis=1
    )


@hypothesis.settings(max_examples=50)
@hypothesis.given(_outputs())
def test_a_larger_weight_never_gives_a_less_urgent_decision(outputs):
    decisions = np.stack([best_triage(outputs, OperatingPoint(weight)).numpy() for weight in WEIGHTS])
    # Utilities that are equal but for rounding may go either way: no step of the weights is judged there.
    clear = np.ones(len(outputs), bool)
    for weight in WEIGHTS:
        utilities = np.sort((outputs[:, 5:9] + np.float32(weight) * outputs[:, 9:13]) / np.float32(1 + weight), axis=1)
        clear &= utilities[:, 3] - utilities[:, 2] > 1e-5
    assert (np.diff(decisions[:, clear], axis=0) <= 0).all()


def test_what_a_point_is_worth_falls_with_every_question(two):
    # It decides Red with (.6 + 1) / 2 after three pieces, and Yellow with (.7 + .9) / 2 after one; .004 a piece.
    assert worth(two, PLAIN) == pytest.approx(0.8 - 0.004 * 2, abs=1e-6)
