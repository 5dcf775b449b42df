"""The messages of `triage.v1` inside a TensorFlow graph: serialized EvidenceState in, serialized TriageResponse out.

`tf.io.decode_proto` makes every field at least one column wide, with the type's default if a message has no value. As
proto3 does not send defaults, that is the value of a scalar that was not sent.
"""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf
from google.protobuf import descriptor_pb2

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS
from triage.v1 import triage_pb2


class EvidenceStates(NamedTuple):
    """A batch of decoded EvidenceState messages."""

    present: tf.Tensor  # string [B, N], padded with ""
    absent: tf.Tensor  # string [B, N], padded with ""
    questions_asked: tf.Tensor  # int32 [B]
    no_more_evidence: tf.Tensor  # bool [B]
    max_questions: tf.Tensor  # int32 [B]


class Responses(NamedTuple):
    """The fields of a batch of TriageResponse messages."""

    q_values: tf.Tensor  # float32 [B, A]
    action: tf.Tensor  # int32 [B]
    best_triage: tf.Tensor  # int32 [B]
    forced: tf.Tensor  # bool [B]
    unknown_codes: tf.Tensor  # string [B, U], padded with ""
    conflicting_codes: tf.Tensor  # string [B, C], padded with ""
    fired_rules: tf.Tensor  # string [B, F], serialized FiredRule messages, padded with ""
    p_appropriate: tf.Tensor | None  # float32 [B, 4]; None if the model has no probabilities
    p_safe: tf.Tensor | None  # float32 [B, 4]; beside `p_appropriate`
    novelty: tf.Tensor | None  # float32 [B]; None if the model does not estimate it
    is_novel: tf.Tensor | None  # bool [B]; beside `novelty`
    model_version: str
    vocabulary_fingerprint: str


def descriptor_source() -> bytes:
    """Returns the descriptors of the messages for the graph, so that a server needs no descriptor file."""
    messages = descriptor_pb2.FileDescriptorProto()
    triage_pb2.DESCRIPTOR.CopyToProto(messages)
    return b"bytes://" + descriptor_pb2.FileDescriptorSet(file=[messages]).SerializeToString()


def decode_evidence_states(serialized: tf.Tensor) -> EvidenceStates:
    """Decodes serialized `triage.v1.EvidenceState` messages, string `[B]`.

    Evidence whose status is neither present nor absent is ignored.

    Raises:
        tf.errors.DataLossError: when the graph runs, if a string is not such a message.
    """
    fields = {
        "evidence": tf.string,
        "questions_asked": tf.int32,
        "no_more_evidence": tf.bool,
        "max_questions": tf.int32,
    }
    state = _decode(serialized, "EvidenceState", fields)
    evidence = _decode(state["evidence"], "Evidence", {"code": tf.string, "status": tf.int32})
    status = evidence["status"][..., 0]  # [B, N]
    # Decoding does not check text: a code that is not UTF-8 would make the answer that reports it unreadable.
    codes = tf.strings.unicode_transcode(evidence["code"][..., 0], "UTF-8", "UTF-8")  # [B, N]
    return EvidenceStates(
        present=tf.where(status == triage_pb2.EVIDENCE_STATUS_PRESENT, codes, ""),
        absent=tf.where(status == triage_pb2.EVIDENCE_STATUS_ABSENT, codes, ""),
        questions_asked=state["questions_asked"][..., 0],
        no_more_evidence=state["no_more_evidence"][..., 0],
        max_questions=state["max_questions"][..., 0],
    )


