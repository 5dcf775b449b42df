"""Figures of the decisions' quality."""

import pytest
from matplotlib.figure import Figure

from trainer.reports.quality_figures import confusion_figure, evidence_figure, reliability_figure

LABELS = ["Red", "Yellow", "Green", "Blue"]


def drawn(panel):
    axes = Figure().subplots()
    panel.draw(axes)
    return axes


def point(pieces, vignettes, appropriateness, **more):
    return {
        "pieces": pieces,
        "vignettes": vignettes,
        "states": 5 * vignettes,
        "appropriateness": appropriateness,
        **more,
    }


def test_evidence_curves_have_intervals_and_no_point_below_ten_vignettes():
    results = {
        "by_evidence": {
            "calibrated": [
                point(1, 90, 0.6, intervals={"appropriateness": [0.5, 0.7]}),
                point(2, 10, 0.8),
                point(3, 9, 0.0),
            ],
            "uncalibrated": [point(1, 90, 0.5), point(2, 10, None)],
            "dyqn_or": [],
        }
    }
    figure = evidence_figure(results)
    assert [panel.title for panel in figure.panels] == ["Appropriateness", "States"]
    assert [list(line.get_xydata().ravel()) for line in drawn(figure.panels[0]).lines] == [[1, 0.6, 2, 0.8], [1, 0.5]]
    [band] = drawn(figure.panels[0]).collections
    assert (band.get_paths()[0].vertices[:, 1].min(), band.get_paths()[0].vertices[:, 1].max()) == (0.5, 0.7)
    assert [bar.get_height() for bar in drawn(figure.panels[1]).patches] == [450, 50]
    assert figure.alt == (
        "supervised model, calibrated: appropriate in 60.0% with 1 and 80.0% with 2 pieces of evidence; "
        "supervised model, not calibrated: appropriate in 50.0% with 1 and \u2013 with 2 pieces of evidence."
    )
    assert evidence_figure({"by_evidence": {}}) is None


def test_reliability_leaves_out_empty_bins_and_names_the_worst():
    bins = [
        {"low": 0.0, "high": 0.5, "count": 0, "mean_q": None, "observed": None},
        {"low": 0.5, "high": 0.75, "count": 3, "mean_q": 0.6, "observed": 0.65},
        {"low": 0.75, "high": 1.0, "count": 7, "mean_q": 0.9, "observed": 0.7},
    ]
    figure = reliability_figure({"reliability": {"bins": bins, "ece": 0.155}})
    diagonal, curve = drawn(figure.panels[0]).lines
    assert diagonal.get_xydata().tolist() == [[0, 0], [1, 1]]
    assert curve.get_xydata().tolist() == [[0.6, 0.65], [0.9, 0.7]]
    assert [bar.get_height() for bar in drawn(figure.panels[1]).patches] == [3, 7]
    assert figure.alt == (  # 0.2 from the diagonal, against 0.05
        "Farthest from the diagonal: Q-value 90.0%, appropriate 70.0%. Expected calibration error 0.155."
    )
    assert reliability_figure({"reliability": None}) is None
    assert reliability_figure({"reliability": {"bins": bins[:1]}}) is None


def test_confusion_rows_are_shares_of_what_the_clinicians_decided():
    # 10 pairs; the agent is less urgent in 1 of Red and 2 of Yellow.
    matrix = [[3, 1, 0, 0], [0, 2, 2, 0], [0, 0, 2, 0], [0, 0, 0, 0]]
    figure = confusion_figure({"agreement": {"labels": LABELS, "confusion": matrix}})
    texts = [text.get_text() for text in drawn(figure.panels[0]).texts]
    assert texts[:8] == ["75.0%", "25.0%", "0.0%", "0.0%", "0.0%", "50.0%", "50.0%", "0.0%"]
    assert texts[12:] == ["\u2013"] * 4  # no clinician decided Blue
    assert "Less urgent than the clinician in 30.0% of all pairs." in figure.alt
    assert figure.numbers.rows[0] == ("A clinician: Red", "75.0%", "25.0%", "0.0%", "0.0%")


def test_confusion_reads_the_same_in_shares_of_all():
    counts = [[3, 1, 0, 0], [0, 2, 2, 0], [0, 0, 2, 0], [0, 0, 1, 3]]
    shares = [[value / 14 for value in row] for row in counts]
    by_count, by_share = (confusion_figure({"agreement": {"labels": LABELS, "confusion": m}}) for m in (counts, shares))
    assert by_count.numbers == by_share.numbers
    assert by_count.alt == by_share.alt


@pytest.mark.parametrize("agreement", [None, {"labels": LABELS, "confusion": None}, {"labels": [], "confusion": [[1]]}])
def test_no_matrix_no_figure(agreement):
    assert confusion_figure({"agreement": agreement}) is None
