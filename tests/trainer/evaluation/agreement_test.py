import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from schemas.triage import Action
from trainer.data.split import majority
from trainer.evaluation import agreement

RED, YELLOW, GREEN, BLUE = Action.RED, Action.YELLOW, Action.GREEN, Action.BLUE


@pytest.fixture(scope="module")
def random_decisions():
    """Decisions in 3 orders on 40 vignettes, and 1 to 6 clinicians' decisions on each."""
    generator = np.random.default_rng(3)
    counts = np.stack([generator.multinomial(generator.integers(1, 7), [0.1, 0.4, 0.4, 0.1]) for _ in range(40)])
    return generator.integers(0, 4, [3, 40]), counts


def test_the_majority_decision_is_that_of_the_split_and_the_most_urgent_of_a_tie():
    counts = np.random.default_rng(0).integers(0, 3, [200, 4])
    counts = counts[counts.sum(axis=1) > 0]
    assert agreement.majority_decisions(counts).tolist() == [majority(row) for row in counts.tolist()]
    assert agreement.majority_decisions(np.array([[0, 2, 2, 1]])).tolist() == [YELLOW]


def test_confusion_shares_by_hand():
    # Vignette 0: clinicians Red, Red, Green; the agent says Red in one order and Yellow in the other.
    # Vignette 1: one clinician says Blue, and so does the agent both times.
    decisions = np.array([[RED, BLUE], [YELLOW, BLUE]])
    shares = agreement.confusion_shares(decisions, np.array([[2, 0, 1, 0], [0, 0, 0, 1]]))
    first = np.zeros([4, 4])
    first[RED, [RED, YELLOW]] = 2 / 3 * 1 / 2
    first[GREEN, [RED, YELLOW]] = 1 / 3 * 1 / 2
    np.testing.assert_allclose(shares[0], first)
    assert shares[1, BLUE, BLUE] == 1.0
    np.testing.assert_allclose(shares.sum(axis=(1, 2)), 1.0)


def test_kappa_equals_scikit_learns_if_all_vignettes_weigh_the_same(random_decisions):
    decisions, counts = random_decisions
    agent, clinician, weights = [], [], []
    for vignette, row in enumerate(counts):
        for order in decisions[:, vignette]:
            for column in np.repeat(np.arange(4), row):
                agent.append(order)
                clinician.append(column)
                weights.append(1 / (3 * row.sum()))
    expected = cohen_kappa_score(clinician, agent, weights="quadratic", sample_weight=weights)
    kappa = agreement.weighted_kappa(agreement.confusion_shares(decisions, counts).sum(axis=0))
    assert kappa == pytest.approx(expected)
    assert agreement.agent_agreement(decisions, counts, 0)["weighted_kappa"].mean == pytest.approx(expected)


def test_kappa_of_the_clinicians_is_that_of_all_pairs(random_decisions):
    _, counts = random_decisions
    one, other, weights = [], [], []
    for row in counts[counts.sum(axis=1) >= 3]:
        given = np.repeat(np.arange(4), row)
        pairs = [(a, b) for a in range(len(given)) for b in range(len(given)) if a != b]
        for a, b in pairs:
            one.append(given[a])
            other.append(given[b])
            weights.append(1 / len(pairs))
    expected = cohen_kappa_score(one, other, weights="quadratic", sample_weight=weights)
    kappa = agreement.clinician_agreement(counts, minimum_decisions=3, seed=0)["weighted_kappa"]
    assert kappa.mean == pytest.approx(expected)
    assert kappa.vignettes == np.count_nonzero(counts.sum(axis=1) >= 3)


def test_undefined_figures_are_none():
    always_green = np.full([2, 5], GREEN)
    figures = agreement.agent_agreement(always_green, np.tile([0, 0, 2, 0], [5, 1]), 0)
    assert figures["weighted_kappa"] is None
    assert figures["red_sensitivity"] is None
    assert figures["red_specificity"].mean == 1.0
    assert agreement.agent_agreement(always_green, np.tile([2, 0, 0, 0], [5, 1]), 0)["red_specificity"] is None


