import dataclasses

import pytest

from trainer.config import TrainConfig
from trainer.study.comparison import QUALITY
from trainer.study.results import METRICS, collect, over_seeds
from trainer.study.study import StudySettings

SETTINGS = StudySettings(
    mode="full", seeds=2, partially_observed_seeds=1, folds=2, fold_seeds=1, powerset_rows=500, support_vectors=False,
    ablations=True, config=TrainConfig(),
)  # fmt: skip


def _trained(test, train=0.5, vignettes=(1.0, 0.0)):
    """The outcome of a training whose every metric converged to `test`."""
    curve = {"steps": [10, 20], **{split: {name: [0.0, test] for name in METRICS} for split in ("test", "train")}}
    return {
        "curve": curve,
        "converged": {"test": dict.fromkeys(METRICS, test), "train": dict.fromkeys(METRICS, train)},
        "vignettes": {name: list(vignettes) for name in METRICS},
        "as_clinicians": {name: list(vignettes[:1]) * 2 for name in METRICS},
    }


def test_means_and_standard_deviations_are_over_seeds():
    results = collect(SETTINGS, {"dyqn_or-seed-0": _trained(0.8, 0.9), "dyqn_or-seed-1": _trained(0.6, 0.6)})
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
    figure = collect(SETTINGS, outcomes)["agents"]["dyqn_or"]["metrics"]["safety"]
    assert (figure["low"], figure["high"]) == (0.5, 0.5)


def test_agents_are_compared_with_others_vignette_by_vignette():
    # Judged by all: .5 and 1 where the fully-observed model has 1 and 1. Judged as clinicians are: .5 twice, as 1 and 0
    # are the two seeds' values, where the clinicians have .7 and .5.
    outcomes = {
        "dyqn_or-seed-0": _trained(0.5, vignettes=(1.0, 1.0)),
        "dyqn_or-seed-1": _trained(0.5, vignettes=(0.0, 1.0)),
        "fixed": {"human": {"metrics": {}, "train": {}, "vignettes": {name: [0.7, 0.5] for name in QUALITY}}},
        "fully_observed": {"metrics": {}, "train": {}, "vignettes": {name: [1.0, 1.0] for name in QUALITY}},
    }
    compared = collect(dataclasses.replace(SETTINGS, margin=0.02), outcomes)["comparisons"]
    assert compared["margin"] == 0.02
    assert compared["dyqn_or"]["fully_observed"]["safety"]["mean"] == pytest.approx(-0.25)
    assert compared["dyqn_or"]["human"]["safety"]["mean"] == pytest.approx(-0.1)
    assert compared["default_preset"] == {}


def test_an_agent_has_a_row_in_which_it_is_judged_as_clinicians_are():
    outcomes = {f"dyqn_or-seed-{seed}": _trained(0.9, vignettes=(value, 1.0)) for seed, value in ((0, 0.6), (1, 0.8))}
    row = collect(SETTINGS, outcomes)["agents"]["dyqn_or_as_clinicians"]
    assert row["label"] == "DyQN, OR query, 3 or more decisions"
    assert row["metrics"]["appropriateness"]["per_seed"] == [0.6, 0.8]
    assert row["metrics"]["appropriateness"]["mean"] == pytest.approx(0.7)


def test_agents_with_and_without_rules_are_beside_the_clinicians():
    figures = {name: {"red_sensitivity": {"mean": value}} for name, value in (("alone", 0.2), ("with_rules", 0.7))}
    human = {"metrics": {}, "train": {}, "vignettes": {}, "beside_agents": {"red_sensitivity": {"mean": 0.6}}}
    outcomes = {
        "detail": {"beside_clinicians": figures},
        "default_preset-seed-0": {**_trained(0.9), "beside_clinicians": {**figures, "with_rules": None}},
        "fixed": {"human": human},
    }
    rows = collect(dataclasses.replace(SETTINGS, default_preset_seeds=1), outcomes)["beside_clinicians"]
    assert [(row["label"], row["metrics"]["red_sensitivity"]["mean"]) for row in rows] == [
        ("DyQN, OR query", 0.2), ("DyQN, OR query, with safety rules", 0.7), ("Preset default", 0.2),
        ("Clinicians", 0.6),
    ]  # fmt: skip


def test_one_seed_has_no_standard_deviation():
    assert over_seeds([0.25]) == {"mean": 0.25, "sd_over_seeds": None, "per_seed": [0.25]}


def test_agents_that_learn_nothing_and_what_they_have_no_figure_of():
    figure = {"mean": 0.7, "low": 0.6, "high": 0.8, "vignettes": 9}
    fixed = {"human": {"metrics": {"appropriateness": figure, "safety": figure}, "train": {"safety": 0.5}}}
    agents = collect(SETTINGS, {"fixed": {**fixed, "random": None}})["agents"]
    assert list(agents) == ["human"]
    assert agents["human"]["metrics"]["safety"] == {**figure, "sd_over_seeds": None, "per_seed": [0.7]}
    assert agents["human"]["metrics"]["questions"] is None
    assert agents["human"]["train"] == {"safety": 0.5}


def test_finished_folds_are_listed_one_by_one():
    folds = collect(SETTINGS, {"k_fold-seed-0-fold-1": _trained(0.75)})["k_fold"]
    assert folds["runs"] == [{"seed": 0, "fold": 1, "appropriateness": 0.75, "safety": 0.75, "questions": 0.75}]
    assert folds["paper"]["questions"] == 13.14


def test_the_first_ablation_is_the_default():
    outcomes = {"dyqn_or-seed-0": _trained(0.8), "ablation-uniform_replay-seed-0": _trained(0.6)}
    rows = collect(SETTINGS, outcomes)["ablations"]
    assert [(row["name"], row["metrics"]["questions"]["mean"]) for row in rows] == [
        ("default", 0.8), ("uniform replay", 0.6),
    ]  # fmt: skip


def test_a_study_without_outcomes_has_empty_sections():
    results = collect(dataclasses.replace(SETTINGS, ablations=False), {})
    assert results["agents"] == {}
    assert results["by_evidence"] == {"calibrated": [], "uncalibrated": [], "dyqn_or": []}
    assert (results["k_fold"], results["agreement"], results["unseen"]) == (None, None, None)
    assert (results["slices"], results["errors"], results["ablations"]) == ([], [], [])
