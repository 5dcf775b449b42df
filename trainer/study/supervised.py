"""The supervised models of the study: their training data, and the figures of the fully-observed model."""

import itertools
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from trainer.evaluation import metrics
from trainer.study.baselines import fully_observed_decisions
from trainer.study.comparison import judged_alike
from trainer.study.ensemble import EnsembleConfig, TriageEnsemble, train_ensemble
from trainer.study.fixed import Measures, plain_figures
from trainer.study.powerset import expand, row_count
from trainer.study.state_values import Rows
from trainer.vignettes.arrays import VignetteArrays
from trainer.vignettes.state import signed_codes, sparse_states
from trainer.vignettes.tfrecord import DataDirectory, decode_example, read_records


class PowersetRows(NamedTuple):
    """R rows of D_pow."""

    states: scipy.sparse.csr_matrix  # [R, E]
    decision_counts: np.ndarray  # [R, 4]
    groups: np.ndarray  # int [R], equal for parts of one vignette


def ensemble_config(settings: dict[str, Any], jobs: int) -> EnsembleConfig:
    """Returns the configuration for a task's `members`, `calibrated` (default true) and `seed`."""
    return EnsembleConfig(
        tuple(settings["members"]), settings.get("calibrated", True), seed=settings["seed"], jobs=jobs
    )


def train_on_powerset(data: DataDirectory, rows: int, config: EnsembleConfig) -> tuple[TriageEnsemble, int]:
    """Returns an ensemble trained on the expanded training split, and its number of rows.

    Args:
        data: of the vignettes to expand, see `trainer.study.powerset`.
        rows: approximate number of rows to draw from D_pow, at most all.
        config: how to train; its seed is also that of the draw.
    """
    drawn = powerset_sample(data, rows, config.seed)
    return train_ensemble(*drawn, config), len(drawn.groups)


def powerset_sample(data: DataDirectory, rows: int, seed: int, split: str = "train") -> PowersetRows:
    """Returns about `rows` rows drawn from D_pow of a split, at most all."""
    whole = data.read(split)
    share = min(1.0, rows / sum(map(row_count, np.diff(whole.offsets).tolist())))
    place_of = {vignette_id: place for place, vignette_id in enumerate(whole.vignette_ids)}
    places, codes, offsets = [], [], [0]
    for record in itertools.chain.from_iterable(map(read_records, data.shards(split))):
        place = place_of[(vignette := decode_example(record)).vignette_id]
        for row in expand(vignette, seed, share):
            places.append(place)
            codes.extend(signed_codes(row.present, row.absent, data.vocabulary))
            offsets.append(len(codes))
    states = sparse_states(Rows(np.array(offsets), np.array(codes, np.int32)), len(data.vocabulary))
    _, groups = np.unique(whole.vignette_ids, return_inverse=True)
    return PowersetRows(states, whole.decision_counts[places], groups[places])


def fully_observed_figures(data: DataDirectory, config: EnsembleConfig) -> dict[str, Any]:
    """Returns the figures of the fully observed model, see `trainer.study.fixed.plain_figures`.

    It is trained on the training vignettes with all their evidence (paper, section "Baselines").
    """
    train, test = data.read("train"), data.read("test")
    evidence_count = len(data.vocabulary)
    states = sparse_states(train, evidence_count)
    ensemble = train_ensemble(states, train.decision_counts, np.arange(len(train.decision_counts)), config)

    def measured(vignettes: VignetteArrays) -> Measures:
        decisions = fully_observed_decisions(ensemble.triage_values, vignettes, evidence_count)
        held = np.diff(vignettes.offsets).astype(np.float64)
        values = {**metrics.triage_quality(decisions, vignettes.decision_counts), "evidence_seen": held}
        return Measures(values, judged_alike(decisions, values, vignettes.decision_counts))

    return plain_figures(measured(train), measured(test), config.seed)
