"""What the drawing of the page shows."""

from trainer.reports.charts import calibration_chart


def test_calibration_leaves_out_bins_of_few_vignettes(agent_report, poor_agent_report):
    drawing = calibration_chart(agent_report)
    # The second bin has decisions of five vignettes, the third none.
    assert [row[:3] for row in drawing.numbers.rows] == [
        ("P(appropriate)", "0.7 to 0.8", "40"),
        ("P(safe)", "0.7 to 0.8", "40"),
    ]
    assert [panel.title for panel in calibration_chart(poor_agent_report).panels] == ["Appropriate, by Q-value"]
    assert calibration_chart(poor_agent_report._replace(calibration=None)) is None
