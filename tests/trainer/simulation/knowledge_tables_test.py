import numpy as np
import pytest

from trainer.simulation.config import SimulationConfig
from trainer.simulation.knowledge_base import KnowledgeBase
from trainer.simulation.knowledge_tables import IMPOSSIBLE, KnowledgeTables

COLD, HEART_ATTACK, MISCARRIAGE = range(3)


@pytest.fixture
def tables(toy_knowledge):
    return KnowledgeTables(
        toy_knowledge, SimulationConfig(leak=1.0, case_mix_exponent=0.5, prior_exponent=1.0, vigilance=0.0)
    )


def test_a_finding_comes_from_the_condition_or_from_the_leak(tables):
    # Cough: .8 by the cold, .1 by anything else: 1 - .2 * .9 = .82. A heart attack alone: .05, so 1 - .95 * .9 = .145.
    cough = tables.probabilities[:, tables.index("cough")]
    np.testing.assert_allclose(cough, [0.82, 0.145, 0.1])


def test_the_leak_is_scaled(toy_knowledge):
    tables = KnowledgeTables(toy_knowledge, SimulationConfig(leak=0.5))
    assert tables.probabilities[MISCARRIAGE, tables.index("cough")] == pytest.approx(0.05)


def test_age_and_sex_depend_on_the_condition(tables):
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


def test_a_child_adds_only_what_its_parent_did_not(tables):
    # High fever given fever: cold (1 - .95 * .98) / (1 - .7 * .9) = .069 / .37, heart attack .02 / .1, miscarriage
    # .02 / (1 - .98 * .9) = .02 / .118.
    given = np.array([0.069 / 0.37, 0.02 / 0.1, 0.02 / 0.118])
    anybody = np.array([0.80, 0.15, 0.05]) @ given
    high = tables.index("fever_over_39")
    np.testing.assert_allclose(tables.log_present_given_parent[high], np.log(given / anybody))
    np.testing.assert_allclose(tables.log_absent_given_parent[high], np.log((1 - given) / (1 - anybody)))


def test_what_only_some_people_can_have_counts_for_their_share_of_those_with_the_condition(tables):
    # Only grown women bleed, by the leak with probability .01: .375 of those with a cold, 1 / 3 of those with a heart
    # attack; a miscarriage adds .95.
    cell = tables.index("vaginal_bleeding")
    np.testing.assert_allclose(tables.probabilities[:, cell], [0.01 * 0.375, 0.01 / 3, 1 - 0.05 * 0.99])
    np.testing.assert_allclose(tables.findings_given_condition[:, cell], [0.01, 0.01, 1 - 0.05 * 0.99])


def test_a_child_needs_what_its_parent_needs_and_risk_factors_count_by_their_share(toy_knowledge_directory):
    evidence = toy_knowledge_directory / "evidence.csv"
    clots = "clots,symptom,Clots,Are there clots?,gynaecological,vaginal_bleeding,,!child smoker|pregnant,0.004\n"
    evidence.write_text(evidence.read_text() + clots)
    conditions = toy_knowledge_directory / "conditions" / "toy.toml"
    conditions.write_text(conditions.read_text() + "clots = 0.5\n")
    tables = KnowledgeTables(KnowledgeBase.load(toy_knowledge_directory), SimulationConfig(leak=1.0))
    # Cold: grown women, .375 of all, smoke with .2 / .75 and are pregnant with .1 / .375. Miscarriage: all are
    # pregnant.
    smoker_or_pregnant = 1 - (1 - 0.2 / 0.75) * (1 - 0.1 / 0.375)
    expected = [0.004 * 0.375 * smoker_or_pregnant, 1 - 0.5 * 0.996]
    np.testing.assert_allclose(tables.probabilities[[COLD, MISCARRIAGE], tables.index("clots")], expected)


def test_vigilance_brings_up_what_must_not_be_missed(toy_knowledge):
    calm, wary = (KnowledgeTables(toy_knowledge, SimulationConfig(vigilance=vigilance)) for vigilance in (0.0, 2.0))
    # Worry: heart attack .8 + .8 * .2 = .96, cold .1 * .2 + .03 * .8 = .044.
    for of_calm, of_wary in ((calm.log_prior, wary.log_prior), (calm.log_case_mix, wary.log_case_mix)):
        np.testing.assert_allclose((of_wary - of_calm)[[COLD, HEART_ATTACK]], [2 * 0.044, 2 * 0.96])


def test_the_prior_is_prevalence_to_a_power(tables):
    assert tables.log_prior[COLD] - tables.log_prior[MISCARRIAGE] == pytest.approx(np.log(80 / 5))


def test_urgency_moves_one_colour_up_and_red_stays(tables):
    np.testing.assert_allclose(tables.urgency[MISCARRIAGE], [0.1, 0.7, 0.2, 0.0])
    np.testing.assert_allclose(tables.urgency_shifted[MISCARRIAGE], [0.8, 0.2, 0.0, 0.0])
