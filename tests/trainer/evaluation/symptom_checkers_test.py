"""The terms of symptom checkers, with numbers worked out by hand."""

import numpy as np
import pytest

from trainer.evaluation import symptom_checkers

RED, YELLOW, GREEN, BLUE = np.eye(4, dtype=int) * 3  # three clinicians agree


def _figures(counts, seed=0, **decisions):
    agents = {name: np.array([each]) for name, each in decisions.items()}
    return symptom_checkers.figures(symptom_checkers.compared(agents, np.array(counts), 3, "Clinicians"), seed)


def test_the_measures_of_an_agent_on_cases_that_are_clear():
    # Right; one level too late; two levels too late; one level too early.
    report = _figures([RED, RED, YELLOW, GREEN], agent=[0, 1, 3, 1])
    agent, clinicians = report["checkers"]["agent"], report["checkers"]["Clinicians"]
    assert agent["accuracy"].mean == 1 / 4
    assert agent["within_one_level"].mean == 3 / 4
    assert agent["safety_of_advice"].mean == 2 / 4
    assert agent["inclination_to_overtriage"].mean == pytest.approx(1 / 3)  # of three errors
    assert agent["inclination_to_overtriage"].vignettes == 3
    assert [each and each.mean for each in agent["accuracy_by_level"].values()] == [0.5, 0.0, 0.0, None]
    assert agent["accuracy_by_level"]["Red"].vignettes == 2
    assert clinicians["accuracy"].mean == 1.0
    assert clinicians["inclination_to_overtriage"] is None  # no errors
    assert agent["comprehensiveness"] == 1.0


def test_the_capability_comparison_score_weighs_answers_by_the_difficulty_of_the_case():
    counts, agent, rules = [RED, YELLOW, GREEN], [0, 1, 1], [0, 2, 2]
    report = _figures(counts, agent=agent, rules=rules)
    right = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1]])  # the agent, with rules, clinicians
    difficulty = right.mean(axis=0)  # the package's name: the share that is right
    # The package's formula, for each checker: right answers add 1 - difficulty, wrong ones take difficulty away.
    scores = ((right * (1 - difficulty) - (1 - right) * difficulty).sum(axis=1) / 3 + 1) / 2 * 100
    assert [each["capability_comparison_score"].mean for each in report["checkers"].values()] == pytest.approx(scores)
    assert report["item_difficulty"].mean == pytest.approx(difficulty.mean())


def test_a_clinician_is_judged_by_the_others_and_the_agent_takes_each_ones_place():
    # {Red, Yellow, Yellow}: without the Red one, Yellow is right; without a Yellow one, Red and Yellow tie: Red.
    report = _figures([[1, 2, 0, 0]], agent=[1])
    # So Yellow is right for a third. Clinicians say Red where Yellow is right, and Yellow where Red is.
    assert report["checkers"]["agent"]["accuracy"].mean == pytest.approx(1 / 3)
    assert report["checkers"]["Clinicians"]["accuracy"].mean == 0.0
    assert report["checkers"]["Clinicians"]["safety_of_advice"].mean == pytest.approx(1 / 3)


def test_evidence_orders_are_averaged():
    those = symptom_checkers.compared({"agent": np.array([[0], [1], [1], [2]])}, np.array([YELLOW]), 3, "Clinicians")
    assert symptom_checkers.figures(those, 0)["checkers"]["agent"]["accuracy"].mean == 0.5


def test_with_one_clinician_each_the_agent_stands_alone_and_has_no_score():
    report = _figures([[1, 0, 0, 0], [0, 0, 0, 1]], agent=[0, 2])
    assert list(report["checkers"]) == ["agent"]
    assert report["checkers"]["agent"]["accuracy"].mean == 0.5
    assert report["checkers"]["agent"]["capability_comparison_score"] is None


def test_intervals_contain_the_mean():
    counts = np.random.default_rng(0).multinomial(4, [0.1, 0.3, 0.4, 0.2], 60)
    agent = _figures(counts, agent=np.random.default_rng(1).integers(0, 4, 60))["checkers"]["agent"]
    for name in symptom_checkers.MEASURES:
        assert agent[name].low < agent[name].mean < agent[name].high
