import pytest

from trainer.evaluation.estimates import Calibration, Estimate, SliceFigures
from trainer.evaluation.measurement import HandedOver
from trainer.reports.tables import print_report

QUALITY = {name: Estimate(0.5, 0.25, 0.75, 12) for name in ("appropriateness", "safety", "over_triage", "under_triage")}
_PROBABILITY = Calibration(
    [], Estimate(0.92), Estimate(0.94), Estimate(-0.02), Estimate(0.02, 0.01, 0.03), Estimate(0.1)
)


@pytest.fixture
def report(agent_report):
    return agent_report._replace(
        vignettes=1260,
        training={"steps": 150_000},
        calibration={
            "best_decision": Calibration(
                [], Estimate(0.9), Estimate(0.7), Estimate(0.2), Estimate(0.2, 0.1, 0.3), Estimate(0.25, 0.2, 0.3)
            )
        },
        probabilities={part: {"safe": _PROBABILITY} for part in ("own_decision", "every_decision")},
        handing_over=[HandedOver(0.9, None, 0.125, 0.02, None), HandedOver(None, 0.15, 0.25, None, 0.1)],
        constants={"always red": QUALITY},
        slices=[
            SliceFigures("tag:system", value, 1234, {**QUALITY, "questions": Estimate(4.5)})
            for value in ("[bold]heart", "skin")
        ],
    )


def _rows(capsys, report, details=True):
    print_report(report, details)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_agent_and_clinicians_are_side_by_side_and_more_is_shown_on_demand(report, capsys):
    rows = _rows(capsys, report._replace(interviews=None), details=False)
    assert rows.index("Not as good as the clinicians: lower in safety.") > rows.index(
        "Red sensitivity 21.0% (11.0\u201331.0%) 65.0% (55.0\u201375.0%) \u2013"
    )
    assert "Safety 89.0% (87.0\u201391.0%) 95.0% (93.0\u201397.0%) \u22126.0 (\u22129.0 to \u22123.0)" in rows
    assert "Questions asked 7.00 (6.50\u20137.50) \u2013 \u2013" in rows
    for words in ("always red 50.0% 50.0% 50.0% 50.0%", "system: [bold]heart 1,234"):
        assert not any(words in row for row in rows)
        assert any(words in row for row in _rows(capsys, report))


def test_interviews_come_first_and_have_the_only_red_sensitivity(report, capsys):
    rows = _rows(capsys, report, details=False)
    assert [row for row in rows if row.startswith(("Textbook emergencies", "Red sensitivity"))] == [
        "Textbook emergencies in time, of 3 100.0% (29.2\u2013100.0%) \u2013 \u2013",
        "Red sensitivity 70.0% (60.0\u201380.0%) 65.0% (55.0\u201375.0%) +5.0 (\u22125.0 to +15.0)",
    ]


def test_the_details_have_probabilities_and_handing_over(report, capsys):
    rows = _rows(capsys, report)
    for which in ("of its decision", "of all four"):
        assert f"P(safe) {which} 0.920 0.940 0.020 [0.010, 0.030] 0.100" in rows
    assert "P(safe) < 0.9 12.5% 2.0% \u2013" in rows
    assert "below Red, P(Red) >= 0.15 25.0% \u2013 10.0%" in rows
    without = _rows(capsys, report._replace(probabilities=None))
    assert "Q-value of its decision 0.900 0.700 0.200 [0.100, 0.300] 0.250 [0.200, 0.300]" in without


def test_missing_parts_of_the_report_are_left_out(report, capsys):
    nothing = dict.fromkeys(("human", "human_agreement", "calibration", "probabilities", "handing_over"))
    assert "Safety 89.0%" in " ".join(_rows(capsys, report._replace(**nothing)))
