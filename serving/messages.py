"""`triage.v1` messages from Python values, and back. Needs no TensorFlow."""

from collections.abc import Iterable
from typing import Any

from schemas.triage import action_on_wire
from triage.v1 import triage_pb2


def action_label(action: int) -> str:
    """Returns the name of a TriageAction, as `schemas.triage` spells it.

    Raises:
        ValueError: it is none of the five actions.
    """
    return action_on_wire(action).label


MOST_EXPLAINED = 64
"""Pieces of evidence of a state that can be explained: a run of the model for each is too much for more."""
LEAST_SUPPORT = 0.005
"""Change of a probability below which a piece speaks neither for a decision nor against it."""


def state_message(
    present: Iterable[str] = (), absent: Iterable[str] = (), questions_asked: int = 0, **fields: Any
) -> triage_pb2.EvidenceState:
    """Returns an evidence state with the codes in `present` before those in `absent`; `fields` sets other fields."""
    statuses = ((present, triage_pb2.EVIDENCE_STATUS_PRESENT), (absent, triage_pb2.EVIDENCE_STATUS_ABSENT))
    evidence = [triage_pb2.Evidence(code=code, status=status) for codes, status in statuses for code in codes]
    return triage_pb2.EvidenceState(evidence=evidence, questions_asked=questions_asked, **fields)


DEFERRALS: dict[Any, str] = {
    triage_pb2.DEFERRAL_REASON_CONTRADICTORY: "the evidence contradicts itself",
    triage_pb2.DEFERRAL_REASON_NOVEL: "the evidence is unlike anything seen in training",
    triage_pb2.DEFERRAL_REASON_UNSURE: "no decision is safe enough",
}
"""Why a case is handed over, for people to read, by the DeferralReason of the server's package or of the client's."""


MEANINGS = {
    "Red": "immediate attention",
    "Yellow": "within the next hours",
    "Green": "to be seen, not urgently",
    "Blue": "self-care or a pharmacy",
}
"""What the four decisions mean, as in triage.proto."""


ANSWERS = ("Yes", "No", "Don\N{RIGHT SINGLE QUOTATION MARK}t know")
"""What a patient answers: present, absent or not known."""
IN_DANGER = "If somebody may be in danger, call the emergency number now."
"""What somebody is told whose words are not understood."""


def speaks(effect: Any, best_triage: int) -> str:
    """Returns whether a piece of evidence speaks "for" the decision `best_triage` or "against" it; "" where neither.

    It is "unclear" where the server says so, by no support for a piece that has an effect.
    """
    if effect.effect and not effect.support:
        return "unclear"
    if effect.best_triage_without != best_triage or effect.support >= LEAST_SUPPORT:
        return "for"
    return "against" if effect.support <= -LEAST_SUPPORT else ""


def codes_of(state: triage_pb2.EvidenceState) -> tuple[list[str], list[str]]:
    """Returns the codes that are present in an evidence state, and those that are absent."""
    statuses = (triage_pb2.EVIDENCE_STATUS_PRESENT, triage_pb2.EVIDENCE_STATUS_ABSENT)
    present, absent = ([piece.code for piece in state.evidence if piece.status == status] for status in statuses)
    return present, absent
