import dataclasses

import pytest

from trainer.config import TrainConfig
from trainer.study.comparison import QUALITY
from trainer.study.measured import Measured
from trainer.study.results import METRICS, collect, over_seeds
from trainer.study.study import StudySettings

SETTINGS = StudySettings(
    mode="full", seeds=2, partially_observed_seeds=1, folds=2, fold_seeds=1, powerset_rows=500, members=("tree",),
    ablations=True, config=TrainConfig(),
)  # fmt: skip


def _trained(test, train=0.5, vignettes=(1.0, 0.0)):
    """The outcome of a training whose every metric converged to `test`."""
    curve = {"steps": [10, 20], **{split: {name: [0.0, test] for name in METRICS} for split in ("test", "train")}}
    values = {name: list(vignettes) for name in METRICS}
    return {
        "curve": curve,
        "converged": {"test": dict.fromkeys(METRICS, test), "train": dict.fromkeys(METRICS, train)},
        "vignettes": {"test": values, "train": values},
        "as_clinicians": {name: list(vignettes[:1]) * 2 for name in METRICS},
        "judged": [0, 1],
    }


def _collect(settings, outcomes):
    return collect(Measured(settings, outcomes))


def test_means_and_standard_deviations_are_over_seeds():
    results = _collect(SETTINGS, {"dyqn_or-seed-0": _trained(0.8, 0.9), "dyqn_or-seed-1": _trained(0.6, 0.6)})
    agent = results["agents"]["dyqn_or"]
    figure = agent["metrics"]["appropriateness"]
    # (.8 + .6) / 2 = .7; deviations of .1, squared and summed .02, over n - 1 = 1: SD sqrt(.02) = .1414.
    assert figure["mean"] == pytest.approx(0.7)
    assert figure["sd_over_seeds"] == pytest.approx(0.02**0.5)
    assert figure["per_seed"] == [0.8, 0.6]
    assert agent["train"]["safety"] == pytest.approx(0.75)
    assert agent["paper"] == {"appropriateness": 0.85, "safety": 0.93, "questions": 13.34}
    assert [curve["seed"] for curve in results["curves"]["dyqn_or"]] == [0, 1]
    assert results["curves"]["dyqn_or"][1]["test"] == {
        "appropriateness": [0.0, 0.6], "safety": [0.0, 0.6], "questions": [0.0, 0.6],
    }  # fmt: skip


def test_the_interval_is_of_each_vignettes_mean_over_seeds():
    # Seed 0 is right on the first vignette alone, seed 1 on the second alone: each vignette's mean is .5.
    outcomes = {
        "dyqn_or-seed-0": _trained(0.5, vignettes=(1.0, 0.0)),
        "dyqn_or-seed-1": _trained(0.5, vignettes=(0.0, 1.0)),
    }
    figure = _collect(SETTINGS, outcomes)["agents"]["dyqn_or"]["metrics"]["safety"]
    assert (figure["low"], figure["high"]) == (0.5, 0.5)


def test_all_are_compared_as_clinicians_are_judged():
    # The two seeds' values are 1 and 0 on both vignettes where clinicians are judged, .5 on average; the clinicians
    # have .7 and .5, the fully observed model 1 and .6.
    def judged(*values):
        return {"metrics": {}, "train": {}, "as_clinicians": {name: list(values) for name in QUALITY}}

    outcomes = {
        "dyqn_or-seed-0": _trained(0.5, vignettes=(1.0, 1.0)),
        "dyqn_or-seed-1": _trained(0.5, vignettes=(0.0, 1.0)),
        "fixed": {"human": judged(0.7, 0.5)},
        "fully_observed": judged(1.0, 0.6),
    }
    results = _collect(dataclasses.replace(SETTINGS, margin=0.02), outcomes)
    compared = results["comparisons"]
    assert compared["margin"] == 0.02
    assert compared["dyqn_or"]["fully_observed"]["safety"].mean == pytest.approx(-0.3)
    assert compared["dyqn_or"]["human"]["safety"].mean == pytest.approx(-0.1)
    assert compared["default_preset"] == {}
    assert results["agents"]["dyqn_or"]["as_clinicians"]["safety"].mean == 0.5
    assert results["agents"]["fully_observed"]["as_clinicians"]["safety"].mean == 0.8


