"""Converts `triage.v1` messages to the inputs of the signature `serving_default`, and its outputs to messages.

Messages are parsed here and not in the graph, where one malformed message would fail its whole batch.
"""

import dataclasses
import operator
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, repeat
from typing import Any

import numpy as np

from schemas import features
from schemas.answer import Kind, of_model
from schemas.evidence import pad_rows
from schemas.model_directory import ModelInfo
from schemas.safety_rules import Decision, SafetyRule, chain
from schemas.triage import NO_QUESTIONS_LEFT, TRIAGE_DECISIONS, WIRE_NUMBERS, Action, is_forced
from triage.v1 import triage_pb2


def outputs_of(info: ModelInfo) -> tuple[str, ...]:
    """Returns the outputs that `to_responses` reads of a model."""
    return tuple(tensor.name for tensor in of_model(info.has) if tensor.kind is not Kind.LABEL)


def _templates(responses: Iterable[triage_pb2.TriageResponse]) -> np.ndarray:
    return np.array([list(response.SerializeToString()) for response in responses], np.uint8)


# Row per action: a serialized TriageResponse with that one Q-value, a float in the last four bytes.
_Q_VALUES = _templates(
    triage_pb2.TriageResponse(q_values=[triage_pb2.QValue(action=action, value=1.0)])
    for action in WIRE_NUMBERS.values()
)  # [A, 9]
# Row per triage decision: one with its probabilities, of which P(safe) is in the last four bytes.
_PROBABILITIES = _templates(
    triage_pb2.TriageResponse(
        probabilities=[triage_pb2.DecisionProbability(decision=WIRE_NUMBERS[decision], appropriate=1.0, safe=1.0)]
    )
    for decision in TRIAGE_DECISIONS
)  # [4, 14]
_LAST_PLACE, _FIRST_PLACE = slice(-4, None), slice(-9, -5)

_CODE, _STATUS = operator.attrgetter("code"), operator.attrgetter("status")


def to_inputs(states: Sequence[triage_pb2.EvidenceState]) -> dict[str, np.ndarray]:
    """Returns the inputs of `serving_default`: `present` and `absent` bytes [B, N], `questions_asked` int32 [B].

    Evidence whose status is neither present nor absent is ignored. The codes have at least one column.
    """
    pieces = [list(state.evidence) for state in states]
    statuses = [list(map(_STATUS, evidence)) for evidence in pieces]
    return {
        features.PRESENT: pad_rows(map(_codes, pieces, statuses, repeat(triage_pb2.EVIDENCE_STATUS_PRESENT))),
        features.ABSENT: pad_rows(map(_codes, pieces, statuses, repeat(triage_pb2.EVIDENCE_STATUS_ABSENT))),
        features.QUESTIONS_ASKED: np.array([questions_asked(state) for state in states], np.int32),
    }


def to_responses(outputs: Mapping[str, np.ndarray], info: ModelInfo) -> list[triage_pb2.TriageResponse]:
    """Returns the response of each row of the model's outputs.

    `q_values` are float32 [B, A], codes bytes [B, U], `rules_fired` bool [B, R], and the others [B].
    """
    parts = [_serialized(_Q_VALUES, [(_LAST_PLACE, outputs[features.Q_VALUES])])]
    if info.probabilities:
        values = [(_FIRST_PLACE, outputs[features.P_APPROPRIATE]), (_LAST_PLACE, outputs[features.P_SAFE])]
        parts.append(_serialized(_PROBABILITIES, values))
    serialized = map(b"".join, zip(repeat(_constant_part(info)), *parts, strict=False))
    messages = list(map(triage_pb2.TriageResponse.FromString, serialized))
    for tensor in of_model(info.has):
        if tensor.is_field:
            _FILLING.get(tensor.kind, _set)(messages, tensor.name, outputs[tensor.name].tolist())
    _add_rules(messages, outputs, info)
    return messages


