"""Parses requests, unless they may hold too many messages.

protobuf makes an object for each, in one go during which no other call runs: 4 MiB can hold two million empty ones.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from schemas.errors import InputError

MOST_MESSAGES = 900_000
"""Bytes in a request that may be tags of messages: each message has one before it, and takes 20 to 60 ns to parse.

Three bytes of a piece of evidence may look so, where its code has ten letters; 4 MiB of such pieces have 786,240.
"""
_MAP_ENTRY = 16  # messages take as long to parse as one entry of a map, whose key is looked up
_BYTES = 2  # wire type


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
    """Refuses a request in which more messages may be nested than any caller needs.

    Raises:
        InputError: there may be more than `MOST_MESSAGES`; an entry of a map counts as several.
    """
    if sum(data.count(tag) * weight for tag, weight in _tags(kind.DESCRIPTOR).items()) > MOST_MESSAGES:
        raise InputError(
            f"the request may hold more than {MOST_MESSAGES} messages, each piece of evidence being one or more: send "
            "fewer states in a call"
        )


@functools.cache
def _tags(descriptor: Descriptor) -> Mapping[bytes, int]:
    """Returns the last bytes of all tags that messages can have within a message of a kind, with their weights."""
    tags: dict[bytes, int] = {}
    known, left = {descriptor.full_name}, [descriptor]
    while left:
        for field in left.pop().fields:
            nested = field.message_type
            if nested is None:
                continue
            tag = _last_byte(field.number << 3 | _BYTES)
            tags[tag] = max(tags.get(tag, 0), _MAP_ENTRY if nested.GetOptions().map_entry else 1)
            if nested.full_name not in known:
                known.add(nested.full_name)
                left.append(nested)
    return tags


def _last_byte(tag: int) -> bytes:
    while tag > 127:
        tag >>= 7
    return bytes([tag])
