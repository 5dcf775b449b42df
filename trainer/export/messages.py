"""The messages of `triage.v1` inside a TensorFlow graph: serialized EvidenceState in, serialized TriageResponse out.

`tf.io.decode_proto` makes every field at least one column wide, with the type's default if a message has no value. As
proto3 does not send defaults, that is the value of a scalar that was not sent.
"""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf
from google.protobuf import descriptor_pb2

from schemas import features
from schemas.answer import ANSWER, Kind
from schemas.triage import NUM_ACTIONS, NUM_DECISIONS, WIRE_NUMBERS
from triage.v1 import triage_pb2


class EvidenceStates(NamedTuple):
    """A batch of decoded EvidenceState messages."""

    present: tf.Tensor  # string [B, N], padded with ""
    absent: tf.Tensor  # string [B, N], padded with ""
    questions_asked: tf.Tensor  # int32 [B]
    no_more_evidence: tf.Tensor  # bool [B]
    max_questions: tf.Tensor  # int32 [B]


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


def encode_responses(
    decision: Mapping[str, tf.Tensor], fired_rules: tf.Tensor, model_version: str, vocabulary_fingerprint: str
) -> tf.Tensor:
    """Returns serialized `triage.v1.TriageResponse` messages, string `[B]`.

    `decision` has the tensors of `schemas.answer` that the model has, by name; `fired_rules`, string `[B, F]`, are
    serialized FiredRule messages, padded with "".
    """
    batch = tf.shape(decision[features.ACTION])  # [1]
    q_values = {"action": _enum(tf.range(NUM_ACTIONS)), "value": decision[features.Q_VALUES]}
    fields = {
        "q_values": _encode_columns("QValue", q_values),
        "model_version": tf.fill(tf.concat([batch, [1]], axis=0), model_version),
        "vocabulary_fingerprint": tf.fill(tf.concat([batch, [1]], axis=0), vocabulary_fingerprint),
        "fired_rules": fired_rules,
    }
    if features.P_SAFE in decision:
        probabilities = {
            "decision": _enum(tf.range(NUM_DECISIONS)),
            "appropriate": decision[features.P_APPROPRIATE],
            "safe": decision[features.P_SAFE],
        }
        fields["probabilities"] = _encode_columns("DecisionProbability", probabilities)
    for tensor in ANSWER:
        if tensor.is_field and tensor.name in decision:
            values = decision[tensor.name]
            values = _enum(values) if tensor.kind is Kind.ACTION else values
            fields[tensor.name] = values if tensor.kind is Kind.CODES else values[:, tf.newaxis]
    return _encode("TriageResponse", fields)


def _encode_columns(message: str, fields: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Returns messages `[B, N]`, one for each column of the values, `[N]` or `[B, N]`, of which the last has B rows."""
    shape = tf.shape([*fields.values()][-1])
    return _encode(message, {name: tf.broadcast_to(value, shape)[..., tf.newaxis] for name, value in fields.items()})


def encode_fired_rules(
    row: tf.Tensor, rows: tf.Tensor, texts: Mapping[str, tf.Tensor], actions: Mapping[str, tf.Tensor]
) -> tf.Tensor:
    """Returns serialized `triage.v1.FiredRule` messages, string `[B, F]`.

    Args:
        row: int64 `[F]`, ascending: the row of the batch in which each of the F rules fired.
        rows: B, a scalar.
        texts: `rule_id` and `reason`, string `[F]` each.
        actions: `from_action` and `to_action`, int32 `[F]` each.
    """
    fields = {**texts, **{name: _enum(values) for name, values in actions.items()}}
    encoded = _encode("FiredRule", {name: values[:, tf.newaxis] for name, values in fields.items()})
    return tf.RaggedTensor.from_value_rowids(encoded, row, tf.cast(rows, tf.int64)).to_tensor("")


def _enum(actions: tf.Tensor) -> tf.Tensor:
    """Returns the TriageAction numbers of action indices."""
    return tf.gather(list(WIRE_NUMBERS.values()), actions)


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
