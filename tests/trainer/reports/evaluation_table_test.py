import copy
import re

import pytest

from trainer.reports.evaluation_table import print_report


def _estimate(mean, low=None, high=None):
    return {"mean": mean, "low": low, "high": high, "vignettes": 12}


QUALITY = {name: _estimate(0.5, 0.25, 0.75) for name in ("appropriateness", "safety", "over_triage", "under_triage")}
REPORT = {
    "split": "test",
    "vignettes": 1260,
    "orders": 10,
    "training": {"steps": 150_000},
    "human_minimum_decisions": 3,
    "agent": {**QUALITY, "questions": _estimate(7.0, 6.0, 8.0)},
    "human": {"safety": _estimate(0.9, 0.8, 1.0)},
    "agreement": {"red_sensitivity": None, "weighted_kappa": _estimate(0.625, -0.125, 0.75)},
    "human_agreement": {"red_sensitivity": _estimate(1.0), "weighted_kappa": None},
    "calibration": {
        "best_decision": {
            "predicted": _estimate(0.9),
            "observed": _estimate(0.7),
            "expected_calibration_error": _estimate(0.2, 0.1, 0.3),
            "brier_score": _estimate(0.25, 0.2, 0.3),
        }
    },
    "as_clinicians": {"vignettes": 900, "by_all_but_one": QUALITY, "by_all": QUALITY},
    "probabilities": {
        part: {
            "safe": {
                "predicted": _estimate(0.92),
                "observed": _estimate(0.94),
                "expected_calibration_error": _estimate(0.02, 0.01, 0.03),
            }
        }
        for part in ("own_decision", "every_decision")
    },
    "handing_over": [{"defer_below": 0.9, "handed_over": 0.125, "under_triage": 0.02, "red_missed": None}],
    "frontier": [
        {
            "safety_weight": weight,
            "sure_enough": sure_enough,
            "price": 0.008,
            "chosen": weight == 1.5,
            "appropriateness": 0.85,
            "safety": 0.95,
            "over_triage": 0.1,
            "red_sensitivity": red,
            "questions": 9.25,
            "evidence_seen": 4.5,
            "forced": 0.3,
        }
        for weight, sure_enough, red in ((0.25, None, None), (1.5, 0.92, 0.7))
    ],
    "constants": {"always red": QUALITY},
    "slices": [
        {"by": "tag:system", "value": value, "vignettes": 1234, "metrics": {**QUALITY, "questions": _estimate(4.5)}}
        for value in ("[bold]heart", "skin")
    ],
    "unseen": {
        name: {
            "with_tag": _estimate(14.2, 12.0, 16.0),
            "without_tag": _estimate(9.5),
            "difference": _estimate(4.8, 2.0, 7.5),
        }
        for name in ("questions", "evidence_seen")
    },
}


def _rows(capsys, report, details=True):
    print_report(report, details)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_agent_and_clinicians_are_side_by_side_and_undefined_is_a_dash(capsys):
    rows = _rows(capsys, REPORT, details=False)
    assert "safety 0.500 [0.250, 0.750] 0.900 [0.800, 1.000]" in rows
    assert "red sensitivity - 1.000" in rows
    assert "weighted kappa 0.625 [-0.125, 0.750] -" in rows
    assert rows[0].startswith("Not known: no vignette has the decisions of 3 clinicians")
    assert not any("always red" in row or "skin" in row or "unseen" in row for row in rows)


def test_details_are_shown_on_demand(capsys):
    assert "always red 0.500 0.500 0.500 0.500" in _rows(capsys, REPORT)


def test_the_frontier_marks_the_agent_and_ends_with_the_clinicians(capsys):
    rows = _rows(capsys, REPORT)
    assert "0.25 0.008 0.850 0.950 0.100 - 9.2 4.5 0.30" in rows
    place = rows.index("1.5 * 0.008 or 0.92 0.850 0.950 0.100 0.700 9.2 4.5 0.30")
    assert rows[place + 1] == "clinicians - 0.900 - 1.000 - all -"


def test_the_agent_is_shown_by_leave_one_out_and_with_its_calibration(capsys):
    text = " ".join(_rows(capsys, REPORT))
    assert "on the same 900 vignettes by all clinicians but one" in text
    for which in ("of its decision", "of all four"):
        assert re.search(rf"P\(safe\) {which} +0\.920 +0\.940 +0\.020 \[0\.010, 0\.030\]", text)


def test_calibration_is_one_sentence(capsys):
    text = " ".join(_rows(capsys, REPORT))
    assert "mean Q of the triage 0.900, appropriate 0.700, error 0.200 [0.100, 0.300], Brier score 0.250" in text


def test_slices_are_listed_under_their_kind(capsys):
    rows = _rows(capsys, REPORT)
    place = rows.index("tag:system")
    assert rows.count("tag:system") == 1
    assert rows[place + 1 : place + 3] == [
        "[bold]heart 1,234 0.50 [0.25, 0.75] 0.50 [0.25, 0.75] 4.5",
        "skin 1,234 0.50 [0.25, 0.75] 0.50 [0.25, 0.75] 4.5",
    ]
    assert "evidence seen 14.2 [12.0, 16.0] 9.5 4.8 [2.0, 7.5]" in rows


def test_what_is_handed_over_stands_beside_the_risk_that_is_left(capsys):
    assert "0.9 12.5% 2.0% -" in _rows(capsys, REPORT)


@pytest.mark.parametrize(
    "name",
    ["human", "human_agreement", "as_clinicians", "calibration", "probabilities", "frontier", "handing_over", "unseen"],
)
def test_missing_parts_of_the_report_are_left_out(name, capsys):
    report = copy.deepcopy(REPORT)
    report[name] = None
    assert "safety 0.500 [0.250, 0.750]" in " ".join(_rows(capsys, report))


def test_no_line_is_wider_than_80_columns(capsys):
    print_report(REPORT, details=True)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_long_tag_is_folded_and_the_figures_stay_whole(capsys):
    report = copy.deepcopy(REPORT)
    report["slices"][0]["value"] = "x" * 256
    rows = _rows(capsys, report)
    assert any(row.endswith("0.50 [0.25, 0.75] 0.50 [0.25, 0.75] 4.5") and row.startswith("xxx") for row in rows)
    assert sum(row.split()[0].count("x") for row in rows if row.startswith("x")) == 256
