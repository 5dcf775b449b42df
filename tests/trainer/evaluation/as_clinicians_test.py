"""The agent in the place of a clinician, against a naive oracle."""

import numpy as np
import pytest

from trainer.evaluation import as_clinicians


def test_the_agent_is_judged_by_all_clinicians_but_one():
    # {Red, Red, Green}, the agent says Yellow: without a Red it fits {Red, Green}; without Green it is less urgent than
    # {Red, Red}. {Yellow, Green}: too few decisions.
    figures = as_clinicians.leave_one_out(np.array([[1, 1]]), np.array([[2, 0, 1, 0], [0, 1, 1, 0]]), 3, seed=0)
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


def test_the_figures_agree_with_a_naive_oracle():
    counts = np.random.default_rng(1).multinomial(4, [0.1, 0.3, 0.5, 0.1], 50)
    decisions = np.random.default_rng(2).integers(0, 4, [2, 50])
    figures = as_clinicians.leave_one_out(decisions, counts, 3, seed=0).by_all_but_one
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
