import numpy as np
import pytest

from schemas.errors import InputError
from trainer.simulation.knowledge_base import KnowledgeBase
from trainer.simulation.knowledge_tables import RiskTables

COLD, HEART_ATTACK, MISCARRIAGE = range(3)
CHILD_WOMAN, CHILD_MAN, ADULT_WOMAN, ADULT_MAN = range(4)
PREGNANT, SMOKER = range(2)


@pytest.fixture
def risks(toy_knowledge):
    return RiskTables(toy_knowledge)


def _draw(risks, condition, stratum, number):
    return risks.draw(np.array([condition]), np.array([stratum]), np.full((1, 2), number))[0]


def _given_condition(risks):
    """Returns P(risk factor | condition): over the strata of those who have it."""
    return np.einsum("cg,cgk->ck", risks.strata_given_condition, risks.given_stratum())


def test_demographic_multipliers_keep_the_share_of_all_people(risks):
    # Only adult women, .375 of the people, can be pregnant, and .1 of all people are. A cold changes nothing.
    for stratum, expected in ((CHILD_WOMAN, 0), (CHILD_MAN, 0), (ADULT_MAN, 0), (ADULT_WOMAN, 0.1 / 0.375)):
        assert _draw(risks, COLD, stratum, expected - 1e-9)[PREGNANT] == (expected > 0)
        assert not _draw(risks, COLD, stratum, expected + 1e-9)[PREGNANT]


def test_people_with_a_condition_follow_bayes(risks):
    # Heart attack: no child; men 2 : 1; smokers are .2 / .75 = .2667 of the adults and 3 times as likely.
    np.testing.assert_allclose(risks.strata_given_condition[HEART_ATTACK], [0, 0, 1 / 3, 2 / 3])
    smokers = 0.8 / (0.8 + (1 - 0.2 / 0.75))
    assert _given_condition(risks)[HEART_ATTACK, SMOKER] == pytest.approx(smokers)
    assert _given_condition(risks)[COLD, SMOKER] == pytest.approx(0.2)


def test_a_condition_that_needs_a_risk_factor_comes_with_it_and_with_who_can_have_it(risks):
    np.testing.assert_allclose(risks.strata_given_condition[MISCARRIAGE], [0, 0, 1, 0])
    assert _given_condition(risks)[MISCARRIAGE, PREGNANT] == 1
    assert _draw(risks, MISCARRIAGE, ADULT_WOMAN, 1 - 1e-9)[PREGNANT]


def test_strata_where_the_risk_factor_is_frequent_have_the_condition_more_often(toy_knowledge_directory):
    path = toy_knowledge_directory / "conditions" / "toy.toml"
    path.write_text(
        path.read_text().replace(
            "child = 0\nman = 2\nwoman = 1\nsmoker = 3", "child = 1\nman = 1\nwoman = 1\nsmoker = 3"
        )
    )
    risks = RiskTables(KnowledgeBase.load(toy_knowledge_directory))
    # Children do not smoke: .25 * 1. Adults: .75 * (.2667 * 3 + .7333) = 1.15. Children have .25 / 1.4 of them.
    assert risks.strata_given_condition[HEART_ATTACK, :2].sum() == pytest.approx(0.25 / 1.4)


def _write_pregnancy(directory, condition_lines):
    """Gives pregnancy two exclusive stages, and the miscarriage other risk factors."""
    evidence = directory / "evidence.csv"
    stages = "".join(
        f"{s},risk_factor,{s.title()},{s}?,pregnancy,pregnant,stage,,{b}\n"
        for s, b in (("early", 0.04), ("late", 0.06))
    )
    evidence.write_text(evidence.read_text() + stages)
    path = directory / "conditions" / "toy.toml"
    path.write_text(path.read_text().replace("[threatened_miscarriage.risk_factors]\n", condition_lines))


def test_children_and_groups_of_a_needed_risk_factor_are_tilted(toy_knowledge_directory):
    _write_pregnancy(toy_knowledge_directory, "[threatened_miscarriage.risk_factors]\nearly = 4\nlate = 1\n")
    given = _given_condition(RiskTables(KnowledgeBase.load(toy_knowledge_directory)))[MISCARRIAGE]
    # Of the pregnant .4 are early, .6 late: .4 * 4 : .6 * 1.
    np.testing.assert_allclose(given, [1.0, 0.2 / 0.75, 1.6 / 2.2, 0.6 / 2.2])


def test_a_needed_child_brings_its_parent_and_excludes_the_rest_of_its_group(toy_knowledge_directory):
    _write_pregnancy(toy_knowledge_directory, "[threatened_miscarriage.risk_factors]\nlate = 1\npregnant = 1\n")
    path = toy_knowledge_directory / "conditions" / "toy.toml"
    path.write_text(path.read_text().replace('requires = ["pregnant"]', 'requires = ["early"]'))
    given = _given_condition(RiskTables(KnowledgeBase.load(toy_knowledge_directory)))[MISCARRIAGE]
    np.testing.assert_allclose(given, [1.0, 0.2 / 0.75, 1.0, 0.0])


def test_a_condition_that_nobody_can_have_is_an_input_error(toy_knowledge_directory):
    path = toy_knowledge_directory / "conditions" / "toy.toml"
    path.write_text(path.read_text().replace("adult = 1", "adult = 0"))
    with pytest.raises(InputError, match="'threatened_miscarriage': "):
        RiskTables(KnowledgeBase.load(toy_knowledge_directory))
