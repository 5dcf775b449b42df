"""Figures of means with intervals."""

from matplotlib.figure import Figure

from trainer.reports.interval_figures import agents_figure, slices_figure


def estimate(mean, low=None, high=None):
    return {"mean": mean, "low": low, "high": high}


def agent(label, appropriateness, safety, paper=None):
    return {"label": label, "metrics": {"appropriateness": appropriateness, "safety": safety}, "paper": paper}


def drawn(panel):
    axes = Figure().subplots()
    panel.draw(axes)
    return axes


def lines(axes, marker):
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines if line.get_marker() == marker]


AGENTS = {
    "agents": {
        "dyqn_or": agent("DyQN", estimate(0.84, 0.78, 0.9), estimate(0.93), {"appropriateness": 0.85, "safety": None}),
        "random": agent("Random", estimate(0.4), None),
        "dyqn_and": None,
    }
}


def test_agents_have_a_dot_an_interval_and_the_papers_diamond():
    appropriateness, safety = agents_figure(AGENTS).panels
    axes = drawn(appropriateness)
    assert lines(axes, "o") == [([0.84], [0]), ([0.4], [1])]
    assert lines(axes, "None") == [([0.78, 0.9], [0, 0])]  # no interval was measured for Random
    ((x, y),) = lines(axes, "D")
    assert x == [0.85]
    assert 0 < y[0] < 0.5  # below its own dot, above the next label
    assert lines(drawn(safety), "o") == [([0.93], [0])]
    assert lines(drawn(safety), "D") == []


def test_nothing_lies_outside_of_the_axes():
    low, high = drawn(agents_figure(AGENTS).panels[0]).get_xlim()
    assert low < 0.4
    assert high > 1


def test_agents_are_described_in_words_too():
    assert agents_figure(AGENTS).alt == (
        "DyQN: appropriateness 84.0%, safety 93.0%; Random: appropriateness 40.0%, safety \u2013."
    )


def test_no_agents_no_figure():
    assert agents_figure({"agents": {}}) is None
    assert agents_figure({"agents": {"random": agent("Random", None, None)}}) is None


SLICES = [
    {"slice": "system=skin", "vignettes": 12, "appropriateness": estimate(0.8, 0.6, 0.9), "safety": estimate(0.95)},
    {"slice": "system=heart", "vignettes": 40, "appropriateness": estimate(0.7, 0.65, 0.75), "safety": estimate(0.85)},
]


def test_the_slices_alt_text_names_the_extremes_of_safety():
    assert slices_figure({"slices": SLICES}).alt == "Safety ranges from 85.0% (system: heart) to 95.0% (system: skin)."


def test_slices_show_how_many_vignettes_they_rest_on():
    figure = slices_figure({"slices": SLICES})
    assert [panel.title for panel in figure.panels] == ["Appropriateness", "Safety"]  # questions were not measured
    assert "system: skin (12)" in [text.get_text() for text in drawn(figure.panels[0]).texts]
    assert figure.numbers.rows[0] == ("system: skin", "12", "80.0% (60.0\u201390.0%)", "95.0%", "\u2013")


def test_no_slices_no_figure():
    assert slices_figure({"slices": []}) is None
    assert slices_figure({"slices": None}) is None
