"""Measured numbers in what somebody types, such as "BP 120/80" or "67F", and the evidence in whose range they lie.

The ranges are the bands of the vocabulary, and synonyms that are written as those are.
"""

import contextlib
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from schemas.bands import FAHRENHEIT, Band, bands_of, number_in
from schemas.errors import InputError
from schemas.evidence import Evidence
from serving.client.words import LISTS, MOST_CHARACTERS, words_of

_MEASURES: Mapping[str, tuple[str, str]] = LISTS["measures"]
_FIGURES = r"\d+(?:[.,]\d+)?(?![\d,.]*\d)(?! ?(?:day|week|month|hour|tag|woche|monat|stunde))"
_ALONE = r"(?<![\w.,/])"
_FILLER = r"\W*(?:(?:is|was|are|of|at|reading|ist|von)\W+){0,2}"
_AGE = re.compile(
    rf"\b(?:aged?|alter)\W*{_ALONE}(?P<years>{_FIGURES})(?!/)(?:\W*(?:years?|jahren?)\b)?|"
    rf"^\W*{_ALONE}(?P<after>{_FIGURES}) ?(?:years?|jahre)\W*$|"
    r"(?<![\d.,/])(?P<number>\d+(?:[.,]\d+)?)[ -]?"
    r"(?P<unit>years?|yrs?|y|months?|mths?|mo|m(?= old)|weeks?|wk|jahre?|monate?|wochen?)"
    r"[ /-]*(?:old|of age|alt|o)\b(?: (?:baby|infant|toddler|child|kid))?"
)
_AGE_IN = {"m": 12, "w": 52}
"""How many of a unit are a year, by its first letter; other units are years."""
_AGE_AND_SEX = re.compile(
    r"^\W*(?:(?P<before>[fm])\W{0,2}(?P<years>\d{1,3})(?![\w.,/])|"
    r"(?P<age>\d{1,3})(?P<unit>[ -]?(?:years?|yrs?|y)(?:[ /-]*(?:old|o))?)?[ -]?(?P<after>[fm])(?![\w'/]))"
)
_SEXES = {"f": "female", "m": "male"}
_MOST_MONTHS, _LEAST_FAHRENHEIT = 24, 95
"""Up to and from which "18m" and "99f" at the start may be months, or a temperature, too."""
_AGE_OR_FAHRENHEIT = re.compile(r"[\d.,]+ ?f")
_BARE_PRESSURE = re.compile(rf"{_ALONE}(?=(?:[6-9]\d|\d{{3}})/\d{{2,3}}(?![\w/]))")
"""Before a blood pressure without a name, such as 120/80; 10/10 is how bad a pain is."""
_PRESSURE, _DIASTOLIC = "blood_pressure", "diastolic"
"""The measures of two numbers, such as 120/80."""


