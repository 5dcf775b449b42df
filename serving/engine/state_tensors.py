"""Converts `triage.v1` messages to the inputs of the signature `serving_default`, and its outputs to messages.

Messages are parsed here and not in the graph, where one malformed message would fail its whole batch.
"""

import dataclasses
import operator
from collections.abc import Mapping, Sequence
from itertools import compress, repeat
from typing import Any

import numpy as np

from schemas import features, safety_rules
from schemas.answer import Kind, of_model
from schemas.evidence import pad_rows
from schemas.model_directory import ModelInfo
from schemas.safety_rules import SafetyRule, Step
from schemas.triage import NO_QUESTIONS_LEFT, TRIAGE_DECISIONS, WIRE_NUMBERS, Action, is_forced
from triage.v1 import triage_pb2


def outputs_of(info: ModelInfo) -> tuple[str, ...]:
    """Returns the outputs that `Responses` reads of a model."""
    return tuple(tensor.name for tensor in of_model(info.has) if tensor.kind not in (Kind.LABEL, Kind.REASON))


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


class Responses:
    """Makes the responses of one version.

    Args:
        info: the version.
    """

    def __init__(self, info: ModelInfo):
        self._rules = info.rules
        self._fields = [
            (_FILLING.get(tensor.kind, _set), tensor.name) for tensor in of_model(info.has) if tensor.is_field
        ]
        self._template = triage_pb2.TriageResponse(
            model_version=info.model_version,
            vocabulary_fingerprint=info.vocabulary_fingerprint,
            q_values=[triage_pb2.QValue(action=action) for action in WIRE_NUMBERS.values()],
        )
        if info.probabilities:
            decisions = [WIRE_NUMBERS[decision] for decision in TRIAGE_DECISIONS]
            self._template.probabilities.extend(triage_pb2.DecisionProbability(decision=each) for each in decisions)

    def of(self, outputs: Mapping[str, np.ndarray]) -> list[triage_pb2.TriageResponse]:
        """Returns the response of each row of the model's outputs.

        `q_values` are float32 [B, A], probabilities [B, 4], codes bytes [B, U], `rules_fired` bool [B, R], and the
        others [B].
        """
        messages = [self._with_q_values(row) for row in outputs[features.Q_VALUES].tolist()]
        if self._template.probabilities:
            for message, appropriate, safe in zip(
                messages, outputs[features.P_APPROPRIATE].tolist(), outputs[features.P_SAFE].tolist(), strict=True
            ):
                for place, both in enumerate(message.probabilities):
                    both.appropriate, both.safe = appropriate[place], safe[place]
        for fill, name in self._fields:
            fill(messages, name, outputs[name].tolist())
        if self._rules:
            self._add_rules(messages, outputs)
        return messages

    def _with_q_values(self, values: Sequence[float]) -> triage_pb2.TriageResponse:
        message = triage_pb2.TriageResponse()
        message.CopyFrom(self._template)
        for q_value, value in zip(message.q_values, values, strict=True):
            q_value.value = value
        return message

    def _add_rules(self, messages: Sequence[triage_pb2.TriageResponse], outputs: Mapping[str, np.ndarray]) -> None:
        fired: dict[int, list[SafetyRule]] = {}
        for row, place in np.argwhere(outputs[features.RULES_FIRED]).tolist():
            fired.setdefault(row, []).append(self._rules[place])
        for row, rules in fired.items():
            before = (Action(int(outputs[name][row])) for name in (features.MODEL_ACTION, features.MODEL_BEST_TRIAGE))
            add_fired_rules(messages[row], safety_rules.steps(rules, *before))


def to_decisions(outputs: Mapping[str, np.ndarray], info: ModelInfo) -> list[triage_pb2.TriageResponse]:
    """Returns the decisions in the outputs of any signature: without novelty, and with codes only if it reads codes.

    `triage_responses` are bytes [B], the other outputs as in `Responses.of`.
    """
    if features.TRIAGE_RESPONSES in outputs:
        return list(map(triage_pb2.TriageResponse.FromString, outputs[features.TRIAGE_RESPONSES]))
    no_codes: np.ndarray = np.empty((len(outputs[features.ACTION]), 0), object)
    known = {features.UNKNOWN_CODES: no_codes, features.CONFLICTING_CODES: no_codes, **outputs}
    return Responses(dataclasses.replace(info, novelty_threshold=None)).of(known)


def add_fired_rules(response: triage_pb2.TriageResponse, steps: Sequence[Step]) -> None:
    """Adds the rules that fired, in order, with the action before and after each."""
    response.fired_rules.extend(
        triage_pb2.FiredRule(
            rule_id=step.rule.rule_id,
            reason=step.rule.reason,
            from_action=WIRE_NUMBERS[step.before],
            to_action=WIRE_NUMBERS[step.after],
        )
        for step in steps
    )


def _codes(evidence: Sequence[triage_pb2.Evidence], statuses: Sequence[int], status: int) -> list[bytes]:
    """Returns the codes of one status, without running a line of Python per piece of evidence."""
    return list(map(str.encode, map(_CODE, compress(evidence, map(status.__eq__, statuses)))))


def questions_asked(state: triage_pb2.EvidenceState) -> int:
    """Returns the number of questions for a signature: beyond any limit if the model must triage now."""
    own_limit = state.max_questions if state.max_questions > 0 else NO_QUESTIONS_LEFT
    forced = is_forced(state.questions_asked, own_limit, state.no_more_evidence)
    return NO_QUESTIONS_LEFT if forced else state.questions_asked
