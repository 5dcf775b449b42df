"""Patients who answer questions, for the tracks of `trainer.evaluation.options`."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from schemas.evidence import Vocabulary
from trainer.data.state import Vignettes, sparse_states
from trainer.graph.questions import QuestionGraph


class Patients(NamedTuple):
    """V patients over E pieces of evidence."""

    known: np.ndarray  # bool [V, E], what is known before the first question
    answers: np.ndarray  # int8 [V, E] in {-1, 0, 1}; 0 where there is no answer, and no policy may ask
    decision_counts: np.ndarray  # [V, 4]

    def at_home(self, vocabulary: Vocabulary) -> "Patients":
        """Returns these patients, without instruments: they answer questions that need one only if it is known."""
        unable = vocabulary.takes_instrument & ~self.known
        return self._replace(answers=np.where(unable, 0, self.answers).astype(np.int8))


def own_cards(vignettes: Vignettes, evidence_count: int, seed: int) -> Patients:
    """Returns patients who can answer only what their vignette lists; a random piece is known at the start."""
    answers = _listed(vignettes, evidence_count)
    chance = np.random.default_rng(seed).random(answers.shape)
    first = np.where(answers != 0, chance, -1.0).argmax(axis=1)
    return Patients(_one(first, evidence_count), answers, vignettes.decision_counts)


def whole_patients(vignettes: Vignettes, evidence_count: int, known_cells: Sequence[int] = ()) -> Patients:
    """Returns patients who answer everything, absent if not listed.

    The first piece listed is known at the start, as the presenting complaint, and so are `known_cells`, such as age and
    sex.
    """
    answers = np.where(_listed(vignettes, evidence_count) > 0, 1, -1).astype(np.int8)
    known = _first_pieces(vignettes, evidence_count)
    known[:, list(known_cells)] = True
    return Patients(known, answers, vignettes.decision_counts)


def interviewed_at_home(
    vignettes: Vignettes, whole: bool, graph: QuestionGraph, vocabulary: Vocabulary, seed: int
) -> Patients:
    """Returns patients who present with the first piece of evidence of a vignette, and have no instruments.

    They answer everything else; `seed` draws what cards leave open.
    """
    cards = tf.constant(_listed(vignettes, len(vocabulary)))
    answers = all_answers(cards, whole, graph, tf.random.Generator.from_seed(seed, alg="philox"), None).numpy()
    return Patients(_first_pieces(vignettes, len(vocabulary)), answers, vignettes.decision_counts).at_home(vocabulary)


def all_answers(
    cards: tf.Tensor, whole: bool, graph: QuestionGraph, generator: tf.random.Generator, least_urgent: tf.Tensor | None
) -> tf.Tensor:
    """Returns what patients with `cards`, int8 `[B, E]`, answer to each question, int8 `[B, E]`, 1 or -1.

    Whole patients lack what is not listed. Others answer as patients with such a card, see `QuestionGraph`.
    """
    if whole:
        return tf.where(cards > 0, tf.ones_like(cards), -1)
    like = graph.patients_like(tf.cast(cards, tf.float32), generator, least_urgent)
    return tf.where(cards != 0, cards, tf.cast(like, tf.int8))


def _first_pieces(vignettes: Vignettes, evidence_count: int) -> np.ndarray:
    """Returns bool `[V, E]`: the first piece that each vignette lists, the presenting complaint."""
    first = np.asarray(vignettes.signed_codes)[np.asarray(vignettes.offsets)[:-1]].astype(np.int64)
    return _one(np.abs(first) - 1, evidence_count)


def _one(cells: np.ndarray, evidence_count: int) -> np.ndarray:
    """Returns bool `[V, E]`, true in one cell a row."""
    return np.asarray(np.arange(evidence_count) == cells[:, np.newaxis])


def _listed(vignettes: Vignettes, evidence_count: int) -> np.ndarray:
    """Returns the evidence that each vignette lists, int8 `[V, E]` in {-1, 0, 1}."""
    return sparse_states(vignettes, evidence_count).astype(np.int8).toarray()
