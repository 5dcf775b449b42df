"""The signatures of an exported model: three doors to one decision.

`serving_default` takes evidence codes, `triage` takes `triage.v1.EvidenceState` messages and `state` takes state
vectors. What each input means is settled before `_decision`, so that all three answer alike.
"""

import pathlib
from typing import NamedTuple

import keras
import tensorflow as tf

from schemas import features
from schemas.triage import ACTION_LABELS
from trainer import state
from trainer.decision import best_triage, decide
from trainer.exporting import messages

SIGNATURES = (features.SERVING_DEFAULT, features.TRIAGE, features.STATE)


class Identity(NamedTuple):
    """What the graph knows of the version that it is part of."""

    model_version: str
    vocabulary_fingerprint: str
    evidence_count: int
    max_questions: int


class AssetLookup:
    """Maps codes to state cells by the vocabulary file itself, which the SavedModel keeps as an asset.

    The line number in the file, less one for the header, is the state cell. A string that begins no line gets the
    table's default, 0, hence `state.UNKNOWN`; so does "code", which begins the header line and is no evidence code.

    Args:
        vocabulary: path of the vocabulary file, as `schemas.evidence.Vocabulary.save` writes it.
    """

    def __init__(self, vocabulary: pathlib.Path):
        initializer = tf.lookup.TextFileInitializer(
            str(vocabulary),
            key_dtype=tf.string,
            key_index=0,
            value_dtype=tf.int64,
            value_index=tf.lookup.TextFileIndex.LINE_NUMBER,
            delimiter=",",
        )
        self.table = tf.lookup.StaticHashTable(initializer, default_value=0)

    def __call__(self, codes: tf.Tensor) -> tf.Tensor:
        """Returns the state cells of `codes`, int64 of the same shape, `state.UNKNOWN` for other strings."""
        return self.table.lookup(codes) - 1


def build_archive(model: keras.Model, vocabulary: pathlib.Path, identity: Identity) -> keras.export.ExportArchive:
    """Returns an archive, ready for `write_out`, that answers all three signatures.

    Args:
        model: from states `[B, E]` float32 to Q-values `[B, A]` float32.
        vocabulary: path of the vocabulary file; it must exist until the archive is written.
        identity: the version that the archive becomes.
    """
    lookup = AssetLookup(vocabulary)
    archive = keras.export.ExportArchive()  # a plain tf.Module would lose a Keras 3 model's weights
    archive.track(model)
    archive.track(lookup.table)

    def serving_default(present: tf.Tensor, absent: tf.Tensor, questions_asked: tf.Tensor) -> dict[str, tf.Tensor]:
        encoded = state.from_codes(present, absent, lookup, identity.evidence_count)
        decision = _decision(model(encoded.states), questions_asked >= identity.max_questions)
        return decision | {
            features.UNKNOWN_CODES: encoded.unknown_codes,
            features.CONFLICTING_CODES: encoded.conflicting_codes,
        }

    def triage(evidence_states: tf.Tensor) -> dict[str, tf.Tensor]:
        return {features.TRIAGE_RESPONSES: _answer(model, lookup, identity, evidence_states)}

    def dense(states: tf.Tensor, questions_asked: tf.Tensor) -> dict[str, tf.Tensor]:
        return _decision(model(states), questions_asked >= identity.max_questions)

    questions_asked = tf.TensorSpec([None], tf.int32, features.QUESTIONS_ASKED)
    present = tf.TensorSpec([None, None], tf.string, features.PRESENT)
    absent = tf.TensorSpec([None, None], tf.string, features.ABSENT)
    evidence_states = tf.TensorSpec([None], tf.string, features.EVIDENCE_STATES)
    states = tf.TensorSpec([None, identity.evidence_count], tf.float32, features.STATES)
    archive.add_endpoint(features.SERVING_DEFAULT, serving_default, [present, absent, questions_asked])
    archive.add_endpoint(features.TRIAGE, triage, [evidence_states])
    archive.add_endpoint(features.STATE, dense, [states, questions_asked])
    return archive


def _decision(q_values: tf.Tensor, forced: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the decision tensors for Q-values `[B, A]` float32 and `forced` `[B]` bool."""
    labels = tf.constant(ACTION_LABELS)
    action, triage = decide(q_values, forced), best_triage(q_values)
    return {
        features.Q_VALUES: q_values,
        features.ACTION: action,
        features.ACTION_LABEL: tf.gather(labels, action),
        features.BEST_TRIAGE: triage,
        features.BEST_TRIAGE_LABEL: tf.gather(labels, triage),
        features.FORCED: forced,
    }


def _answer(model: keras.Model, lookup: AssetLookup, identity: Identity, evidence_states: tf.Tensor) -> tf.Tensor:
    """Returns serialized TriageResponse messages `[B]` for serialized EvidenceState messages `[B]`."""
    known = messages.decode_evidence_states(evidence_states)
    encoded = state.from_codes(known.present, known.absent, lookup, identity.evidence_count)
    own_limit = (known.max_questions <= 0) | (known.max_questions > identity.max_questions)
    limit = tf.where(own_limit, identity.max_questions, known.max_questions)  # [B]
    decision = _decision(model(encoded.states), known.no_more_evidence | (known.questions_asked >= limit))
    return messages.encode_responses(
        messages.Responses(
            q_values=decision[features.Q_VALUES],
            action=decision[features.ACTION],
            best_triage=decision[features.BEST_TRIAGE],
            forced=decision[features.FORCED],
            unknown_codes=encoded.unknown_codes,
            conflicting_codes=encoded.conflicting_codes,
            model_version=identity.model_version,
            vocabulary_fingerprint=identity.vocabulary_fingerprint,
        )
    )
