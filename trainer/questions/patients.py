"""Patients who can be asked: those of the two tracks of `trainer.questions.options`."""

from typing import NamedTuple

import numpy as np

from trainer.dyqn.environment import Vignettes
from trainer.state import sparse_states


class Patients(NamedTuple):
    """V patients over E pieces of evidence."""

    complaints: np.ndarray  # int64 [V], the cell that is known before the first question
    answers: np.ndarray  # int8 [V, E] in {-1, 0, 1}; 0 where there is no answer, and no policy may ask
    decision_counts: np.ndarray  # [V, 4]


def own_cards(vignettes: Vignettes, evidence_count: int, seed: int) -> Patients:
    """Returns patients who answer what their vignette lists, present or absent; one piece at random is known."""
    answers = _listed(vignettes, evidence_count)
    chance = np.random.default_rng(seed).random(answers.shape)
    complaints = np.where(answers != 0, chance, -1.0).argmax(axis=1)
    return Patients(complaints, answers, vignettes.decision_counts)


def whole_patients(vignettes: Vignettes, evidence_count: int) -> Patients:
    """Returns patients who answer everything: they lack what is not listed. The first piece that is listed is known."""
    answers = np.where(_listed(vignettes, evidence_count) > 0, 1, -1).astype(np.int8)
    first = np.asarray(vignettes.signed_codes)[np.asarray(vignettes.offsets)[:-1]].astype(np.int64)
    return Patients(np.abs(first) - 1, answers, vignettes.decision_counts)


def _listed(vignettes: Vignettes, evidence_count: int) -> np.ndarray:
    """Returns int8 `[V, E]` in {-1, 0, 1}: what each vignette lists."""
    return sparse_states(vignettes, evidence_count).astype(np.int8).toarray()
