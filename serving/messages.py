"""`triage.v1` messages from Python values, and back. Needs no TensorFlow."""

from collections.abc import Iterable
from typing import Any

from schemas.triage import Action
from triage.v1 import triage_pb2, triage_service_pb2

WIRE_ACTIONS = (
    triage_pb2.TRIAGE_ACTION_RED,
    triage_pb2.TRIAGE_ACTION_YELLOW,
    triage_pb2.TRIAGE_ACTION_GREEN,
    triage_pb2.TRIAGE_ACTION_BLUE,
    triage_pb2.TRIAGE_ACTION_ASK,
)
"""The TriageAction of each `schemas.triage.Action`, whose numbers begin at 0; 0 on the wire means "unspecified"."""
QUESTION_REASONS = {
    triage_pb2.QUESTION_REASON_INFORMATION: "information",
    triage_pb2.QUESTION_REASON_RED_FLAG: "red_flag",
}
"""The name in JSON of each QuestionReason."""
EVIDENCE_KINDS = {
    triage_service_pb2.EVIDENCE_KIND_SYMPTOM: "symptom",
    triage_service_pb2.EVIDENCE_KIND_RISK_FACTOR: "risk_factor",
}
"""The name in a vocabulary, and in JSON, of each EvidenceKind."""
MOST_EXPLAINED = 64
"""Pieces of evidence of a state that can be explained: a run of the model for each is too much for more."""
LEAST_SUPPORT = 0.005
"""Change of a probability below which a piece speaks neither for a decision nor against it."""
STATUSES = {triage_pb2.EVIDENCE_STATUS_PRESENT: "present", triage_pb2.EVIDENCE_STATUS_ABSENT: "absent"}
"""The name in JSON of each EvidenceStatus."""


def action_label(action: int) -> str:
    """Returns the name of a TriageAction, as `schemas.triage` spells it.

    Raises:
        ValueError: it is none of the five actions.
    """
    return Action(action - triage_pb2.TRIAGE_ACTION_RED).label


def state_message(
    present: Iterable[str] = (), absent: Iterable[str] = (), questions_asked: int = 0, **fields: Any
) -> triage_pb2.EvidenceState:
    """Returns an evidence state with the codes in `present` before those in `absent`; `fields` sets other fields."""
    statuses = ((present, triage_pb2.EVIDENCE_STATUS_PRESENT), (absent, triage_pb2.EVIDENCE_STATUS_ABSENT))
    evidence = [triage_pb2.Evidence(code=code, status=status) for codes, status in statuses for code in codes]
    return triage_pb2.EvidenceState(evidence=evidence, questions_asked=questions_asked, **fields)


def goes_on(response: Any) -> bool:
    """Returns whether an interview goes on after a TriageResponse, of the server's package or of the client's.

    It does while the model asks and, where the response suggests questions, one of them is worth more than it costs. It
    also does where one may raise a red flag, and the decision is not Red yet: the model may be sure enough of a less
    urgent decision before anybody asked.
    """
    questions = response.next_questions
    asks = response.action == triage_pb2.TRIAGE_ACTION_ASK and (
        not questions or any(question.worth_asking for question in questions)
    )
    flags = any(question.reason == triage_pb2.QUESTION_REASON_RED_FLAG for question in questions)
    open_flag = flags and response.best_triage != triage_pb2.TRIAGE_ACTION_RED
    return not response.forced and (asks or open_flag)


def speaks(effect: Any, best_triage: int) -> str:
    """Returns whether a piece of evidence speaks "for" the decision `best_triage` or "against" it; "" where neither.

    Args:
        effect: EvidenceEffect of the piece, of the server's package or of the client's.
        best_triage: the decision.
    """
    if effect.best_triage_without != best_triage or effect.support >= LEAST_SUPPORT:
        return "for"
    return "against" if effect.support <= -LEAST_SUPPORT else ""


def codes_of(state: triage_pb2.EvidenceState) -> tuple[list[str], list[str]]:
    """Returns the codes that are present in an evidence state, and those that are absent."""
    statuses = (triage_pb2.EVIDENCE_STATUS_PRESENT, triage_pb2.EVIDENCE_STATUS_ABSENT)
    present, absent = ([piece.code for piece in state.evidence if piece.status == status] for status in statuses)
    return present, absent


def answer_figures(response: Any) -> dict[str, Any]:
    """Returns a TriageResponse, of the server's package or of the client's, as JSON can hold it."""
    return {
        "action": action_label(response.action),
        "best_triage": action_label(response.best_triage),
        "q_values": {action_label(q_value.action): q_value.value for q_value in response.q_values},
        "probabilities": {
            action_label(each.decision): {"appropriate": each.appropriate, "safe": each.safe}
            for each in response.probabilities
        },
        "forced": response.forced,
        "unknown_codes": list(response.unknown_codes),
        "conflicting_codes": list(response.conflicting_codes),
        "fired_rules": [
            {
                "rule_id": rule.rule_id,
                "reason": rule.reason,
                "from_action": action_label(rule.from_action),
                "to_action": action_label(rule.to_action),
            }
            for rule in response.fired_rules
        ],
        "novelty": response.novelty if response.HasField("novelty") else None,
        "is_novel": response.is_novel,
        "model_version": response.model_version,
        "vocabulary_fingerprint": response.vocabulary_fingerprint,
        "next_questions": [
            {
                "code": question.code,
                "question": question.question,
                "expected_gain": question.expected_gain,
                "reason": QUESTION_REASONS[question.reason],
                "likely": question.likely,
                "worth_asking": question.worth_asking,
                "rationale": question.rationale,
            }
            for question in response.next_questions
        ],
        "explanation": _explanation(response.explanation) if response.HasField("explanation") else None,
    }


def _explanation(explanation: Any) -> dict[str, Any]:
    return {
        "effects": [
            {
                **_piece(each.evidence),
                "effect": each.effect,
                "best_triage_without": action_label(each.best_triage_without),
                "support": each.support,
            }
            for each in explanation.effects
        ],
        "sufficient": [_piece(each) for each in explanation.sufficient],
        "turning": [
            {**_piece(each.evidence), "best_triage": action_label(each.best_triage), "likely": each.likely}
            for each in explanation.turning
        ],
    }


def _piece(evidence: Any) -> dict[str, str]:
    return {"code": evidence.code, "status": STATUSES[evidence.status]}
