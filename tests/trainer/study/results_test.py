import numpy as np
import pytest

from benchmarks import paper
from trainer.study.results import study_figures
from triage_runtime.command_line.json_output import plain

METRICS = ("appropriateness", "safety", "questions")


def test_the_table_has_means_and_deviations_over_seeds_beside_the_paper(study_results):
    # Two seeds with .8 and .6 on every vignette: deviations of .1, squared and summed .02, over n - 1 = 1.
    row = study_results({"dyqn_or": (0.8, 0.6)})["agents"]["dyqn_or"]
    figure = row["test"]["appropriateness"]
    assert (figure.pop("sd_over_seeds"), figure["mean"]) == (pytest.approx(0.02**0.5), pytest.approx(0.7))
    assert (figure["low"], figure["high"], figure["vignettes"]) == (pytest.approx(0.7), pytest.approx(0.7), 10)
    assert row["paper"] == {"appropriateness": 0.85, "safety": 0.93, "questions": 13.34}
    assert row["dyqn_or_minus"] is None


def test_differences_are_paired_and_by_all_clinicians_but_one(study_results):
    # Vignette by vignette .7 - .4, whatever the vignette: the interval has no width.
    row = study_results({"dyqn_or": (0.8, 0.6), "dyqn_and": (0.3, 0.5)})["agents"]["dyqn_and"]
    difference = row["dyqn_or_minus"]["safety"]
    assert [difference.mean, difference.low, difference.high] == pytest.approx([0.3] * 3)


def test_calibration_is_by_pieces_and_paired_on_small_sets(study_results):
    calibration = study_results({})["calibration"]
    # See the fixture: rows of 0, 1, 1, 3 and 4 pieces.
    assert [(point["pieces"], point["rows"]) for point in calibration["by_pieces"]] == [(0, 1), (1, 2), (3, 1), (4, 1)]
    assert calibration["by_pieces"][1]["calibrated"] == {"appropriateness": 0.5, "safety": 1.0}
    # Of the first vignette (0 - 0 + 1 - 0) / 2 = .5, of the second 1 - 1 = 0: mean .25.
    assert calibration["small_sets"]["appropriateness"].mean == pytest.approx(0.25)
    assert calibration["small_sets"]["safety"].mean == 0.0


def test_folds_are_each_measured_and_averaged_over_all_vignettes(study_results):
    folds = study_results({})["folds"]
    # See the fixture: fold k of each repetition has k / 2, and half of the vignettes.
    assert [(run["seed"], run["fold"], run["safety"]) for run in folds["runs"]] == [
        (0, 0, 0.0), (0, 1, 0.5), (1, 0, 0.0), (1, 1, 0.5),
    ]  # fmt: skip
    estimate = folds["mean"]["safety"]
    assert (estimate.mean, estimate.vignettes) == (pytest.approx(0.25), 50)
    assert folds["paper"]["safety"] == (0.90, 0.80, 0.97)


def test_without_enough_decisions_there_are_neither_differences_nor_a_row_of_clinicians(study_files):
    study, splits, files = study_files({})
    few = splits._replace(test=splits.test._replace(decision_counts=np.tile([0, 0, 1, 0], [10, 1])))
    for file in files.values():
        if "leave_one_out" in file:
            file["leave_one_out"] = {name: [] for name in METRICS}
    rows = study_figures(study, few, files)["agents"]
    assert "clinicians" not in rows
    assert rows["dyqn_and"]["dyqn_or_minus"] is None


def test_the_record_of_a_study_has_each_agent_beside_the_paper_and_its_difference(study_results):
    results = plain(study_results({"dyqn_or": (0.8, 0.6), "dyqn_and": (0.3, 0.5)}))
    record = paper.figures({"data": {"vignettes": {"train": 30, "test": 10}}, **results})
    agents = {row["agent"]: row for row in record["agents"]}
    figure = agents["DyQN, OR query"]["appropriateness"]
    assert figure == {"mean": pytest.approx(0.7), "sd": pytest.approx(0.02**0.5), "paper": 0.85}
    assert (agents["Clinicians"]["questions"], agents["Clinicians"]["forced"]) == (None, None)
    less = {row["agent"]: row for row in record["differences"]}
    assert less["DyQN, AND query"]["safety"]["mean"] == pytest.approx(0.3)
    assert "DyQN, OR query" not in less
