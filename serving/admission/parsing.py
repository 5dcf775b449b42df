"""Parses requests, after counting the messages within those that may hold many.

protobuf makes an object for each, in one go during which no other call runs: 4 MiB can hold two million empty ones.
Counting them in Python takes longer, but lets other calls run meanwhile; nearly all requests need no exact count.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from schemas.errors import InputError

MOST_MESSAGES = 450_000
"""Messages in one request: parsing takes 20 to 60 ns for each, 9 to 27 ms for all.

A piece of evidence takes 10 bytes or more, where codes have four letters; 4 MiB then hold 419,430.
"""
_MAP_ENTRY = 16  # messages take as long to parse as one entry of a map, whose key is looked up
_VARINT, _BYTES = 0, 2  # wire types
_FIXED = {1: 8, 5: 4}  # the sizes of others; groups have none


class _Nested(NamedTuple):
    """A field that holds messages."""

    weight: int
    descriptor: Descriptor


def parse(deserializer: Callable[[bytes], Any], data: bytes) -> Any:
    """Returns the message in `data`.

    Raises:
        InputError: it cannot be parsed.
    """
    try:
        return deserializer(data)
    except DecodeError as error:
        raise InputError(
            "the request cannot be parsed: send a message of this method's request type in the .proto file"
        ) from error


def parse_large(deserializer: Callable[[bytes], Any], data: bytes) -> Any:
    """Returns the message in `data`, as `parse`, unless it would hold too many others."""
    kind = getattr(deserializer, "__self__", None)  # of what generated code hands over, the method of a class
    if isinstance(kind, type) and issubclass(kind, Message):
        check_nesting(kind, data)
    return parse(deserializer, data)


def check_nesting(kind: type[Message], data: bytes) -> None:
    """Refuses a request in which more messages are nested than any caller needs.

    Args:
        kind: what `data` would be parsed as. Malformed data passes, as parsing stops where they do.
        data: the request.

    Raises:
        InputError: there are more than `MOST_MESSAGES`; an entry of a map counts as several.
    """
    tags = _tags(kind.DESCRIPTOR)
    if sum(data.count(tag) * weight for tag, weight in tags.items()) <= MOST_MESSAGES:
        return  # each message has its tag before it, so there are at most as many
    total = 0
    for weight in _weights(kind.DESCRIPTOR, data):
        total += weight
        if total > MOST_MESSAGES:
            raise InputError(
                f"the request holds more than {MOST_MESSAGES} messages, each piece of evidence being one: send fewer "
                "states in a call"
            )


@functools.cache
def _tags(descriptor: Descriptor) -> Mapping[bytes, int]:
    """Returns the last bytes of all tags that messages can have within a message of a kind, with their weights."""
    tags: dict[bytes, int] = {}
    known, left = {descriptor.full_name}, [descriptor]
    while left:
        for number, nested in _fields(left.pop()).items():
            tag = _last_byte(number << 3 | _BYTES)
            tags[tag] = max(tags.get(tag, 0), nested.weight)
            if nested.descriptor.full_name not in known:
                known.add(nested.descriptor.full_name)
                left.append(nested.descriptor)
    return tags


def _last_byte(tag: int) -> bytes:
    while tag > 127:
        tag >>= 7
    return bytes([tag])


@functools.cache
def _fields(descriptor: Descriptor) -> Mapping[int, _Nested]:
    """Returns the fields of a kind of message that hold messages, by their numbers."""
    return {
        field.number: _Nested(_MAP_ENTRY if field.message_type.GetOptions().map_entry else 1, field.message_type)
        for field in descriptor.fields
        if field.type == FieldDescriptor.TYPE_MESSAGE
    }


def _weights(descriptor: Descriptor, data: bytes) -> Iterator[int]:
    """Yields the weight of each field of the messages that may hold others, as far as `data` are well formed."""
    left = [(descriptor, 0, len(data))]
    while left:
        kind, place, end = left.pop()
        fields = _fields(kind)
        while place < end:
            tag, place = _varint(data, place)
            weight = 1
            if tag & 7 == _BYTES:
                size, place = _varint(data, place)
                nested = fields.get(tag >> 3)
                if nested is not None:
                    weight = nested.weight
                    if _fields(nested.descriptor):
                        left.append((nested.descriptor, place, min(place + size, end)))
                place += size
            elif tag & 7 == _VARINT:
                _, place = _varint(data, place)
            else:
                place += _FIXED.get(tag & 7, 0)
            yield weight


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Returns the number at a place, and the place behind it."""
    byte = data[place] if place < len(data) else 0
    if byte < 128:
        return byte, place + 1
    number = byte & 127
    for shift in range(7, 70, 7):
        place += 1
        byte = data[place] if place < len(data) else 0
        number |= (byte & 127) << shift
        if byte < 128:
            break
    return number, place + 1
