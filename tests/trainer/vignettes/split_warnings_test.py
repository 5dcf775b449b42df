"""Small and degenerate data do not pass in silence."""

import pytest

from trainer.vignettes.split_warnings import SplitFacts, Weakness, facts_of, split_warnings

GOOD = SplitFacts(500, (50, 200, 200, 50), several_decisions=True)


def warnings_of(train=GOOD, test=GOOD):
    return [(each.weakness, each.split) for each in split_warnings({"train": train, "test": test})]


def test_data_of_some_size_with_all_colours_and_several_clinicians_gives_no_warning():
    assert warnings_of() == []


@pytest.mark.parametrize(("vignettes", "warned"), [(0, False), (1, True), (49, True), (50, False)])
def test_fewer_than_fifty_test_vignettes_give_a_warning_and_none_at_all_is_another_matter(vignettes, warned):
    assert warnings_of(test=GOOD._replace(vignettes=vignettes)) == [(Weakness.FEW_TEST_VIGNETTES, "test")] * warned
    assert warnings_of(train=GOOD._replace(vignettes=vignettes)) == []


def test_each_colour_without_cases_is_named_with_its_split():
    test = GOOD._replace(decisions=(0, 200, 200, 0))
    assert [each.text for each in split_warnings({"train": GOOD, "test": test})] == [
        "no decision in the test split is Red",
        "no decision in the test split is Blue",
    ]


def test_a_single_colour_is_one_warning_and_not_three():
    assert warnings_of(train=GOOD._replace(decisions=(0, 0, 9, 0))) == [(Weakness.ONE_COLOUR, "train")]


def test_one_decision_each_gives_a_warning_unless_the_split_is_empty():
    alone = GOOD._replace(several_decisions=False)
    assert warnings_of(train=alone) == [(Weakness.SINGLE_DECISIONS, "train")]
    assert warnings_of(test=SplitFacts(0, (0, 0, 0, 0), several_decisions=False)) == []


def test_facts_come_from_the_statistics_of_a_split():
    stats = {"vignettes": 3, "decisions": {"Red": 1, "Yellow": 0, "Green": 2, "Blue": 0}}
    assert facts_of(stats) == SplitFacts(3, [1, 0, 2, 0], several_decisions=False)
    stats["decisions"]["Green"] = 3  # four decisions on three vignettes
    assert facts_of(stats).several_decisions
