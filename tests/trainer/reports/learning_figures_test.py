"""Figures of learning."""

import pytest
from matplotlib.figure import Figure

from trainer.reports.learning_figures import (
    exponential_mean,
    k_fold_figure,
    learning_figure,
    mean_curve,
    questions_figure,
    smoothed,
)


def drawn(panel):
    axes = Figure().subplots()
    panel.draw(axes)
    return axes


def run(steps, values, train=None):
    return {
        "steps": steps,
        "test": {"appropriateness": values, "safety": values, "questions": values},
        "train": train and {"appropriateness": train, "safety": train, "questions": train},
    }


def test_the_mean_curve_keeps_to_steps_that_every_seed_has():
    runs = [run([1, 2, 3], [0.2, 0.4, 0.6]), run([2, 3, 4], [0.6, None, 0.9])]
    assert mean_curve(runs, "test", "safety") == ([2], [pytest.approx(0.5)])  # 3 is null in the second


def test_seeds_without_the_split_are_left_out_of_the_mean():
    runs = [run([1, 2], [0, 0], train=[0.2, 0.4]), run([1, 2], [0, 0])]
    assert mean_curve(runs, "train", "safety") == ([1, 2], [0.2, 0.4])
    assert mean_curve([], "test", "safety") == ([], [])


def test_the_exponential_mean_starts_at_the_first_value():
    # .4, then .4 + .3 (.5 - .4), then .43 + .3 (.13 - .43)
    assert exponential_mean([0.4, 0.5, 0.13]) == pytest.approx([0.4, 0.43, 0.34])


def test_smoothing_keeps_a_line_and_evens_out_what_swings_around_it():
    line = [(step, 0.5 + 0.01 * step) for step in range(20)]
    steps, heights = smoothed(line)
    assert steps == list(range(20))
    assert heights == pytest.approx([height for _, height in line])
    swinging = [(step, height + 0.05 * (-1) ** step) for step, height in line]
    # Eight of twenty points at a time; inside, the swings all but cancel.
    assert smoothed(swinging)[1][5:15] == pytest.approx([height for _, height in line[5:15]], abs=0.01)


def test_smoothing_follows_a_bend_that_one_line_would_not():
    bend = [(step, min(step, 20) / 20) for step in range(41)]
    heights = smoothed(bend)[1]
    assert heights[0] == pytest.approx(0.0, abs=0.01)
    assert heights[40] == pytest.approx(1.0, abs=0.02)
    assert smoothed([(3, 0.4), (3, 0.6)]) == ([3.0], [0.5])
    assert smoothed([]) == ([], [])


def test_learning_curves_have_a_light_exponential_mean_a_seed_and_a_dark_smoothed_line():
    runs = [run([1, 2], [0.5, 0.7], train=[0.5, 0.9]), run([1, 2], [0.6, 0.9], train=[0.6, 1.0])]
    figure = learning_figure({"curves": {"dyqn_or": runs}, "agents": {"dyqn_or": {"label": "DyQN"}}})
    assert [panel.title for panel in figure.panels] == [
        f"{metric}, {split} vignettes"
        for split in ("training", "test")
        for metric in ("Appropriateness", "Safety", "Questions asked")
    ]
    first, second, mean = drawn(figure.panels[4]).lines  # safety, test
    assert list(first.get_ydata()) == pytest.approx([0.5, 0.56])
    assert list(second.get_ydata()) == pytest.approx([0.6, 0.69])
    assert list(mean.get_ydata()) == pytest.approx([0.55, 0.8])
    assert first.get_alpha() < 0.5
    assert mean.get_alpha() is None
    assert figure.alt.startswith("DyQN, test: appropriateness from 55.0% to 80.0%")


def test_training_and_test_panels_share_their_scale():
    runs = [run([1, 2], [0.45, 0.7], train=[0.65, 0.9])]
    figure = learning_figure({"curves": {"dyqn_or": runs}})
    assert drawn(figure.panels[0]).get_ylim() == drawn(figure.panels[3]).get_ylim() == (pytest.approx(0.4), 1.02)


def test_agents_differ_in_colour_and_in_line():
    names = ("dyqn_or", "dyqn_and", "partially_observed_or", "partially_observed_and")
    figure = learning_figure({"curves": {name: [run([1], [0.5])] for name in names}})
    assert len(figure.panels) == 3  # test only
    assert len({key.colour for key in figure.keys}) == len({key.line for key in figure.keys}) == 4


def test_without_curves_there_is_no_figure():
    assert learning_figure({"curves": {}}) is None
    assert learning_figure({"curves": {"dyqn_or": [run([], [])]}}) is None


def test_questions_compare_only_agents_that_learn():
    def agent(label, learns, test, train):
        return {
            "label": label,
            "learns": learns,
            "metrics": {"questions": {"mean": test}},
            "train": {"questions": train},
        }

    figure = questions_figure(
        {"agents": {"a": agent("A", True, 11.2, 5.6), "b": agent("B", True, 3.0, None), "c": agent("C", False, 9, 9)}}
    )
    assert figure.numbers.rows == (("A", "5.60", "11.20", "+5.60"),)
    assert figure.alt == "A: 5.60 in training, 11.20 in test."
    markers = {line.get_marker(): list(line.get_xdata()) for line in drawn(figure.panels[0]).lines}
    assert markers["D"] == [5.6]  # hollow: training
    assert markers["o"] == [11.2]
    assert questions_figure({"agents": {}}) is None


def test_folds_are_beside_their_mean_the_single_split_and_the_paper():
    runs = [{"seed": seed, "fold": fold, "safety": 0.8 + 0.1 * fold} for seed in (3, 5) for fold in (0, 1)]
    results = {
        "k_fold": {"runs": runs, "paper": {"safety": 0.9}},
        "agents": {"dyqn_or": {"metrics": {"safety": {"mean": 0.93}}}},
    }
    figure = k_fold_figure(results)
    assert figure.numbers.rows == (("Safety", "80.0%", "85.0%", "90.0%", "93.0%", "90.0%"),)
    (panel,) = figure.panels
    axes = drawn(panel)
    dots = [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if line.get_marker() == "o"]
    assert dots == [(0.8, 0), (pytest.approx(0.9), 0), (0.8, 1), (pytest.approx(0.9), 1)]
    vertical = {line.get_linestyle(): line.get_xdata()[0] for line in axes.lines if line.get_marker() == "None"}
    assert vertical == {"-": pytest.approx(0.85), "--": 0.93, ":": 0.9}
    assert k_fold_figure({"k_fold": None}) is None
