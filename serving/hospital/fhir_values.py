"""What elements of FHIR resources say: one reading of a status, of a value and of a coded answer for all resources.

They are read as plain JSON.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from schemas.bands import CELSIUS, FAHRENHEIT

Resource = dict[str, Any]
YES, NO, NOT_KNOWN = "Y", "N", "asked-unknown"
"""Answers, by their codes in HL7's `yesnodontknow`."""
NUMBER = "="
"""What a number begins with in a `Value`, as in `schemas.bands`."""
MODIFIED = "a modifierExtension may change its meaning"
YES_OR_NO = "http://terminology.hl7.org/CodeSystem/v2-0136"
ABSENT_REASON = "http://terminology.hl7.org/CodeSystem/data-absent-reason"
_ANSWERS = {
    "y": YES, "yes": YES, "373066001": YES, "la33-6": YES,  # the numbers are SNOMED CT's and LOINC's
    "n": NO, "no": NO, "373067005": NO, "la32-8": NO,
    "asked-unknown": NOT_KNOWN, "asked-declined": NOT_KNOWN,
}  # fmt: skip
_UNITS = (CELSIUS, {"/min", "{beats}/min", "beats/min", "bpm", "1/min"}, {"years", "year", "a"})
"""Other names of units in vocabularies, including UCUM's."""
_FAHRENHEIT = {"°F", "[degF]", "degF", "F"}


class Value(NamedTuple):
    """What a `value[x]` says."""

    said: str
    """`YES`, `NO`, `NOT_KNOWN`, another code, or `NUMBER` and a number; "" where there is none of them."""
    fault: str = ""
    """Why it cannot be used, "" if it can."""


def read_value(element: Any, unit: str | None) -> Value:
    """Returns what an answer of a form, an Observation or a component of one says.

    Args:
        element: that has the value.
        unit: of the measure that was asked for, None if it was none.
    """
    given = element if isinstance(element, dict) else {}
    if given.get("modifierExtension"):
        return Value("", MODIFIED)
    if sum(name.startswith("value") for name in given) > 1:
        return Value("", "expected one value, not several")
    if isinstance(given.get("valueBoolean"), bool):
        return Value(YES if given["valueBoolean"] else NO)
    quantity = given.get("valueQuantity")
    quantity = quantity if isinstance(quantity, dict) else {}
    for number in (given.get("valueDecimal"), given.get("valueInteger"), quantity.get("value")):
        if isinstance(number, int | float) and not isinstance(number, bool):
            return _number(f"{NUMBER}{number}", quantity, unit)
    coded = given.get("valueCodeableConcept", given.get("valueCoding"))
    listed = [*_codings_of(coded), coded if isinstance(coded, dict) else {}]
    if any(each.get("system") == ABSENT_REASON for each in listed):
        return Value(NOT_KNOWN)
    answers = {_ANSWERS[word] for word in words_of(coded) & _ANSWERS.keys()}
    codes = [each["code"] for each in listed if isinstance(each.get("code"), str)]
    if len(answers) > 1:
        return Value("", f"expected one answer, not {' and '.join(sorted(answers))}")
    if answers:
        return Value(answers.pop())
    return Value(codes[0]) if codes else Value("", "expected a code, true or false, or a number")


def names_unit(element: Resource) -> bool:
    """Returns whether the value of an element names its unit."""
    quantity = element.get("valueQuantity")
    return isinstance(quantity, dict) and bool(_units(quantity))


def _units(quantity: Resource) -> set[str]:
    return {quantity[key] for key in ("unit", "code") if isinstance(quantity.get(key), str)}


def _number(said: str, quantity: Resource, unit: str | None) -> Value:
    """Returns the number of a Quantity, and why it is none in `unit`; one that names no unit is taken for it."""
    if unit is None:
        return Value(said)
    if quantity.get("comparator") is not None:
        return Value(said, f"expected an exact number, not {quantity['comparator']}")
    named = _units(quantity)
    same = named & next((alike for alike in _UNITS if unit in alike), {unit})
    fahrenheit = unit in CELSIUS and not named.isdisjoint(_FAHRENHEIT)
    if fahrenheit and not same:
        return Value(f"{said}{FAHRENHEIT}")
    if not named or (same and not fahrenheit):
        return Value(said)
    return Value(said, f"expected {unit or 'no unit'}, not {' or '.join(sorted(named))}")


def read_status(given: Any, meanings: Mapping[str, bool | None]) -> tuple[bool | None, str]:
    """Returns what a status means, and why that cannot be told, "" if it can; a status that is not there means True.

    Args:
        given: a code or a CodeableConcept of any system, which may be text alone; None where it is not there.
        meanings: by the code of a status: True where what it is of counts, False where it is denied, None where it
            does not count.
    """
    if given is None:
        return True, ""
    words = words_of(given)
    found = {meanings[word] for word in words & meanings.keys()}
    if len(found) == 1:
        return found.pop(), ""
    return None, f"{' or '.join(sorted(words)) or 'empty'}: expected one of {', '.join(meanings)}"


def each_of(value: Any) -> list[Any]:
    """Returns what is in a list; one in place of a list is read as well, and null says nothing."""
    return value if isinstance(value, list) else [] if value is None else [value]


def objects_of(value: Any) -> list[Resource]:
    """Returns the objects in a list, as `each_of` does."""
    return [each for each in each_of(value) if isinstance(each, dict)]


def _codings_of(concept: Any) -> list[Resource]:
    return [coding for each in objects_of(concept) for coding in objects_of(each.get("coding"))]


def words_of(concept: Any) -> set[str]:
    """Returns codes, displays and text of a code, a Coding or a CodeableConcept, spelled as HL7 spells codes."""
    elements = [concept, *_codings_of(concept)] if isinstance(concept, dict) else [{"code": concept}]
    texts = (element.get(key) for element in elements for key in ("code", "display", "text"))
    return {"-".join(re.findall(r"[^\W_]+", text.casefold())) for text in texts if isinstance(text, str)}
