import dataclasses

import numpy as np
import pytest

from trainer.study.ensemble import EnsembleConfig
from trainer.study.supervised import ensemble_config, fully_observed_figures, powerset_sample, train_on_powerset
from trainer.vignettes.tfrecord import DataDirectory


@pytest.fixture(scope="module")
def data(data_directory):
    return DataDirectory.open(data_directory)


def _quick(**settings):
    return dataclasses.replace(ensemble_config({"members": ["tree", "logistic"], "seed": 0, **settings}, 1), folds=2)


def test_an_ensemble_has_the_members_of_its_task():
    config = ensemble_config({"members": ["mlp", "svc"], "seed": 3}, jobs=2)  # as JSON keeps them
    assert config == EnsembleConfig(("mlp", "svc"), calibrated=True, seed=3, jobs=2)
    assert not ensemble_config({"members": ["svc"], "seed": 3, "calibrated": False}, jobs=2).calibrated


def test_the_whole_expanded_split_holds_every_part_of_every_training_vignette(data):
    states, counts, groups = powerset_sample(data, 10**9, seed=0)
    train = data.read("train")
    tested = powerset_sample(data, 10**9, seed=0, split="test")
    assert len(np.unique(tested.groups)) == len(data.read("test").vignette_ids)
    pieces = np.diff(train.offsets)
    # All have 2 to 7 pieces of evidence: 2^n parts each, the sum of their sizes n 2^(n - 1).
    assert states.shape == ((2**pieces).sum(), len(data.vocabulary))
    assert states.nnz == (pieces * 2 ** (pieces - 1)).sum()
    assert len(np.unique(groups)) == len(pieces)
    # Each part keeps the decisions of its vignette.
    assert counts.sum(axis=0).tolist() == (train.decision_counts * (2**pieces)[:, np.newaxis]).sum(axis=0).tolist()


def test_a_sample_has_about_the_rows_asked_for_and_depends_on_the_seed(data):
    first, again, other = (powerset_sample(data, 300, seed)[0] for seed in (1, 1, 2))
    assert 230 < first.shape[0] < 370  # a binomial number: four standard deviations of sqrt(300)
    assert (first != again).nnz == 0
    assert other.shape != first.shape or (first != other).nnz


def test_an_ensemble_of_the_sample_gives_probabilities(data):
    ensemble, rows = train_on_powerset(data, 400, _quick())
    values = ensemble.triage_values(np.eye(len(data.vocabulary), dtype=np.float32))
    assert 320 < rows < 480  # four standard deviations of sqrt(400)
    assert values.sum(axis=1) == pytest.approx(1.0)


def test_the_fully_observed_model_sees_all_evidence_and_knows_its_training_vignettes_better(data):
    figures = fully_observed_figures(data, _quick())
    held = np.diff(data.read("test").offsets).mean()
    assert figures["metrics"]["evidence_seen"].mean == pytest.approx(held)
    assert "questions" not in figures["metrics"]
    shares = [figures["metrics"][name].mean for name in ("appropriateness", "over_triage", "under_triage")]
    assert sum(shares) == pytest.approx(1.0)
    assert 0.0 <= figures["train"]["appropriateness"] <= 1.0
