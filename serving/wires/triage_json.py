"""The bodies of our own API, which are the schemas of its requests too, and where a fault in one stands.

A state is `{"present": ["chest_pain"], "absent": ["fever"], "questions_asked": 3}`; further fields are those of
`triage.v1.EvidenceState`.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from schemas.evidence import MAX_CODE_LENGTH
from schemas.features import MOST_QUESTIONS
from serving.errors import Fault, FaultyRequestError
from serving.messages import state_message
from serving.wires.json_body import Whole, given
from triage.v1 import triage_pb2

_PATH = re.compile(r"state(s\[(?P<number>\d+)\])?\.(evidence\[(?P<piece>\d+)\](\.\w+)?|(?P<field>\w+))")
_SHARE = Meta(extra_json_schema={"minimum": 0, "maximum": 1})
_SUGGESTED = f"questions to suggest, 0 to {MOST_QUESTIONS}: by default 0, in an interview 1 if the model can choose any"
_NO_MORE = "no more questions can be answered: the agent must triage"
_PERSON = "hand over to a person if the case is novel or contradictory, or P(safe) is lower"

_Left = UnsetType | None
"""Of a field that may be left out; null is the same."""
_Code = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_CODE_LENGTH})]
_Codes = Annotated[list[_Code], Meta(description="codes of the vocabulary")] | _Left
_NotToAsk = Annotated[list[str], Meta(description="codes not to ask about, because nobody knows")] | _Left
_QuestionsAsked = Annotated[Whole, Meta(description="questions so far; at the limit the agent must triage")] | _Left
_MaxQuestions = Annotated[Whole, Meta(description="limit on questions; 0 means the model's own")] | _Left
_NoMoreEvidence = Annotated[bool, Meta(description=_NO_MORE)] | _Left
_AllowUnknownCodes = Annotated[bool, Meta(description="ignore codes that the model does not know")] | _Left
_Questions = Annotated[Whole, Meta(description=_SUGGESTED, extra_json_schema={"maximum": MOST_QUESTIONS})] | _Left
_Model = Annotated[str, Meta(description="name of the model; by default the first one of the server")] | _Left
_DeferBelow = Annotated[float, _SHARE, Meta(description=_PERSON)] | _Left
_CanMeasure = Annotated[bool, Meta(description="whether questions may need an instrument")] | _Left
_Explain = Annotated[bool, Meta(description="explain the decision: takes some further runs of the model")] | _Left


class State(Struct, forbid_unknown_fields=True):
    """An evidence state."""

    present: _Codes = UNSET
    absent: _Codes = UNSET
    questions_asked: _QuestionsAsked = UNSET
    max_questions: _MaxQuestions = UNSET
    no_more_evidence: _NoMoreEvidence = UNSET


class Patient(State, forbid_unknown_fields=True):
    """A single state, and what is asked for beside it."""

    allow_unknown_codes: _AllowUnknownCodes = UNSET
    questions: _Questions = UNSET
    model: _Model = UNSET
    not_to_ask: _NotToAsk = UNSET
    explain: _Explain = UNSET
    defer_below: _DeferBelow = UNSET
    can_measure: _CanMeasure = UNSET


class Parameters(Struct, forbid_unknown_fields=True):
    """What is asked for beside several states."""

    allow_unknown_codes: _AllowUnknownCodes = UNSET
    questions: _Questions = UNSET
    model: _Model = UNSET
    defer_below: _DeferBelow = UNSET
    can_measure: _CanMeasure = UNSET


class Batch(Parameters, forbid_unknown_fields=True, kw_only=True):
    """Several states, and what is asked for beside them."""

    states: list[State]


class Instances(Struct, forbid_unknown_fields=True):
    """A prediction request of Vertex AI."""

    instances: list[State]
    parameters: Parameters | _Left = UNSET


def to_message(state: State) -> triage_pb2.EvidenceState:
    """Returns a state as a message."""
    fields = given(state)
    return state_message(**{name: fields[name] for name in State.__struct_fields__ if name in fields})


def in_json(error: FaultyRequestError, states: Sequence[State], list_name: str) -> FaultyRequestError:
    """Returns the same faults with paths in the JSON body instead of the message.

    Args:
        error: the faults that `serving.service.validation` found.
        states: the states in the body.
        list_name: name of the list that holds them, "" if the body is the only state.
    """

    def moved(fault: Fault) -> Fault:
        if fault.field == "states":
            return dataclasses.replace(fault, field=list_name)
        match = _PATH.fullmatch(fault.field)
        if match is None:
            return fault
        number = int(match["number"] or 0)
        begin = f"{list_name}[{number}]." if list_name else ""
        if match["field"]:
            field = match["field"] if match["field"] != "evidence" else "present"
            return dataclasses.replace(fault, field=begin + field)
        piece, present = int(match["piece"]), len(given(states[number]).get("present", ()))
        place = f"present[{piece}]" if piece < present else f"absent[{piece - present}]"
        return dataclasses.replace(fault, field=begin + place)

    return FaultyRequestError([moved(fault) for fault in error.faults], str(error).endswith("; and more"))
