"""Evidence states in JSON, and where a fault in one stands.

A state is `{"present": ["chest_pain"], "absent": ["fever"], "questions_asked": 3}`; further fields are those of
`triage.v1.EvidenceState`.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from serving.errors import Fault, FaultyRequestError
from serving.messages import state_message
from triage.v1 import triage_pb2

_CODES = ("present", "absent")
_NUMBERS = ("questions_asked", "max_questions")
_FLAGS = ("no_more_evidence",)
STATE_FIELDS = (*_CODES, *_NUMBERS, *_FLAGS)
"""The fields of a state."""
_PATH = re.compile(r"state(s\[(?P<number>\d+)\])?\.(evidence\[(?P<piece>\d+)\](\.\w+)?|(?P<field>\w+))")
_LARGEST = 2**31 - 1
_SURROGATE = re.compile("[\ud800-\udfff]")


def check_fields(body: Any, allowed: Sequence[str], path: str = "") -> Mapping[str, Any]:
    """Returns an object that has no other fields than `allowed`.

    Raises:
        FaultyRequestError: it is no object, or has another field.
    """
    if not isinstance(body, dict):
        raise FaultyRequestError([Fault(path or "body", "expected an object", "WRONG_TYPE")])
    faults = [
        Fault(f"{path}.{name}".lstrip(".")[:200], f"no such field: expected {', '.join(allowed)}", "UNKNOWN_FIELD")
        for name in body
        if name not in allowed
    ]
    if faults:
        raise FaultyRequestError(faults[:10], more=len(faults) > 10)
    return body


def read_state(body: Any, path: str = "", more_fields: Sequence[str] = ()) -> triage_pb2.EvidenceState:
    """Returns the state in a JSON object.

    Args:
        body: the object.
        path: its place in the request, for messages; "" for the body itself.
        more_fields: further fields that the object may have.

    Raises:
        FaultyRequestError: a field is unknown or of another type.
    """
    fields = check_fields(body, (*STATE_FIELDS, *more_fields), path)
    begin = f"{path}." if path else ""
    values: dict[str, Any] = {}
    for name in _CODES:
        values[name] = read_codes(fields, name, begin)
    for name in _NUMBERS:
        values[name] = read_number(fields, name, begin)
    for name in _FLAGS:
        values[name] = read_flag(fields, name, begin)
    return state_message(**values)


def read_codes(fields: Mapping[str, Any], name: str, begin: str = "") -> list[str]:
    """Returns a field that is a list of codes, by default none; raises FaultyRequestError for any other value."""
    codes = fields.get(name, [])
    if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
        raise FaultyRequestError([Fault(f"{begin}{name}", "expected a list of codes", "WRONG_TYPE")])
    if any(_SURROGATE.search(code) for code in codes):  # half of a pair, which messages cannot hold
        raise FaultyRequestError([Fault(f"{begin}{name}", "codes are not Unicode", "WRONG_TYPE")])
    return codes


def read_number(fields: Mapping[str, Any], name: str, begin: str = "") -> int:
    """Returns a field that is an int32, by default 0; raises FaultyRequestError for any other value."""
    number = fields.get(name, 0)
    if type(number) is not int or not -_LARGEST <= number <= _LARGEST:
        raise FaultyRequestError([Fault(f"{begin}{name}", "expected a whole number", "WRONG_TYPE")])
    return number


def read_flag(fields: Mapping[str, Any], name: str, begin: str = "") -> bool:
    """Returns a field that is true or false, by default false; raises FaultyRequestError for any other value."""
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise FaultyRequestError([Fault(f"{begin}{name}", "expected true or false", "WRONG_TYPE")])
    return value


def read_text(fields: Mapping[str, Any], name: str, begin: str = "") -> str:
    """Returns a field that is a text, by default ""; raises FaultyRequestError for any other value."""
    value = fields.get(name, "")
    if not isinstance(value, str) or _SURROGATE.search(value):
        raise FaultyRequestError([Fault(f"{begin}{name}", "expected a text", "WRONG_TYPE")])
    return value


def in_json(error: FaultyRequestError, bodies: Sequence[Mapping[str, Any]], list_name: str) -> FaultyRequestError:
    """Returns the same faults with paths in the JSON body instead of the message.

    Args:
        error: of `serving.triage.validation`.
        bodies: the objects of the states.
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
        piece, present = int(match["piece"]), len(bodies[number].get("present", ()))
        place = f"present[{piece}]" if piece < present else f"absent[{piece - present}]"
        return dataclasses.replace(fault, field=begin + place)

    return FaultyRequestError([moved(fault) for fault in error.faults], str(error).endswith("; and more"))
