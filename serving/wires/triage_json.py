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
from serving.wires.json_body import given
from triage.v1 import triage_pb2

_PATH = re.compile(r"state(s\[(?P<number>\d+)\])?\.(evidence\[(?P<piece>\d+)\](\.\w+)?|(?P<field>\w+))")
_INT32 = Meta(ge=-(2**31), le=2**31 - 1)  # what a message holds; the service refuses negative numbers, and says why
_SHARE = Meta(extra_json_schema={"minimum": 0, "maximum": 1})
_SUGGESTED = f"questions to suggest, 0 to {MOST_QUESTIONS}: by default 0, in an interview 1 if the model can choose any"

_Code = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_CODE_LENGTH})]
_Codes = Annotated[list[_Code], Meta(description="codes of the vocabulary")]
_NotToAsk = Annotated[list[str], Meta(description="codes not to ask about, such as what the patient could not tell")]
_QuestionsAsked = Annotated[
    int, _INT32, Meta(description="questions so far, from 0; at the limit the agent must triage")
]
_MaxQuestions = Annotated[int, _INT32, Meta(description="limit on questions, from 0, which means the model's own")]
_NoMoreEvidence = Annotated[bool, Meta(description="nobody can answer another question: the agent must triage")]
_AllowUnknownCodes = Annotated[bool, Meta(description="ignore codes that the model does not know")]
_Questions = Annotated[int, _INT32, Meta(description=_SUGGESTED)]
_Model = Annotated[str, Meta(description="name of the model; by default the first one of the server")]
_DeferBelow = Annotated[
    float, _SHARE, Meta(description="hand over to a person what is novel, contradictory or has a lower P(safe)")
]
_CanMeasure = Annotated[bool, Meta(description="whether questions may be about what takes an instrument")]
_Explain = Annotated[bool, Meta(description="say why: takes some further runs of the model")]


class State(Struct, forbid_unknown_fields=True):
    """An evidence state."""

    present: _Codes | UnsetType = UNSET
    absent: _Codes | UnsetType = UNSET
    questions_asked: _QuestionsAsked | UnsetType = UNSET
    max_questions: _MaxQuestions | UnsetType = UNSET
    no_more_evidence: _NoMoreEvidence | UnsetType = UNSET


class Patient(State, forbid_unknown_fields=True):
    """A single state, and what is asked for beside it."""

    allow_unknown_codes: _AllowUnknownCodes | UnsetType = UNSET
    questions: _Questions | UnsetType = UNSET
    model: _Model | UnsetType = UNSET
    not_to_ask: _NotToAsk | UnsetType = UNSET
    explain: _Explain | UnsetType = UNSET
    defer_below: _DeferBelow | UnsetType = UNSET
    can_measure: _CanMeasure | UnsetType = UNSET


class Parameters(Struct, forbid_unknown_fields=True):
    """What is asked for beside several states."""

    allow_unknown_codes: _AllowUnknownCodes | UnsetType = UNSET
    questions: _Questions | UnsetType = UNSET
    model: _Model | UnsetType = UNSET
    defer_below: _DeferBelow | UnsetType = UNSET
    can_measure: _CanMeasure | UnsetType = UNSET


class Batch(Parameters, forbid_unknown_fields=True, kw_only=True):
    """Several states, and what is asked for beside them."""

    states: list[State]


class Instances(Struct, forbid_unknown_fields=True):
    """A prediction request of Vertex AI."""

    instances: list[State]
    parameters: Parameters | UnsetType | None = UNSET


def to_message(state: State) -> triage_pb2.EvidenceState:
    """Returns a state as a message."""
    fields = given(state)
    return state_message(**{name: fields[name] for name in State.__struct_fields__ if name in fields})


def in_json(error: FaultyRequestError, states: Sequence[State], list_name: str) -> FaultyRequestError:
    """Returns the same faults with paths in the JSON body instead of the message.

    Args:
        error: of `serving.service.validation`.
        states: those of the body.
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
