"""The actions as they travel on the wire. Needs no TensorFlow."""

from schemas.triage import Action
from triage.v1 import triage_pb2


def action_label(action: int) -> str:
    """Returns the name of a TriageAction, as schemas.triage spells it; the wire's numbers begin one later.

    Raises:
        ValueError: it is none of the five actions.
    """
    return Action(action - triage_pb2.TRIAGE_ACTION_RED).label
