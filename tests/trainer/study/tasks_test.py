import dataclasses

import numpy as np
import pytest

from trainer import presets
from trainer.config import TrainConfig
from trainer.study.directory import StudyDirectory
from trainer.study.study import DataFacts, StudySettings, plan, variant
from trainer.study.tasks import KINDS
from trainer.study.worker import Work
from trainer.vignettes.tfrecord import DataDirectory

CONFIG = {
    "network": {"hidden_sizes": [8]},
    "memory": {"memory_capacity": 64, "batch_size": 8},
    "loop": {"burn_in_steps": 10, "steps": 30, "evaluation_interval": 15, "evaluation_orders": 2},
}
SETTINGS = StudySettings(
    mode="quick", seeds=1, partially_observed_seeds=1, folds=2, fold_seeds=1, powerset_rows=150, members=("tree",),
    ablations=True, config=TrainConfig.from_dict(CONFIG), default_preset_seeds=1,
)  # fmt: skip


@pytest.fixture(scope="module")
def done(data_directory, tmp_path_factory):
    """Does a task of a tiny study, and first what it needs; returns what it found."""
    data = DataDirectory.open(data_directory)
    facts = DataFacts(data.data_fingerprint, data.vocabulary.fingerprint, 40, 10)
    tasks = {task.name: task for task in plan(SETTINGS, facts)}
    store = StudyDirectory(tmp_path_factory.mktemp("study"))
    (store.path / "tasks").mkdir()

    def done(name):
        task = tasks[name]
        if store.outcome(task) is None:
            needs = {need: tasks[need] for need in task.needs if done(need) is not None}
            store.record(task, 1.0, KINDS[task.kind](Work(task, needs, data_directory, store.path, 1)))
        return store.outcome(task)["result"]

    done.tasks, done.store = tasks, store
    return done


def test_each_planned_task_has_its_kind(done):
    assert {task.kind for task in done.tasks.values()} == set(KINDS)


def test_a_dyqn_agent_has_a_curve_and_a_value_for_each_test_vignette(done):
    result = done("dyqn_or-seed-0")
    assert result["curve"]["steps"] == [15, 30]
    assert np.shape(result["curve"]["train"]["safety"]) == (2,)
    assert np.shape(result["vignettes"]["test"]["questions"]) == (10,)


def test_a_fold_is_tested_on_its_own_vignettes(done):
    # Two folds of 50 vignettes.
    assert np.shape(done("k_fold-seed-0-fold-1")["vignettes"]["test"]["safety"]) == (25,)


def test_the_detail_is_of_the_trained_agent(done):
    detail, trained = done("detail"), done("dyqn_or-seed-0")
    # At the end of training and here: the same agent on the same ten vignettes, in other evidence orders.
    at_the_end = trained["curve"]["test"]["appropriateness"][-1]
    slices = [each for each in detail["slices"] if each["slice"].startswith("majority=")]
    here = sum(each["vignettes"] * each["appropriateness"]["mean"] for each in slices) / 10
    assert here == pytest.approx(at_the_end, abs=0.25)
    assert np.sum(detail["agreement"]["confusion"]) == pytest.approx(1.0)
    assert 90 < sum(point["states"] for point in detail["by_evidence"]) < 210
    # Thirty steps visit few of the states that the training vignettes hold, and those with one piece first.
    by_pieces = detail["coverage"]["by_pieces"]
    assert 0 < detail["coverage"]["visited"] <= 30
    assert by_pieces[0]["visited"] > by_pieces[-1]["visited"]
    assert sum(each["states"] for each in detail["coverage"]["by_distance"]) == sum(
        point["states"] for point in detail["by_evidence"]
    )
    for error in detail["errors"]:
        assert error["steps"][-1]["action"] == error["decision"]
        known = {step["evidence"] for step in error["steps"] if step["presence"]}
        assert {each["evidence"] for each in error["effects"]} == known
        assert error["effects"][0]["effect"] > 0


def test_a_partially_observed_agent_learns_from_the_ensemble_of_the_study(done):
    result = done("partially_observed_and-seed-0")
    assert result["curve"]["steps"] == [15, 30]
    assert np.shape(result["vignettes"]["test"]["questions"]) == (10,)


def test_calibration_is_judged_on_the_test_part_of_the_expanded_data(done):
    result = done("calibration")
    assert set(result["by_evidence"]) == {"calibrated", "uncalibrated"}
    for judged in result["by_evidence"].values():
        assert 90 < sum(point["states"] for point in judged) < 210  # about the 150 rows asked for
    # Five calibrated trees judge otherwise than the tree that learned from all rows.
    assert result["small_sets"]["safety"]["mean"] != 0.0
    assert result["scatter"]["mean"] != 0.0


@pytest.mark.slow
def test_the_preset_default_is_trained_as_the_command_trains_it(done, data_directory):
    task = done.tasks["default_preset-seed-0"]
    assert task.settings["config"]["network"] == presets.preset("default").to_dict()["network"]
    small = {"network": {"hidden_sizes": [8], "networks": 1}, "loop": {"steps": 30, "burn_in_steps": 10}}
    config = variant(TrainConfig.from_dict(task.settings["config"]), small)
    task = dataclasses.replace(task, settings={**task.settings, "config": config.to_dict()})
    result = KINDS[task.kind](Work(task, {}, data_directory, done.store.path, 1))
    assert len(result["curve"]["steps"]) == 1
    assert np.shape(result["vignettes"]["test"]["safety"]) == (10,)
    assert len(result["as_clinicians"]["safety"]) <= 10
    # The ten codes of these vignettes are none that the default rules know.
    assert result["beside_clinicians"]["with_rules"] is None


def test_agents_without_training(done):
    result = done("fixed")
    assert result["random"]["metrics"]["questions"]["mean"] == pytest.approx(0.25, abs=0.2)
    assert set(result) == {"random", "always_green", "human"}