def encode_responses(responses: Responses) -> tf.Tensor:
    """Returns serialized `triage.v1.TriageResponse` messages, string `[B]`."""
    batch = tf.shape(responses.action)  # [1]
    q_values = {
        "action": tf.broadcast_to(_enum(tf.range(NUM_ACTIONS)), tf.shape(responses.q_values))[..., tf.newaxis],
        "value": responses.q_values[..., tf.newaxis],
    }
    optional = {}
    if responses.novelty is not None and responses.is_novel is not None:
        optional = {"novelty": responses.novelty[:, tf.newaxis], "is_novel": responses.is_novel[:, tf.newaxis]}
    if responses.p_appropriate is not None and responses.p_safe is not None:
        probabilities = {
            "decision": tf.broadcast_to(_enum(tf.range(NUM_DECISIONS)), tf.shape(responses.p_safe))[..., tf.newaxis],
            "appropriate": responses.p_appropriate[..., tf.newaxis],
            "safe": responses.p_safe[..., tf.newaxis],
        }
        optional["probabilities"] = _encode("DecisionProbability", probabilities)
    return _encode(
        "TriageResponse",
        {
            "action": _enum(responses.action)[:, tf.newaxis],
            "best_triage": _enum(responses.best_triage)[:, tf.newaxis],
            "q_values": _encode("QValue", q_values),
            "forced": responses.forced[:, tf.newaxis],
            "unknown_codes": responses.unknown_codes,
            "conflicting_codes": responses.conflicting_codes,
            "model_version": tf.fill(tf.concat([batch, [1]], axis=0), responses.model_version),
            "vocabulary_fingerprint": tf.fill(tf.concat([batch, [1]], axis=0), responses.vocabulary_fingerprint),
            "fired_rules": responses.fired_rules,
        }
        | optional,
    )


class FiredRules(NamedTuple):
    """The F rules that fired in a batch."""

    row: tf.Tensor  # int64 [F], ascending: the row of the batch
    rule_id: tf.Tensor  # string [F]
    reason: tf.Tensor  # string [F]
    from_action: tf.Tensor  # int32 [F]
    to_action: tf.Tensor  # int32 [F]


def encode_fired_rules(fired: FiredRules, rows: tf.Tensor) -> tf.Tensor:
    """Returns serialized `triage.v1.FiredRule` messages, string `[B, F]`, for a batch of `rows` (scalar)."""
    encoded = _encode(
        "FiredRule",
        {
            "rule_id": fired.rule_id[:, tf.newaxis],
            "reason": fired.reason[:, tf.newaxis],
            "from_action": _enum(fired.from_action)[:, tf.newaxis],
            "to_action": _enum(fired.to_action)[:, tf.newaxis],
        },
    )
    return tf.RaggedTensor.from_value_rowids(encoded, fired.row, tf.cast(rows, tf.int64)).to_tensor("")


def _enum(actions: tf.Tensor) -> tf.Tensor:
    """Returns the TriageAction numbers of action indices: 0 on the wire is reserved for "unspecified"."""
    return actions + triage_pb2.TRIAGE_ACTION_RED


def _decode(serialized: tf.Tensor, message: str, fields: Mapping[str, tf.DType]) -> dict[str, tf.Tensor]:
    """Returns each field's values `[..., R]`, R at least 1 and the largest number of values in one message.

    `tf.io.decode_proto` rejects an empty batch, so an empty message is added.
    """
    decoded = tf.io.decode_proto(
        tf.concat([tf.reshape(serialized, [-1]), [""]], axis=0),
        f"triage.v1.{message}",
        field_names=list(fields),
        output_types=list(fields.values()),
        descriptor_source=descriptor_source(),
    )
    return {
        field: tf.reshape(values[:-1], tf.concat([tf.shape(serialized), tf.shape(values)[1:]], axis=0))
        for field, values in zip(fields, decoded.values, strict=True)
    }


def _encode(message: str, fields: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Returns messages `[...]` from values `[..., R]`; repeated strings are padded with ""."""
    counts = [
        tf.math.count_nonzero(values != "", axis=-1, dtype=tf.int32)
        if values.dtype == tf.string
        else tf.fill(tf.shape(values)[:-1], tf.shape(values)[-1])
        for values in fields.values()
    ]
    return tf.io.encode_proto(
        tf.stack(counts, axis=-1),
        list(fields.values()),
        list(fields),
        f"triage.v1.{message}",
        descriptor_source=descriptor_source(),
    )