def to_decisions(outputs: Mapping[str, np.ndarray], info: ModelInfo) -> list[triage_pb2.TriageResponse]:
    """Returns the decisions in the outputs of any signature: without novelty, and with codes only if it reads codes.

    `triage_responses` are bytes [B], the other outputs as in `to_responses`.
    """
    if features.TRIAGE_RESPONSES in outputs:
        return list(map(triage_pb2.TriageResponse.FromString, outputs[features.TRIAGE_RESPONSES]))
    no_codes: np.ndarray = np.empty((len(outputs[features.ACTION]), 0), object)
    known = {features.UNKNOWN_CODES: no_codes, features.CONFLICTING_CODES: no_codes, **outputs}
    return to_responses(known, dataclasses.replace(info, novelty_threshold=None))


def _set(messages: Sequence[triage_pb2.TriageResponse], name: str, values: list[Any]) -> None:
    for message, value in zip(messages, values, strict=True):
        setattr(message, name, value)


def _set_actions(messages: Sequence[triage_pb2.TriageResponse], name: str, values: list[Any]) -> None:
    _set(messages, name, [WIRE_NUMBERS[action] for action in values])


def _extend_with_codes(messages: Sequence[triage_pb2.TriageResponse], name: str, values: list[Any]) -> None:
    for message, codes in zip(messages, values, strict=True):
        if any(codes):
            getattr(message, name).extend(code.decode() for code in codes if code)


_FILLING = {Kind.ACTION: _set_actions, Kind.CODES: _extend_with_codes}


def _add_rules(
    messages: Sequence[triage_pb2.TriageResponse], outputs: Mapping[str, np.ndarray], info: ModelInfo
) -> None:
    if info.rules:
        fired = outputs[features.RULES_FIRED]
        for row in np.flatnonzero(fired.any(axis=1)).tolist():
            asks = bool(outputs[features.MODEL_ACTION][row] == Action.ASK)
            before = Decision(Action(int(outputs[features.MODEL_BEST_TRIAGE][row])), asks)
            add_fired_rules(messages[row], before, [info.rules[place] for place in np.flatnonzero(fired[row]).tolist()])


def add_fired_rules(response: triage_pb2.TriageResponse, before: Decision, fired: Sequence[SafetyRule]) -> None:
    """Adds the rules that fired, in order, with the decision before and after each; `before` precedes the first."""
    response.fired_rules.extend(
        triage_pb2.FiredRule(
            rule_id=rule.rule_id, reason=rule.reason, from_action=WIRE_NUMBERS[source], to_action=WIRE_NUMBERS[target]
        )
        for rule, source, target in chain(before, fired)
    )


def _constant_part(info: ModelInfo) -> bytes:
    return triage_pb2.TriageResponse(
        model_version=info.model_version, vocabulary_fingerprint=info.vocabulary_fingerprint
    ).SerializeToString()


def _serialized(templates: np.ndarray, values: Sequence[tuple[slice, np.ndarray]]) -> list[bytes]:
    """Returns the serialized messages `templates` `[N, bytes]` with floats filled in, for each row of the values.

    Args:
        templates: a message for each of N columns.
        values: float32 `[B, N]`, each with the place of its four bytes in a message.

    Concatenated serialized messages are the message with all of their fields. Filling in the floats of all rows at once
    takes a tenth of the time of making five messages per row.
    """
    batch = len(values[0][1])
    rows = np.broadcast_to(templates, (batch, *templates.shape)).copy()
    for place, floats in values:
        rows[:, :, place] = np.ascontiguousarray(floats, "<f4").view(np.uint8).reshape(*floats.shape, 4)
    return list(map(bytes, rows.reshape(batch, templates.size)))


def _codes(evidence: Sequence[triage_pb2.Evidence], statuses: Sequence[int], status: int) -> list[bytes]:
    """Returns the codes of one status, without running a line of Python per piece of evidence."""
    return list(map(str.encode, map(_CODE, compress(evidence, map(status.__eq__, statuses)))))


def questions_asked(state: triage_pb2.EvidenceState) -> int:
    """Returns the number of questions for a signature: beyond any limit if the model must triage now."""
    own_limit = state.max_questions if state.max_questions > 0 else NO_QUESTIONS_LEFT
    forced = is_forced(state.questions_asked, own_limit, state.no_more_evidence)
    return NO_QUESTIONS_LEFT if forced else state.questions_asked
