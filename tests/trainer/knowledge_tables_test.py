import numpy as np
import pytest

from trainer.knowledge_tables import IMPOSSIBLE, KnowledgeTables
from trainer.simulation_config import SimulationConfig

COLD, HEART_ATTACK, MISCARRIAGE = range(3)


@pytest.fixture
def tables(toy_knowledge):
    return KnowledgeTables(toy_knowledge, SimulationConfig(leak=1.0, case_mix_exponent=0.5, prior_exponent=1.0))


def test_a_finding_comes_from_the_condition_or_from_the_leak(tables):
    # Cough: .8 by the cold, .1 by anything else: 1 - .2 * .9 = .82. A heart attack alone: .05, so 1 - .95 * .9 = .145.
    cough = tables.probabilities[:, tables.index("cough")]
    np.testing.assert_allclose(cough, [0.82, 0.145, 0.1])


def test_the_leak_is_scaled(toy_knowledge):
    tables = KnowledgeTables(toy_knowledge, SimulationConfig(leak=0.5))
    assert tables.probabilities[MISCARRIAGE, tables.index("cough")] == pytest.approx(0.05)


def test_a_parent_is_as_probable_as_its_child(toy_knowledge):
    tables = KnowledgeTables(toy_knowledge, SimulationConfig(leak=1.0))
    child, parent = tables.index("crushing_chest_pain"), tables.index("chest_pain")
    assert (tables.probabilities[:, child] <= tables.probabilities[:, parent]).all()


def test_age_and_sex_are_among_what_a_condition_tells(tables):
    cells = [tables.index(code) for code in ("child", "adult", "woman", "man", "pregnant")]
    np.testing.assert_allclose(tables.probabilities[HEART_ATTACK, cells[:4]], [0, 1, 1 / 3, 2 / 3])
    np.testing.assert_allclose(tables.probabilities[MISCARRIAGE, cells], [0, 1, 1, 0, 1])


def test_likelihoods_compare_a_condition_with_anybody(tables):
    # Chest pain: cold .02, heart attack 1 - .1 * .98 = .902, miscarriage .02; prevalences 80, 15, 5.
    anybody = 0.80 * 0.02 + 0.15 * 0.902 + 0.05 * 0.02
    chest_pain = tables.index("chest_pain")
    np.testing.assert_allclose(tables.log_present[chest_pain], np.log(np.array([0.02, 0.902, 0.02]) / anybody))
    np.testing.assert_allclose(tables.log_absent[chest_pain], np.log(np.array([0.98, 0.098, 0.98]) / (1 - anybody)))
    # Men do not miscarry: never stands for a probability of one in a million.
    assert tables.log_present[tables.index("man"), MISCARRIAGE] == pytest.approx(np.log(IMPOSSIBLE / 0.5))


def test_a_child_tells_only_what_its_parent_did_not(tables):
    # High fever given fever: cold (1 - .95 * .98) / (1 - .7 * .9) = .069 / .37, heart attack .02 / .1, miscarriage
    # .02 / (1 - .98 * .9) = .02 / .118.
    given = np.array([0.069 / 0.37, 0.02 / 0.1, 0.02 / 0.118])
    anybody = np.array([0.80, 0.15, 0.05]) @ given
    high = tables.index("fever_over_39")
    np.testing.assert_allclose(tables.log_present_given_parent[high], np.log(given / anybody))
    np.testing.assert_allclose(tables.log_absent_given_parent[high], np.log((1 - given) / (1 - anybody)))


def test_the_prior_is_prevalence_to_a_power(tables):
    assert tables.log_prior[COLD] - tables.log_prior[MISCARRIAGE] == pytest.approx(np.log(80 / 5))


def test_urgency_moves_one_colour_up_and_red_stays(tables):
    np.testing.assert_allclose(tables.urgency[MISCARRIAGE], [0.1, 0.7, 0.2, 0.0])
    np.testing.assert_allclose(tables.urgency_shifted[MISCARRIAGE], [0.8, 0.2, 0.0, 0.0])