def test_red_sensitivity_and_specificity_worked_out_by_hand():
    counts = np.array([[2, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 2]])
    decisions = np.array([[RED, GREEN, RED, BLUE], [YELLOW, GREEN, YELLOW, BLUE]])
    # Majority Red: vignette 0 (Red in half of the orders) and 1 (a tie; never): .5 / 2. Others: vignette 2 (half) and 3
    # (always another one, though one clinician said Red): 1.5 / 2.
    figures = agreement.agent_agreement(decisions, counts, seed=0)
    assert (figures["red_sensitivity"].mean, figures["red_sensitivity"].vignettes) == (0.25, 2)
    assert (figures["red_specificity"].mean, figures["red_specificity"].vignettes) == (0.75, 2)


def test_a_clinician_is_judged_by_the_majority_of_the_others():
    # {Red, Red, Yellow}: a Red against {Red, Yellow}, a tie that is Red: found. Yellow against {Red, Red}: missed.
    # {Red, Yellow, Yellow}: Red against {Yellow, Yellow}: false alarm. A Yellow against {Red, Yellow}: missed.
    # {Red, Blue}: two decisions only, left out.
    counts = np.array([[2, 1, 0, 0], [1, 2, 0, 0], [1, 0, 0, 1]])
    figures = agreement.clinician_agreement(counts, minimum_decisions=3, seed=0)
    # Reference Red: 3/3 of vignette 0, of which 2/3 found; 2/3 of vignette 1, none found.
    assert figures["red_sensitivity"].mean == pytest.approx((2 / 3) / (1 + 2 / 3))
    # Reference another one: 1/3 of vignette 1, a false alarm.
    assert figures["red_specificity"].mean == 0.0
    assert agreement.clinician_agreement(counts, minimum_decisions=4, seed=0) is None


def test_the_agent_is_judged_by_all_clinicians_but_one():
    # {Red, Red, Green}, the agent says Yellow: without a Red it fits {Red, Green}; without Green it is less urgent than
    # {Red, Red}. {Yellow, Green}: too few decisions.
    figures = agreement.leave_one_out(np.array([[1, 1]]), np.array([[2, 0, 1, 0], [0, 1, 1, 0]]), 3, seed=0)
    assert figures.vignettes == 1
    assert figures.by_all_but_one["appropriateness"].mean == pytest.approx(2 / 3)
    assert figures.by_all_but_one["under_triage"].mean == pytest.approx(1 / 3)
    assert figures.by_all["appropriateness"].mean == 1.0
    # A Red fits {Red, Green} twice of three; Green is less urgent than {Red, Red}. All of it as safe as the agent.
    assert figures.less_clinicians["appropriateness"].mean == pytest.approx(2 / 3 - 2 / 3)
    assert figures.less_clinicians["safety"].mean == pytest.approx(0.0)
    # Red is the majority without one of the Reds too, as of a tie, and the agent never says it; of the clinicians, the
    # other Red does, and Green is judged by {Red, Red}: 2 of 3.
    assert figures.less_clinicians["red_sensitivity"].mean == pytest.approx(0 - 2 / 3)


def test_the_figures_of_leave_one_out_agree_with_a_naive_oracle():
    counts = np.random.default_rng(1).multinomial(4, [0.1, 0.3, 0.5, 0.1], 50)
    decisions = np.random.default_rng(2).integers(0, 4, [2, 50])
    figures = agreement.leave_one_out(decisions, counts, 3, seed=0).by_all_but_one
    fits, red = [], []
    for column, row in enumerate(counts):
        given = np.repeat(np.arange(4), row).tolist()
        for decision in decisions[:, column]:
            for index in range(4):
                others = given[:index] + given[index + 1 :]
                fits.append(min(others) <= decision <= max(others))
                majority = max(range(4), key=lambda label, others=others: (others.count(label), -label))
                red += [decision == 0] if majority == 0 else []
    assert figures["appropriateness"].mean == pytest.approx(np.mean(fits))
    assert figures["red_sensitivity"].mean == pytest.approx(np.mean(red))
