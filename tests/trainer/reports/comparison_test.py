"""When there is a verdict, and which; and the rows on which it rests."""

import pytest

from tests.trainer.reports.conftest import compared, estimate
from trainer.evaluation.estimates import Estimate
from trainer.reports.comparison import comparison_table


def _judged(report, safety, appropriateness, red=0.65, half=0.05, red_cases=40, vignettes=150):
    """The report with the ends of both differences from the clinicians."""
    judged = report.as_clinicians
    ends = {"safety": safety, "appropriateness": appropriateness}
    differences = {name: Estimate(sum(pair) / 2, *pair, vignettes) for name, pair in ends.items()}
    differences["red_sensitivity"] = estimate(red - 0.65, half)
    ours = judged.by_all_but_one | {"red_sensitivity": estimate(red, 0.1, red_cases)}
    return compared(report._replace(as_clinicians=judged._replace(by_all_but_one=ours, less_clinicians=differences)))


GOOD = (-0.01, 0.01)


@pytest.mark.parametrize(
    ("safety", "appropriateness", "more", "verdict"),
    [
        (GOOD, GOOD, {}, "As good as the clinicians in safety and appropriateness, within 5 percentage points."),
        ((0.01, 0.03), (-0.04, -0.02), {}, "As good"),  # worse, but by less than the margin
        (GOOD, GOOD, {"red": 0.5, "half": 0.2}, "but its Red sensitivity may be lower"),
        (GOOD, GOOD, {"red": 0.5}, "Not as good as the clinicians: lower in Red sensitivity."),
        (GOOD, GOOD, {"red": 0.5, "red_cases": 9}, None),
        ((-0.09, -0.03), GOOD, {}, "Not as good as the clinicians: lower in safety."),
        ((-0.09, -0.03), (-0.07, -0.01), {}, "Not as good as the clinicians: lower in safety, appropriateness."),
        ((-0.06, 0.01), GOOD, {}, None),  # either is possible
        (GOOD, GOOD, {"red_cases": 9}, None),
        (GOOD, GOOD, {"vignettes": 59}, None),
        (GOOD, GOOD, {"vignettes": 60}, "As good"),
        ((-0.09, -0.03), GOOD, {"vignettes": 59}, None),
    ],
)
def test_there_is_a_verdict_where_there_is_evidence_for_one(agent_report, safety, appropriateness, more, verdict):
    found = _judged(agent_report, safety, appropriateness, **more).comparison.verdict
    assert found is None if verdict is None else verdict in found


def test_no_agent_that_a_constant_answer_equals_is_as_good_as_clinicians(agent_report):
    agent_report.constants["always green"]["appropriateness"] = Estimate(0.8)
    assert _judged(agent_report, GOOD, GOOD).comparison.verdict is None


def test_rows_compare_on_the_same_vignettes_with_and_without_rules(agent_report):
    rows = {row.measure: row for row in agent_report.comparison.rows}
    safety = rows["safety"]
    assert [each.mean for each in safety[1:]] == [0.89, 0.9, 0.95, -0.06]
    assert (rows["questions"].agent.mean, *rows["questions"][2:]) == (7.0, None, None, None)
    table = comparison_table(agent_report.comparison, 3)
    assert table.columns == ("Measure", "Agent", "With safety rules", "Clinicians", "Agent minus clinicians")
    [red] = [row for row in table.rows if row[0] == "Red sensitivity"]
    assert red[1:] == ("21.0% (11.0\u201331.0%)", "75.0% (65.0\u201385.0%)", "65.0% (55.0\u201375.0%)", "\u2013")


def test_without_clinicians_to_compare_with_the_agents_own_figures_are_shown(poor_agent_report):
    comparison = poor_agent_report.comparison
    assert (comparison.vignettes, comparison.verdict) == (0, None)
    rows = {row[0]: row[1:] for row in comparison_table(comparison, 3).rows}
    assert rows["Red sensitivity"] == ("too few (7)", "\u2013", "\u2013")
    assert rows["Safety"] == ("90.0% (88.0\u201392.0%)", "\u2013", "\u2013")
