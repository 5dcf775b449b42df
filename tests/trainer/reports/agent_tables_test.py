"""Tables and sentences about one agent."""

import dataclasses

import pytest

from schemas.promise import NOT_COVERED
from trainer.decision.decision import NEUTRAL
from trainer.evaluation.estimates import Estimate
from trainer.reports import agent_tables
from trainer.training.promises import Asked, Promise
from triage_runtime.promise import Count


def test_the_table_says_how_many_vignettes_it_rests_on_and_where_they_are_too_few(agent_report, poor_agent_report):
    table = agent_tables.own_beside_table(agent_report)
    assert "150 vignettes with 3 or more decisions" in table.caption
    assert [row[:2] for row in table.rows] == [
        ("The agent", "21.0% (11.0\u201331.0%)"),
        ("The agent with safety rules", "75.0% (65.0\u201385.0%)"),
        ("Clinicians", "65.0% (55.0\u201375.0%)"),
    ]
    poor = agent_tables.own_beside_table(poor_agent_report)
    assert "judged by all clinicians' decisions" in poor.caption
    assert [row[:2] for row in poor.rows] == [("The agent", "too few (7)")]


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Compared with clinicians", "safety \u22126.0 (\u22129.0 to \u22123.0) percentage points"),
        ("With safety rules", "2 rules (default) change the decision in 2.0% of the episodes"),
        ("How much it asks", "of a vignette's 7.2 pieces of evidence known"),
        ("How it decides", "P(appropriate) + 1.5 P(safe), and asks until"),
        ("Compared with a constant answer", "“always green” is appropriate in 70.0%"),
    ],
)
def test_the_answers_have_the_numbers(agent_report, heading, expected):
    assert expected in dict(agent_tables.answers(agent_report))[heading]


def test_an_agent_that_is_no_better_than_a_constant_says_so(agent_report):
    agent_report.agent["appropriateness"] = Estimate(0.7)
    assert "the agent is no better" in dict(agent_tables.answers(agent_report))["Compared with a constant answer"]


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        (None, "By its Q-values alone"),
        (
            {"chosen": "given", "sure_enough": None},
            "asks until that is worth more than going on at 0.004 a question; the weight was given as an option",
        ),
    ],
)
def test_how_it_decides_follows_the_operating_point(agent_report, point, expected):
    given = agent_report._replace(operating_point=point and agent_report.operating_point._replace(**point))
    assert expected in dict(agent_tables.answers(given))["How it decides"]


def test_beside_what_was_promised_stands_what_is_not_covered(agent_report):
    asked = Asked({"red": 0.1}, 0.9, 12, 2000, "", None)
    found = {"asks": {"red": Count(3, 9)}}
    refused = Promise(asked, False, {"red": 0.4}, NEUTRAL, found, True, 0.1)
    kept = dataclasses.replace(refused, kept=True, levels={"red": 0.1})
    heading = "What no promise covers"
    for promises in ([], [refused]):
        assert heading not in dict(agent_tables.answers(agent_report._replace(promises=promises)))
    given = dict(agent_tables.answers(agent_report._replace(promises=[refused, kept])))
    assert list(given).index(heading) == list(given).index("What promises were asked for") + 1
    assert given["What promises were asked for"].startswith(
        "Refused: At most 10% of patients whom clinicians call Red leave with a less urgent decision than Red. "
        "True with 90% confidence: At most 40% of"
    )
    assert all(each in given[heading] for each in NOT_COVERED)


def test_gaps_are_named_with_both_sides_and_the_correction_for_their_number(agent_report):
    assert agent_tables.gaps_table(agent_report).rows == (
        ("age: 75 years old or over", "30", "Safety", "80.0%", "92.0%", "\u221212.0 (\u221218.0 to \u22126.0)"),
    )
    sentence = agent_tables.gaps_sentence(agent_report)
    assert sentence.startswith("The agent is worse for 1 group of patients, in 80 comparisons")
    assert "one in 20 is expected to be due to chance" in sentence
    agent_report.gaps.worse.clear()
    assert agent_tables.gaps_sentence(agent_report).startswith("For no group of patients is the agent shown")
    assert agent_tables.gaps_table(agent_report) is None


def test_notes_say_what_cannot_be_sliced(agent_report, poor_agent_report):
    assert agent_tables.slices_notes(agent_report) == []
    [note] = agent_tables.slices_notes(poor_agent_report)
    assert note.startswith("Not measured by age and sex: no vignette names it by a code that begins with")


def test_textbook_cases_are_counted_and_late_emergencies_named_with_the_reading(agent_report):
    table = agent_tables.textbook_table(agent_report)
    assert table.columns[2:] == (
        "All evidence", "Interview", "All evidence, with rules", "Interview, with rules",
    )  # fmt: skip
    assert table.rows[0] == ("emergency", "3", "2 (1 late)", "2 (1 late)", "3 (0 late)", "3 (0 late)")
    assert table.rows[1][0] == "self-care"
    assert agent_tables.missed_emergencies(agent_report) == [
        "Stroke at noon: Green (all evidence), Green (interview)"
    ]  # fmt: skip
    assert agent_tables.textbook_table(agent_report._replace(textbook_cases=None)) is None


def test_limits_begin_with_those_of_this_evaluation(agent_report):
    limits = agent_tables.own_limits(agent_report._replace(split="train", simulated=True))
    assert limits[0] == "The agent is never forced to decide."
    assert "Simulated clinicians" in limits[1]
    assert "each changes a share by 0.5 percentage points" in limits[2]
    assert "learned from" in limits[3]


def test_facts_name_agent_data_and_versions(agent_report):
    facts = dict(agent_tables.facts(agent_report, {"python": "3.11"}))
    assert facts["Agent"] == "job, after 2,000 steps and 9,000 episodes; 5 networks"
    assert facts["Vignettes"] == "data, test split, 200, each in 10 evidence orders (seed 0)"
    assert facts["Versions"] == "dyqn-triage \u2013, Python 3.11, TensorFlow \u2013"
