"""`triage.v1` messages from Python values, and back. Needs no TensorFlow."""

from collections.abc import Iterable
from typing import Any

from schemas.triage import Action
from triage.v1 import triage_pb2

WIRE_ACTIONS = (
    triage_pb2.TRIAGE_ACTION_RED,
    triage_pb2.TRIAGE_ACTION_YELLOW,
    triage_pb2.TRIAGE_ACTION_GREEN,
    triage_pb2.TRIAGE_ACTION_BLUE,
    triage_pb2.TRIAGE_ACTION_ASK,
)
"""The TriageAction of each `schemas.triage.Action`, whose numbers begin at 0; 0 on the wire means "unspecified"."""


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
