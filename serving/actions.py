"""Actions on the wire. Needs no TensorFlow."""

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
    """Returns the name of a TriageAction, as schemas.triage spells it; the wire's numbers begin one later.

    Raises:
        ValueError: it is none of the five actions.
    """
    return Action(action - triage_pb2.TRIAGE_ACTION_RED).label
