import dataclasses

import pytest

from schemas.errors import InputError
from trainer.config import TrainConfig
from trainer.dyqn.loop import TrainingDivergedError
from trainer.study import agents
from trainer.study.study import Study, StudySettings, Training

CONFIG = TrainConfig.from_dict(
    {
        "loop": {"steps": 20, "burn_in_steps": 10, "evaluation_interval": 20, "seed": 4},
        "network": {"hidden_sizes": [8]},
        "memory": {"memory_capacity": 64, "batch_size": 8},
    }
)
SETTINGS = StudySettings(seeds=2, folds=2, fold_seeds=1, powerset_rows=100, config=CONFIG)


@pytest.fixture
def study(data_directory, tmp_path):
    return Study(data_directory, SETTINGS, tmp_path)


def test_the_trainings_are_those_of_the_papers_table_and_folds(study):
    assert [training.name for training in study.trainings()] == [
        "fully_observed-seed-4", "calibrated-seed-4", "uncalibrated-seed-4",
        "dyqn_or-seed-4", "dyqn_or-seed-5", "dyqn_and-seed-4", "dyqn_and-seed-5",
        "partially_observed_or-seed-4", "partially_observed_or-seed-5",
        "partially_observed_and-seed-4", "partially_observed_and-seed-5",
        "dyqn_or-seed-4-fold-0", "dyqn_or-seed-4-fold-1",
    ]  # fmt: skip


def test_what_has_a_file_is_not_trained_again_also_in_a_larger_study(study):
    done, *others = study.claim()
    study.path(done).write_text("{}")
    assert study.claim() == others
    larger = dataclasses.replace(study, settings=dataclasses.replace(SETTINGS, seeds=3))
    assert Training("dyqn_or", 6) in larger.claim()
    assert done not in larger.claim()


@pytest.mark.parametrize("changes", [{"folds": 3}, {"powerset_rows": 200}, {"config": TrainConfig()}])
def test_a_study_with_other_settings_is_left_alone(study, changes):
    study.claim()
    other = dataclasses.replace(study, settings=dataclasses.replace(SETTINGS, **changes))
    with pytest.raises(InputError, match="settings"):
        other.claim()


def test_a_training_that_diverges_is_named_and_leaves_no_file(study, monkeypatch):
    def diverge(*_):
        raise TrainingDivergedError("step 12")

    study.claim()
    monkeypatch.setattr(agents, "dyqn", diverge)
    with pytest.raises(InputError, match=r"dyqn_or-seed-5: step 12"):
        study.train(Training("dyqn_or", 5))
    assert list((study.out / "agents").iterdir()) == []


def test_each_agent_learns_its_own_query_from_its_own_seed(study, monkeypatch):
    learned = []
    monkeypatch.setattr(agents, "dyqn", lambda splits, config, converged: learned.append((splits, config)) or {})
    study.claim()
    for training in (Training("dyqn_and", 5), Training("dyqn_or", 4, fold=1)):
        study.train(training)
    assert [(config.target.ask_query, config.loop.seed) for _, config in learned] == [("and", 5), ("or", 4)]
    assert [len(splits.test.vignette_ids) for splits, _ in learned] == [10, 25]


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"seeds": 0}, "--seeds 0"),
        ({"folds": 1}, "--folds 1"),
        ({"fold_seeds": 0}, "--fold-seeds 0"),
        ({"powerset_rows": 5}, "--powerset-rows 5"),
        ({"config": TrainConfig.from_dict({"loop": {"evaluation_interval": 0}})}, "--evaluation-interval 0"),
    ],
)
def test_sizes_out_of_range_are_refused(changes, option):
    with pytest.raises(InputError, match=option):
        dataclasses.replace(SETTINGS, **changes)


@pytest.mark.parametrize(("steps", "interval", "averaged"), [(6000, 150, 10), (3000, 250, 3), (20, 20, 1)])
def test_the_last_quarter_of_the_evaluations_counts_ten_at_most(steps, interval, averaged):
    config = TrainConfig.from_dict({"loop": {"steps": steps, "evaluation_interval": interval, "burn_in_steps": 1}})
    assert dataclasses.replace(SETTINGS, config=config).converged == averaged