class Readings:
    """Reads numbers by the measures in the entries of a vocabulary, and those that words.toml lists."""

    def __init__(self, entries: Sequence[Evidence]):
        self._units = units = {band.measure: band.unit for entry in entries for band in bands_of(entry.band)}
        self._patterns = {
            measure: _AGE if (measure, unit) == ("age", "years") else _pattern(measure, unit)
            for measure, unit in (dict.fromkeys(_MEASURES, "") | units).items()
        }
        self._about: dict[str, dict[int, list[Band]]] = defaultdict(dict)  # the ranges of entries about a measure
        for place, entry in enumerate(entries):
            for measure in self._patterns:
                if {*measure.split("_")} <= {*words_of(entry.name)}:
                    self._about[measure][place] = []
            for band in (*bands_of(entry.band), *(band for synonym in entry.synonyms for band in ranges_of(synonym))):
                self._about[band.measure].setdefault(place, []).append(band)

    def counted(self, text: str) -> list[str]:
        """Returns the numbers in a text of which the vocabulary has bands, such as `temperature=38.9`."""
        numbers, *_ = self.read(text)
        return [f"{measure}={number}" for measure, number in numbers.items() if measure in self._units and number]

    def read(self, text: str) -> tuple[dict[str, str], str]:
        """Returns the number of each measure that was typed, "" for a normal one, and the text without them."""
        numbers: dict[str, str] = {}
        rest = _AGE_AND_SEX.sub(_in_words, _BARE_PRESSURE.sub("bp ", text[:MOST_CHARACTERS].casefold()))
        for measure, pattern in self._patterns.items():
            if match := pattern.search(rest):
                found = {name: number.replace(",", ".") for name, number in match.groupdict().items() if number}
                number = found.get("number") or found.get("after") or found.get("years", "")
                per_year = _AGE_IN.get(found.get("unit", "")[:1], 1)
                number = number if per_year == 1 else f"{float(number) / per_year:.3g}"
                if _AGE_OR_FAHRENHEIT.fullmatch(match[0]) and float(number) < _LEAST_FAHRENHEIT:
                    continue
                numbers[measure] = number + (FAHRENHEIT if self._is_fahrenheit(measure, number, match[0]) else "")
                numbers |= {_DIASTOLIC: found["second"]} if "second" in found and measure == _PRESSURE else {}
                if self._is_plausible(measure, numbers[measure]):
                    rest = f"{rest[: match.start()]} {rest[match.end() :]}"
        return numbers, rest

    def evidence_of(self, numbers: Mapping[str, str]) -> tuple[list[int], set[int]]:
        """Returns the entries in whose ranges numbers lie, and all that are about the measures, by their places."""
        in_range: list[int] = []
        about: set[int] = set()
        for measure, number in numbers.items():
            if self._is_plausible(measure, number):
                about |= self._about[measure].keys()
                ranges = self._about[measure].items() if number else ()
                in_range += [entry for entry, bands in ranges if _has(bands, self._value(measure, number))]
        return in_range, about

    def _is_plausible(self, measure: str, number: str) -> bool:
        """Returns whether a patient can have a number, as far as the ranges of its measure have an end."""
        ranges = [band for bands in self._about[measure].values() for band in bands]
        low, high = (min(band.low for band in ranges), max(band.high for band in ranges)) if ranges else (0, math.inf)
        return not number or math.isinf(low) or math.isinf(high) or low <= self._value(measure, number) <= high

    def _is_fahrenheit(self, measure: str, number: str, typed: str) -> bool:
        """Returns whether a temperature says that it is in degrees Fahrenheit, or can only be so."""
        converted = f"{number}{FAHRENHEIT}"
        if number_in(converted, self._units.get(measure, "")) is None:
            return False
        can_only = self._is_plausible(measure, converted) and not self._is_plausible(measure, number)
        return can_only or typed.endswith(("f", "fahrenheit"))

    def _value(self, measure: str, number: str) -> float:
        value = number_in(number, self._units.get(measure, ""))
        return math.nan if value is None else value


def ranges_of(synonym: str) -> list[Band]:
    """Returns the ranges in a synonym that is written as a band is, such as "blood_pressure <90"; [] for others."""
    with contextlib.suppress(InputError):
        return bands_of(synonym)
    return []


def _has(bands: Sequence[Band], number: float) -> bool:
    """Returns whether a number lies in one of the bands; where all depend on others, in that of most patients."""
    if bands and all(band.given for band in bands):
        bands = [max(bands, key=lambda band: len(band.given))]
    return any(band.begins_before(number) and band.ends_after(number) for band in bands)


def _in_words(found: re.Match[str]) -> str:
    """Returns an age and a sex, such as "67F", in words; "18m", which may be months, as it is, and "99F" as both."""
    sex, age = found["before"] or found["after"], found["years"] or found["age"]
    is_number_first = found["age"] and not found["unit"]
    if is_number_first and sex == "m" and int(age) <= _MOST_MONTHS:
        return found[0]
    temperature = found[0] if is_number_first and sex == "f" and int(age) >= _LEAST_FAHRENHEIT else ""
    return f"age {age} {_SEXES[sex]} {temperature}"


def _pattern(measure: str, unit: str) -> re.Pattern[str]:
    """Returns the pattern of a number with its measure or its unit: of `number` or `after`, and perhaps `second`."""
    words, units = _MEASURES.get(measure, ("", ""))
    named = "|".join(filter(None, (measure.replace("_", "[ _]"), words)))
    after = "|".join(filter(None, (re.escape(unit.casefold()), units)))
    numbers = [
        rf"\b(?:{named})(?![^\W\d]){_FILLER}(?P<number>{_FIGURES})(?:/(?P<second>\d+))?",
        rf"\bnormal (?:{named})\b",
    ]
    if after:
        numbers[0] += rf"(?:\W*(?:{after})(?!\w))?"
        numbers.append(rf"{_ALONE}(?P<after>{_FIGURES}) ?(?:{after})(?!\w)")
    return re.compile("|".join(numbers))
