"""Figures of one agent."""

from matplotlib.figure import Figure

from trainer.reports import agent_figures


def drawn(panel):
    axes = Figure().subplots()
    panel.draw(axes)
    return axes


def test_agent_rules_and_clinicians_stand_side_by_side(agent_report):
    figure = agent_figures.beside_figure(agent_report)
    assert [panel.title for panel in figure.panels] == ["Red sensitivity", "Safety", "Appropriateness"]
    labels = [text.get_text() for text in drawn(figure.panels[0]).texts]
    assert labels == [
        "The agent", "21.0%", "The agent with safety rules", "75.0%", "Clinicians", "65.0%",
    ]  # fmt: skip


def test_a_mean_over_fewer_than_ten_vignettes_is_not_drawn(poor_agent_report):
    figure = agent_figures.beside_figure(poor_agent_report)  # seven emergencies
    assert [panel.title for panel in figure.panels] == ["Safety", "Appropriateness"]


def test_the_frontier_marks_the_agents_own_point_with_its_intervals(agent_report):
    figure = agent_figures.frontier_figure(agent_report)
    assert [panel.title for panel in figure.panels] == ["Safety, by over-triage", "Red sensitivity, by over-triage"]
    curve, across, down, own = (line.get_xydata().tolist() for line in drawn(figure.panels[0]).lines)
    assert curve == [[0.05, 0.85], [0.1, 0.9], [0.4, 0.97]]
    assert own == [[0.1, 0.9]]
    assert across == [[0.1 - 0.01, 0.9], [0.1 + 0.01, 0.9]]
    assert down == [[0.1, 0.9 - 0.01], [0.1, 0.9 + 0.01]]
    assert figure.numbers.rows[1][:3] == ("1.5 (this agent)", "price 0.004, threshold 0.9", "90.0% (89.0\u201391.0%)")
    assert agent_figures.frontier_figure(agent_report._replace(frontier=None)) is None


def test_a_frontier_without_emergencies_has_one_panel(agent_report):
    points = [point._replace(red_sensitivity=None) for point in agent_report.frontier]
    assert len(agent_figures.frontier_figure(agent_report._replace(frontier=points)).panels) == 1


def test_the_learning_curve_shows_what_the_job_has_recorded(agent_report):
    figure = agent_figures.training_figure(agent_report)
    assert [panel.title for panel in figure.panels] == [
        "Appropriateness, test split", "Safety, test split", "Questions asked, test split", "Validation loss",
    ]  # fmt: skip
    [curve] = drawn(figure.panels[1]).lines
    assert curve.get_xydata().tolist() == [[1000, 0.8], [2000, 0.9]]
    [losses] = drawn(figure.panels[3]).lines
    assert losses.get_xydata().tolist() == [[100, 0.75], [200, 0.5]]
    assert figure.alt.endswith("validation loss from 0.750 to 0.500.")
    agent_report.learning.evaluations.clear()
    assert [panel.title for panel in agent_figures.training_figure(agent_report).panels] == ["Validation loss"]


def test_reliability_is_of_the_probabilities_or_else_of_the_q_values(agent_report, poor_agent_report):
    figure = agent_figures.appropriate_figure(agent_report)
    assert figure.panels[0].title == "Appropriate, by P(appropriate)"
    # The second bin has decisions of five vignettes, the third none.
    assert [row[:2] for row in figure.numbers.rows] == [("0.7 to 0.8", "40")]
    assert agent_figures.appropriate_figure(poor_agent_report).panels[0].title == "Appropriate, by Q-value"
    assert agent_figures.safe_figure(agent_report).panels[0].title == "Safe, by P(safe)"
    assert agent_figures.safe_figure(poor_agent_report) is None


def test_slices_are_named_in_words_and_small_ones_have_no_figures(agent_report):
    figure = agent_figures.own_slices_figure(agent_report)
    assert [row[0] for row in figure.numbers.rows] == [
        "age: 75 years old or over", "sex: Female", "smoker: present", "clinicians' majority: Red",
    ]  # fmt: skip
    assert figure.numbers.rows[1][2:] == ("\u2013",) * 3  # nine vignettes
    assert figure.numbers.rows[2][3].startswith("90.0% (")


def test_of_each_tag_the_largest_slices_are_shown_and_of_age_all(agent_report):
    [old, *_] = agent_report.slices
    agent_report.slices.extend(old._replace(value=f"band {number}") for number in range(12))
    agent_report.slices.extend(old._replace(by="tag:ward", value=str(size), vignettes=size) for size in range(30))
    chosen = agent_figures.shown_slices(agent_report)
    assert sum(entry.by == "age" for entry in chosen) == 13
    assert [entry.vignettes for entry in chosen if entry.by == "tag:ward"] == list(
        range(30 - agent_figures.MOST_SLICES, 30)
    )


def test_a_row_of_the_confusion_with_fewer_than_ten_cases_has_no_shares(agent_report):
    agent_report.confusion.matrix[0] = [6.0, 2.0, 1.0, 0.5]
    figure = agent_figures.own_confusion_figure(agent_report)
    assert figure.numbers.rows[0][1:] == ("\u2013",) * 4
    assert figure.numbers.rows[1][1] == "8.3%"  # 5 of 60