def test_agents_with_and_without_rules_are_beside_the_clinicians():
    figures = {name: {"red_sensitivity": {"mean": value}} for name, value in (("alone", 0.2), ("with_rules", 0.7))}
    human = {
        "metrics": {},
        "train": {},
        "as_clinicians": {"safety": []},
        "beside_agents": {"red_sensitivity": {"mean": 0.6}},
    }
    outcomes = {
        "detail": {"beside_clinicians": figures},
        "default_preset-seed-0": {**_trained(0.9), "beside_clinicians": {**figures, "with_rules": None}},
        "fixed": {"human": human},
    }
    rows = _collect(dataclasses.replace(SETTINGS, default_preset_seeds=1), outcomes)["beside_clinicians"]
    assert [(row["label"], row["metrics"]["red_sensitivity"]["mean"]) for row in rows] == [
        ("DyQN, OR query", 0.2), ("DyQN, OR query, with safety rules", 0.7), ("Preset default", 0.2),
        ("Clinicians", 0.6),
    ]  # fmt: skip


def test_one_seed_has_no_standard_deviation():
    assert over_seeds([0.25]) == {"mean": 0.25, "sd_over_seeds": None, "per_seed": [0.25]}


def test_agents_that_learn_nothing_and_what_they_have_no_figure_of():
    figure = {"mean": 0.7, "low": 0.6, "high": 0.8, "vignettes": 9}
    fixed = {"human": {"metrics": {"appropriateness": figure, "safety": figure}, "train": {"safety": 0.5},
                       "as_clinicians": {"safety": [0.7]}}}  # fmt: skip
    agents = _collect(SETTINGS, {"fixed": {**fixed, "random": None}})["agents"]
    assert list(agents) == ["human"]
    assert agents["human"]["metrics"]["safety"] == {**figure, "sd_over_seeds": None, "per_seed": [0.7]}
    assert agents["human"]["metrics"]["questions"] is None
    assert agents["human"]["train"] == {"safety": 0.5}


def test_folds_are_listed_and_their_complete_repetitions_summarised():
    found = {f"k_fold-seed-{seed}-fold-{fold}": _trained(0.5) for seed in (0, 1) for fold in (0, 1)}
    del found["k_fold-seed-1-fold-0"]
    settings = dataclasses.replace(SETTINGS, fold_seeds=2)
    folds = _collect(settings, found)["k_fold"]
    assert [(run["seed"], run["fold"]) for run in folds["runs"]] == [(0, 0), (0, 1), (1, 1)]
    assert folds["runs"][0]["safety"] == 0.5
    assert folds["repetitions"] == 1
    assert folds["mean"]["safety"].vignettes == 4
    assert folds["paper"]["questions"] == 13.14


def test_the_first_ablation_is_the_default():
    outcomes = {"dyqn_or-seed-0": _trained(0.8), "ablation-uniform_replay-seed-0": _trained(0.6)}
    rows = _collect(SETTINGS, outcomes)["ablations"]
    assert [(row["name"], row["metrics"]["questions"]["mean"]) for row in rows] == [
        ("default", 0.8), ("uniform replay", 0.6),
    ]  # fmt: skip


def test_a_study_without_outcomes_has_empty_sections():
    results = _collect(dataclasses.replace(SETTINGS, ablations=False), {})
    assert results["agents"] == {}
    assert results["by_evidence"] == {"calibrated": [], "uncalibrated": [], "dyqn_or": []}
    assert (results["k_fold"], results["agreement"], results["unseen"]) == (None, None, None)
    assert (results["slices"], results["errors"], results["ablations"]) == ([], [], [])
