"""The supervised models of the study: their training data, and the figures of the fully-observed model."""

from typing import Any

import numpy as np
import scipy.sparse

from trainer.study.baselines import fully_observed_metrics
from trainer.study.ensemble import MEMBERS, EnsembleConfig, TriageEnsemble, powerset_groups, train_ensemble
from trainer.study.fixed import plain_figures
from trainer.study.powerset import expand, row_count
from trainer.vignettes.arrays import VignetteArrays
from trainer.vignettes.state import signed_codes, sparse_states
from trainer.vignettes.tfrecord import DataDirectory, decode_example, read_records

SUPPORT_VECTORS = "svc"


def ensemble_config(settings: dict[str, Any], jobs: int) -> EnsembleConfig:
    """Returns the configuration for a task's `support_vectors`, `calibrated` (default true) and `seed`."""
    members = tuple(name for name in MEMBERS if settings["support_vectors"] or name != SUPPORT_VECTORS)
    return EnsembleConfig(members, settings.get("calibrated", True), seed=settings["seed"], jobs=jobs)


def train_on_powerset(data: DataDirectory, rows: int, config: EnsembleConfig) -> tuple[TriageEnsemble, int]:
    """Returns an ensemble trained on the expanded training split, and its number of rows.

    Args:
        data: of the vignettes to expand, see `trainer.study.powerset`.
        rows: approximate number of rows to draw from D_pow, at most all.
        config: how to train; its seed is also that of the draw.
    """
    states, counts, groups = powerset_sample(data, rows, config.seed)
    return train_ensemble(states, counts, groups, config), len(groups)


def powerset_sample(
    data: DataDirectory, rows: int, seed: int
) -> tuple[scipy.sparse.csr_matrix, np.ndarray, np.ndarray]:
    """Returns rows drawn from D_pow of the training split: states `[R, E]`, decisions `[R, 4]`, vignette int `[R]`."""
    train = data.read("train")
    total = sum(map(row_count, np.diff(train.offsets).tolist()))
    counts_of = dict(zip(train.vignette_ids, train.decision_counts, strict=True))
    ids, codes, lengths = [], [], []
    for shard in data.shards("train"):
        for record in read_records(shard, shard.name.endswith(".gz")):
            for row in expand(vignette := decode_example(record), seed, min(1.0, rows / total)):
                signed = signed_codes(row.present, row.absent, data.vocabulary)
                ids.append((row.vignette_id, vignette.vignette_id))
                codes.extend(signed)
                lengths.append(len(signed))
    drawn = VignetteArrays(
        vignette_ids=np.array([row_id for row_id, _ in ids], object),
        offsets=np.cumsum([0, *lengths], dtype=np.int64),
        signed_codes=np.array(codes, np.int32),
        decision_counts=np.array([counts_of[vignette_id] for _, vignette_id in ids], np.uint8),
        tags=((),) * len(ids),
    )
    return sparse_states(drawn, len(data.vocabulary)), drawn.decision_counts, powerset_groups(drawn.vignette_ids)


def fully_observed_figures(data: DataDirectory, config: EnsembleConfig) -> dict[str, Any]:
    """Returns `metrics` on the test split and their means on the training split (`train`) of the fully-observed model.

    It is trained on the training vignettes with all their evidence (paper, section "Baselines").
    """
    train, test = data.read("train"), data.read("test")
    evidence_count = len(data.vocabulary)
    states = sparse_states(train, evidence_count)
    ensemble = train_ensemble(states, train.decision_counts, np.arange(len(train.decision_counts)), config)
    on_train, on_test = (
        {
            **fully_observed_metrics(ensemble.triage_values, vignettes, evidence_count),
            "evidence_seen": np.diff(vignettes.offsets).astype(np.float64),
        }
        for vignettes in (train, test)
    )
    return plain_figures(on_train, on_test, config.seed)
