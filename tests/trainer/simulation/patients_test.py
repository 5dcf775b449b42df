import numpy as np
import pytest
import scipy.stats

from trainer.simulation.config import SimulationConfig
from trainer.simulation.draws import Draws
from trainer.simulation.knowledge_tables import EvidenceSampler, EvidenceTree, KnowledgeTables
from trainer.simulation.patients import choose, draw_patients

COUNT = 20_000
COLD, HEART_ATTACK, MISCARRIAGE = range(3)


@pytest.fixture
def tables(toy_knowledge):
    return KnowledgeTables(toy_knowledge, SimulationConfig(case_mix_exponent=1.0, vigilance=0.0))


@pytest.fixture
def patients(tables):
    return draw_patients(tables, Draws(0, 0), COUNT)


def test_choose_draws_in_proportion_to_the_weights():
    weights = np.array([[0.1, 0.2, 0.7]])
    chosen = choose(np.log(weights), Draws(0, 0).uniform(COUNT))
    assert scipy.stats.chisquare(np.bincount(chosen, minlength=3), COUNT * weights[0]).pvalue > 1e-3


def test_everybody_has_one_age_and_one_sex(tables, patients):
    for group in (("child", "adult"), ("woman", "man")):
        cells = [tables.index(code) for code in group]
        np.testing.assert_array_equal(patients.present[:, cells].sum(axis=1), 1)


def test_nobody_has_impossible_evidence(tables, patients):
    present = {code: patients.present[:, tables.index(code)] for code in tables.codes}
    assert present["pregnant"].sum() > 100
    assert not (present["pregnant"] & (present["man"] | present["child"])).any()
    assert not (present["vaginal_bleeding"] & (present["man"] | present["child"])).any()
    assert not (present["crushing_chest_pain"] & ~present["chest_pain"]).any()
    assert not (present["mild_pain"] & present["severe_pain"]).any()
    miscarried = patients.conditions == MISCARRIAGE
    assert miscarried.sum() > 100
    assert present["pregnant"][miscarried].all()


def test_who_can_have_a_finding_has_it_as_often_as_the_leak_says(tables, patients):
    able = (patients.conditions == COLD) & patients.possible[:, tables.index("vaginal_bleeding")]
    share = patients.present[able, tables.index("vaginal_bleeding")].mean()
    assert share == pytest.approx(0.01, abs=4 * np.sqrt(0.01 / able.sum()))


@pytest.mark.parametrize("exponent", [1.0, 0.5])
def test_conditions_come_as_often_as_the_case_mix_wants(toy_knowledge, exponent):
    tables = KnowledgeTables(toy_knowledge, SimulationConfig(case_mix_exponent=exponent, vigilance=0.0))
    shares = np.bincount(draw_patients(tables, Draws(0, 0), COUNT).conditions, minlength=3) / COUNT
    wanted = np.array([80.0, 15.0, 5.0]) ** exponent
    np.testing.assert_allclose(shares, wanted / wanted.sum(), atol=0.012)


def test_a_risk_factor_multiplies_the_odds_of_a_condition(tables, patients):
    adult, smoker = (patients.present[:, tables.index(code)] for code in ("adult", "smoker"))
    odds = []
    for smokes in (True, False):
        counts = np.bincount(patients.conditions[adult & (smoker == smokes)], minlength=3)
        odds.append(counts[HEART_ATTACK] / counts[COLD])
    assert odds[0] / odds[1] == pytest.approx(3.0, rel=0.15)


def test_findings_are_as_frequent_as_noisy_or_says(tables, patients):
    cold = patients.conditions == COLD
    for code in ("cough", "fever", "fever_over_39", "chest_pain", "mild_pain"):
        cell = tables.index(code)
        expected = tables.probabilities[COLD, cell]
        share = patients.present[cold, cell].mean()
        assert share == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / cold.sum())), code


def test_nobody_comes_without_any_finding(tables, patients):
    assert patients.present[:, tables.symptoms].any(axis=1).all()
    none = KnowledgeTables(tables.knowledge, SimulationConfig(case_mix_exponent=1.0, vigilance=0.0))
    none.findings = EvidenceSampler(EvidenceTree(none.knowledge.catalogue.of_kind("symptom")), np.zeros((3, 13)))
    silent = draw_patients(none, Draws(0, 0), 200)
    usual = [none.index(code) for code in ("runny_nose", "chest_pain", "vaginal_bleeding")]
    np.testing.assert_array_equal(silent.present[:, none.symptoms].sum(axis=1), 1)
    assert silent.present[np.arange(200), np.take(usual, silent.conditions)].all()


@pytest.mark.parametrize(
    ("shares", "number", "expected"),
    [
        ((0.3, 0.2), 0.29, [True, False]),
        ((0.3, 0.2), 0.31, [False, True]),
        ((0.3, 0.2), 0.51, [False, False]),
        ((0.9, 0.6), 0.59, [True, False]),  # .9 / 1.5 = .6
        ((0.9, 0.6), 0.99, [False, True]),
    ],
)
def test_of_an_exclusive_group_one_number_decides(tables, shares, number, expected):
    group = tables.knowledge.catalogue.group("pain_severity")
    sampler = EvidenceSampler(EvidenceTree(group), np.array([shares]))
    assert sampler.draw(np.array([0]), np.array([[number, 0.0]])).tolist() == [expected]
