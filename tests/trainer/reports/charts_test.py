"""What the drawings of the page show."""

from trainer.reports.charts import calibration_chart, learning_chart, questions_chart


def test_calibration_leaves_out_bins_of_few_vignettes(agent_report, poor_agent_report):
    drawing = calibration_chart(agent_report)
    # The second bin has decisions of five vignettes, the third none.
    assert [row[:3] for row in drawing.numbers.rows] == [
        ("P(appropriate)", "0.7 to 0.8", "40"),
        ("P(safe)", "0.7 to 0.8", "40"),
    ]
    assert [panel.title for panel in calibration_chart(poor_agent_report).panels] == ["Appropriate, by Q-value"]
    assert calibration_chart(poor_agent_report._replace(calibration=None)) is None


def test_quality_is_drawn_by_the_number_of_questions(agent_report, poor_agent_report):
    drawing = questions_chart(agent_report)
    assert [row[:2] for row in drawing.numbers.rows] == [("0", "200"), ("1", "150")]  # the third point has nine
    assert drawing.numbers.rows[1][3] == "60.0% (55.0\u201365.0%)"
    assert questions_chart(poor_agent_report) is None


def test_learning_is_drawn_as_far_as_it_is_recorded(agent_report, poor_agent_report):
    assert [row[0] for row in learning_chart(agent_report).numbers.rows] == ["1,000", "2,000"]
    assert learning_chart(poor_agent_report) is None
