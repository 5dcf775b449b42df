"""A case as everything that takes one reads it: JSON, tables and Python values.

None (null) says nothing, a number without a fraction is a whole number, and a single text is no list of codes.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import Any

from schemas.errors import InputError, shown

MOST = 2**31 - 1
"""What a message can hold of a whole number."""
PRESENCE = {
    **dict.fromkeys(("present", "yes", "ja", "true", "wahr", "1", "1.0", "1,0", "+"), True),
    **dict.fromkeys(("absent", "no", "nein", "false", "falsch", "0", "0.0", "0,0", "-"), False),
}
"""Spellings of yes and no, in lower case; data frames with gaps turn 1 into 1.0, which some countries write 1,0."""


def read_codes(value: Any, name: str) -> list[str]:
    """Returns the codes in a field or an argument, none for None; those of a set in alphabetical order.

    Raises:
        InputError: they are no list of texts, or one is empty; a single text is none, whose letters would be codes.
    """
    if value is None:
        return []
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InputError(f"{name}: expected a list of codes, found {shown(value)}")
    codes = sorted(value, key=str) if isinstance(value, Set) else list(value)
    for code in codes:
        if not isinstance(code, str) or not code:
            raise InputError(f"{name}: expected evidence codes, found {shown(code)}")
    return codes


def whole_number(value: Any, name: str = "", least: int = 0, most: int = MOST) -> int:
    """Returns a whole number; `name` is that of its field, for the message.

    Raises:
        InputError: it is none, or out of range.
    """
    number = _whole(value)
    if type(number) is not int or not least <= number <= most:
        place = f"{name}: " if name else ""
        raise InputError(f"{place}expected a whole number from {least} to {most}, found {shown(value)}")
    return number


def id_of(value: Any) -> Any:
    """Returns an id as text where a table has a whole number; what is neither stays, to be refused."""
    number = _whole(value)
    return str(number) if type(number) is int else value


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def parse_object(text: str) -> dict[str, Any]:
    """Returns the JSON object in a text.

    Raises:
        InputError: it is not JSON, not an object, or has a key twice; the message is the reason.
    """
    try:
        value = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except InputError:
        raise
    except UnicodeEncodeError:
        raise InputError("half a surrogate pair in a text") from None
    except RecursionError:
        raise InputError("JSON nested too deeply") from None
    except json.JSONDecodeError as error:
        raise InputError(f"not valid JSON at character {error.pos + 1}: {error.msg}") from None
    except ValueError:  # Python refuses to convert integers of thousands of digits
        raise InputError("a number has too many digits") from None
    if not isinstance(value, dict):
        raise InputError(f"expected a JSON object, found {shown(value)}")
    return value


def _refuse_constant(name: str) -> None:
    raise InputError(f"not valid JSON: {name} is not a JSON value")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise InputError(f"the key {shown(twice)} is repeated")
    return fields


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
