"""JSON in the bodies of requests: limits before it is read, one fault where it is wrong, and no key twice.

Reading a body that is within the limits blocks other calls for 30 ms at most.
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

from schemas.errors import InputError
from schemas.text_file import BYTE_ORDER_MARK
from serving.errors import Fault, FaultyRequestError
from triage_runtime.case import MOST, whole_number

MOST_VALUES = 400_000
"""Strings, or values between commas, in a body."""
MOST_NESTED = 32_768
"""Lists and objects in a body, or keys in all its objects."""


class Whole(int):
    """A whole number that a message can hold, in JSON perhaps 3.0. The service refuses negative ones, and says why."""


_Kind = TypeVar("_Kind")
_NAMES = {
    "array": "a list", "object": "an object", "str": "a text", "int": "a whole number", "float": "a number",
    "bool": "true or false",
}  # fmt: skip
_INVALID = re.compile(r"(?P<text>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<name>\w+)(?: \| null)?`(?P<limit> [^,]*)?")
_KEY = re.compile(rb'"\s*:')
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"\s*(:)?', re.DOTALL)


def reader(kind: type[_Kind], each: str = "", item: type[msgspec.Struct] = msgspec.Struct) -> Callable[[bytes], _Kind]:
    """Returns a function that reads JSON as a kind of object, whose optional fields are UNSET by default.

    It raises InputError where the body is not JSON or too large, and FaultyRequestError where it is another object.
    A byte order mark is skipped.

    Args:
        kind: the class of the object, a Struct, or Any.
        each: its field with a list of objects, "" for none. They are read one by one, so that other calls run between.
        item: what kind these are.
    """
    outline: Any = kind
    if each:
        outline = msgspec.defstruct(
            kind.__name__, [(each, list[msgspec.Raw])], bases=(kind,), kw_only=True, forbid_unknown_fields=True
        )
    decoder = msgspec.json.Decoder(outline, dec_hook=_whole)
    decode_item = msgspec.json.Decoder(item, dec_hook=_whole).decode

    def read(content: bytes) -> _Kind:
        content = content.removeprefix(BYTE_ORDER_MARK)
        _check_size(content)
        place = ""
        try:
            body: _Kind = decoder.decode(content)
            items = getattr(body, each) if each else []
            for number, raw in enumerate(items):
                place = f"{each}[{number}]"
                items[number] = decode_item(raw)
            _check_keys(content, body)
        except msgspec.ValidationError as error:
            raise FaultyRequestError([_fault(error, place)]) from None
        except _NOT_JSON as error:
            raise _not_json(error) from None
        return body

    return read


def given(body: msgspec.Struct | msgspec.UnsetType | None) -> dict[str, Any]:
    """Returns the fields that a body, or an object in it, states: null states nothing."""
    return {name: value for name, value in _fields(body).items() if value is not None}


def _fields(body: Any) -> dict[str, Any]:
    if not isinstance(body, msgspec.Struct):
        return {}
    return {name: value for name, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET}


def _whole(kind: type, value: Any) -> Any:
    negative = type(value) is int and value < 0
    return kind(whole_number(value, least=-MOST - 1 if negative else 0))


def _check_size(content: bytes) -> None:
    values = max(content.count(b","), content.count(b'"') // 2)
    nested = content.count(b"[") + content.count(b"{")
    keys = content.count(b":")
    if keys > MOST_NESTED:
        keys = sum(1 for _ in _KEY.finditer(content))
    if values > MOST_VALUES or nested > MOST_NESTED or keys > MOST_NESTED:
        raise InputError(
            f"the body holds more than {MOST_VALUES} values, or {MOST_NESTED} lists, objects or keys: send fewer "
            "states in a call"
        )


def _check_keys(content: bytes, body: Any) -> None:
    """Raises InputError if JSON that was read as `body` has a key twice in one object."""
    if sum(1 for string in _STRING.finditer(content) if string[1]) != _keys(body):
        raise InputError("the body has a key twice in one object: give each key once")


def _keys(body: Any) -> int:
    """Returns the number of keys in all objects of a body."""
    if isinstance(body, list):
        return sum(_keys(each) for each in body if not isinstance(each, str))
    values = body if isinstance(body, dict) else _fields(body)
    return len(values) + sum(map(_keys, values.values()))


def _fault(error: msgspec.ValidationError, place: str) -> Fault:
    match = _INVALID.fullmatch(str(error))
    assert match is not None  # noqa: S101 (it matches any text)
    text, path = match["text"], ".".join(filter(None, (place, match["path"])))[:200]
    field = f"{path}.{text.partition('`')[2].rstrip('`')[:200]}".lstrip(".")
    if text.startswith("Object contains unknown field"):
        return Fault(field, "no such field: /openapi.json lists the fields", "UNKNOWN_FIELD")
    if text.startswith("Object missing required field"):
        return Fault(field, "missing", "MISSING_FIELD")
    expected = _EXPECTED.match(text)
    description = text if expected is None else f"expected {_NAMES[expected['name']]}{expected['limit'] or ''}"
    return Fault(path or "body", description, "WRONG_TYPE")


def _not_json(error: Exception) -> InputError:
    text = type(error).__name__ if isinstance(error, (RecursionError, UnicodeError)) else str(error)
    return InputError(f"the body is not JSON: {text[:200]}")


read_json = reader(cast("type[Any]", Any))
"""Returns what JSON holds, as `reader` says."""
