import dataclasses

import pytest

from schemas.errors import InputError
from trainer.config import TrainConfig
from trainer.study.study import ABLATIONS, DataFacts, StudySettings, plan, variant

FACTS = DataFacts("sha256:d", "sha256:v", train=40, test=10)
SETTINGS = StudySettings(
    mode="quick", seeds=2, partially_observed_seeds=1, folds=0, fold_seeds=1, powerset_rows=500, members=("tree",),
    ablations=False, config=TrainConfig.from_dict({"loop": {"seed": 7}}),
)  # fmt: skip


def _plan(facts=FACTS, **changes):
    return {task.name: task for task in plan(dataclasses.replace(SETTINGS, **changes), facts)}


def _changed(before, after):
    return {name for name in after if name not in before or before[name].fingerprint != after[name].fingerprint}


def _configured(**sections):
    return {"config": variant(SETTINGS.config, sections)}


def test_tasks_of_a_quick_study():
    assert set(_plan()) == {
        "dyqn_or-seed-7", "dyqn_or-seed-8", "dyqn_and-seed-7", "dyqn_and-seed-8", "detail", "fixed", "fully_observed",
        "ensemble_calibrated", "ensemble_uncalibrated", "calibration", "partially_observed_or-seed-7",
        "partially_observed_and-seed-7",
    }  # fmt: skip


def test_tasks_of_folds_and_ablations():
    more = set(_plan(folds=3, fold_seeds=2, ablations=True)) - set(_plan())
    folds = {f"k_fold-seed-{seed}-fold-{fold}" for seed in (7, 8) for fold in (0, 1, 2)}
    assert folds < more
    # One task for each variant and each of the two seeds; the default is trained already.
    assert len(more - folds) == 2 * len(ABLATIONS)
    assert "ablation-uniform_replay-seed-8" in more


def test_an_ensemble_may_learn_from_all_of_d_pow_and_models_are_judged_on_a_sample():
    tasks = _plan(powerset_rows=10**9)
    rows = {name: tasks[name].settings["rows"] for name in ("ensemble_calibrated", "calibration", "detail")}
    assert rows == {"ensemble_calibrated": 10**9, "calibration": 10_000, "detail": 10_000}


def test_what_a_task_needs_is_planned_and_other_tasks_wait_for_nothing():
    tasks = _plan()
    assert tasks["detail"].needs == ("dyqn_or-seed-7",)
    assert tasks["partially_observed_and-seed-7"].needs == ("ensemble_calibrated",)
    assert all(tasks[need] for task in tasks.values() for need in task.needs)


@pytest.mark.parametrize(
    ("changes", "concerned"),
    [
        ({}, set()),
        ({"mode": "full"}, set()),
        (_configured(loop={"steps_per_call": 7, "checkpoint_interval": 5}), set()),
        ({"seeds": 3}, {"dyqn_or-seed-9", "dyqn_and-seed-9"}),
        ({"partially_observed_seeds": 0}, set()),
        (
            {"powerset_rows": 400},
            {
                "ensemble_calibrated", "ensemble_uncalibrated", "calibration", "detail",
                "partially_observed_or-seed-7", "partially_observed_and-seed-7",
            },
        ),
        (
            _configured(loop={"steps": 999}),
            {
                "dyqn_or-seed-7", "dyqn_or-seed-8", "dyqn_and-seed-7", "dyqn_and-seed-8", "detail",
                "partially_observed_or-seed-7", "partially_observed_and-seed-7",
            },
        ),
    ],
)  # fmt: skip
def test_a_changed_setting_concerns_only_some_tasks(changes, concerned):
    assert _changed(_plan(), _plan(**changes)) == concerned


@pytest.mark.parametrize("changed", ["data_fingerprint", "vocabulary_fingerprint"])
def test_other_data_concerns_every_task(changed):
    before, after = _plan(), _plan(dataclasses.replace(FACTS, **{changed: "sha256:other"}))
    assert _changed(before, after) == set(before)


def test_each_task_has_inputs_of_its_own():
    tasks = _plan(folds=3, fold_seeds=2, ablations=True)
    assert len({task.fingerprint for task in tasks.values()}) == len(tasks)


@pytest.mark.parametrize(
    ("steps", "interval", "expected"),
    [
        (50_000, 1000, 10),  # 50 evaluations: the paper's last ten
        (3000, 250, 3),  # 12 evaluations: the last quarter
        (100, 1000, 1),
    ],
)
def test_the_table_averages_evaluations_of_the_trained_agent(steps, interval, expected):
    settings = dataclasses.replace(SETTINGS, **_configured(loop={"steps": steps, "evaluation_interval": interval}))
    assert settings.converged == expected


def test_uniform_replay_leaves_the_upper_bucket_empty():
    memory = variant(TrainConfig(), ABLATIONS["uniform replay"]).memory
    assert min(memory.bucket_thresholds) > 1.0  # a priority is the absolute mean of differences of shares


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 0}, "--seeds 0: expected 1 or more"),
        ({"folds": 1}, "--folds 1: expected 2 or more, or 0"),
        ({"folds": -1}, "--folds -1: expected 0 or more"),
        ({"powerset_rows": 5}, "--powerset-rows 5: expected 100 or more"),
        (_configured(loop={"evaluation_interval": 0}), "--evaluation-interval 0"),
    ],
)
def test_settings_that_make_no_study_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(SETTINGS, **changes)


def test_more_folds_than_vignettes_are_refused():
    settings = dataclasses.replace(SETTINGS, folds=51)
    with pytest.raises(InputError, match="--folds 51: more than the 50 vignettes"):
        plan(settings, FACTS)
