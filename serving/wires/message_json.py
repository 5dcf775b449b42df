"""Messages of `triage.v1` as JSON, and the schema of that JSON, both by the fields of the .proto file.

JSON has the fields of a message by their names but for a few, null for one that is not set. Values of enums have the
names that vocabularies and `schemas.triage` have for them. Messages about actions, such as Q-values, are one object by
action, and the piece of evidence of another message is two fields of it.
"""

import functools
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from serving.messages import action_label
from triage.v1 import triage_pb2, triage_service_pb2

_ACTION = triage_pb2.TriageAction.DESCRIPTOR.name
_BY_ACTION = (triage_pb2.QValue.DESCRIPTOR.name, triage_pb2.DecisionProbability.DESCRIPTOR.name)
_INLINE = triage_pb2.Evidence.DESCRIPTOR.name
_LEFT_OUT = {
    "GetModelInfoResponse.manifest_json", "SafetyRule.urgency", "SafetyRule.stops_asking", "SafetyRule.source"
}  # fmt: skip

Read = Callable[[Any], Any]
"""From a message to what JSON has of one of its fields."""


@functools.cache
def names_of(enum: EnumDescriptor) -> dict[Any, str]:
    """Returns the name in JSON of each value of an enum but for "unspecified", such as "red_flag"."""
    prefix = re.sub("(?<=[a-z])(?=[A-Z])", "_", enum.name).upper() + "_"
    values = {value.number: value.name.removeprefix(prefix).lower() for value in enum.values if value.number}
    return {number: action_label(number) for number in values} if enum.name == _ACTION else values


EVIDENCE_KINDS = names_of(triage_service_pb2.EvidenceKind.DESCRIPTOR)
"""The name in a vocabulary, and in JSON, of each EvidenceKind."""
STATUSES = names_of(triage_pb2.EvidenceStatus.DESCRIPTOR)
"""The name in JSON of each EvidenceStatus."""


def message_figures(message: Any) -> dict[str, Any]:
    """Returns a message, of the server's package or of the client's, as JSON can hold it."""
    figures: dict[str, Any] = {}
    for name, read in _readers(message.DESCRIPTOR):
        figures |= read(message) if name is None else {name: read(message)}
    return figures


@functools.cache
def _readers(message: Descriptor) -> tuple[tuple[str | None, Read], ...]:
    """Returns the name in JSON of each field of a message, None for one that is several there, and what reads it."""
    return tuple((None if _is_inline(field) else field.name, _reader(field)) for field in _fields(message))


def _fields(message: Descriptor) -> list[FieldDescriptor]:
    return [field for field in message.fields if f"{message.name}.{field.name}" not in _LEFT_OUT]


def _reader(field: FieldDescriptor) -> Read:
    name = field.name
    get: Read = operator.attrgetter(name)
    if _is_by_action(field):
        return _read_by_action(field)
    each: Read | None = None
    if field.enum_type:
        each = names_of(field.enum_type).get  # None for "unspecified"
    elif field.message_type:
        each = message_figures
    if _is_repeated(field):
        return lambda message: [*map(each, get(message))] if each else [*get(message)]
    if _is_inline(field) or not field.has_presence:
        return (lambda message: each(get(message))) if each else get
    return lambda message: (each(get(message)) if each else get(message)) if message.HasField(name) else None


def _read_by_action(field: FieldDescriptor) -> Read:
    """Returns what reads the value of each action, or the values by name, where a message has several."""
    messages = operator.attrgetter(field.name)
    action, *names = (each.name for each in field.message_type.fields)
    labels, values = names_of(field.message_type.fields[0].enum_type), operator.attrgetter(action, *names)
    if len(names) == 1:
        return lambda message: {labels[number]: value for number, value in map(values, messages(message))}
    return lambda message: {
        labels[number]: dict(zip(names, each, strict=True)) for number, *each in map(values, messages(message))
    }


def schema(message: Descriptor, meanings: Mapping[str, str], references: Mapping[str, str]) -> dict[str, Any]:
    """Returns the JSON schema of a message.

    `meanings` are descriptions of fields, by names such as "TriageResponse.forced", and `references` schemas to refer
    to, by the name of the message.
    """
    properties: dict[str, Any] = {}
    for field in _fields(message):
        kind = _kind(field, meanings, references)
        if _is_inline(field):
            properties |= kind["properties"]
            continue
        if field.has_presence:
            plain = kind.keys() == {"type"}
            kind = {"type": [kind["type"], "null"]} if plain else {"anyOf": [kind, {"type": "null"}]}
        meaning = meanings.get(f"{message.name}.{field.name}")
        properties[field.name] = kind | ({"description": meaning} if meaning else {})
    return {"type": "object", "properties": properties, "required": [*properties]}


def _kind(field: FieldDescriptor, meanings: Mapping[str, str], references: Mapping[str, str]) -> dict[str, Any]:
    if _is_by_action(field):
        values: dict[str, Any] = {"type": "number"}
        _, *names = (each.name for each in field.message_type.fields)
        if len(names) > 1:
            values = {"type": "object", "properties": dict.fromkeys(names, values)}
        return {"type": "object", "additionalProperties": values}
    one: dict[str, Any]
    if field.message_type and field.message_type.name in references:
        one = {"$ref": references[field.message_type.name]}
    elif field.message_type:
        one = schema(field.message_type, meanings, references)
    elif field.enum_type:
        one = {"type": "string", "enum": [*names_of(field.enum_type).values()]}
    else:
        one = {"type": _TYPES[field.cpp_type]}
    return {"type": "array", "items": one} if _is_repeated(field) else one


_TYPES = {
    FieldDescriptor.CPPTYPE_STRING: "string",
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_INT32: "integer",
    FieldDescriptor.CPPTYPE_FLOAT: "number",
}


def _is_repeated(field: FieldDescriptor) -> bool:
    repeated: bool = field.default_value == []  # `label` and `is_repeated` are not in all releases of protobuf
    return repeated


def _is_by_action(field: FieldDescriptor) -> bool:
    return _is_repeated(field) and field.message_type is not None and field.message_type.name in _BY_ACTION


def _is_inline(field: FieldDescriptor) -> bool:
    """Whether a field is the piece of evidence that its message is about."""
    return field.message_type is not None and field.message_type.name == _INLINE and not _is_repeated(field)
