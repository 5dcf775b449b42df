"""Numbers as evidence: `temperature=38.9` stands for the codes in whose bands it lies, and denies the others.

A cell of the vocabulary's column `band` is `MEASURE >=FROM <BELOW UNIT if CODE CODE`, where one of the bounds, the unit
and the condition may be left out: `age >=75`, `fever` of `temperature >=38 <45 °C`. Several cells are separated by `|`,
such as what a fast heart rate is at each age; a condition holds where one of its codes is present.

Where the unit is °C, `temperature=102F` is converted.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple, Protocol

from schemas.errors import InputError
from schemas.relations import Relations

BAND = "band"
"""The optional column of a vocabulary."""
_SEPARATOR = "|"
EQUALS = "="
_BAND = re.compile(
    r"(?P<measure>[^\W\d]\w*)(?: (?P<above>>=?)(?P<low>-?\d+(?:\.\d+)?))?(?: (?P<below><=?)(?P<high>-?\d+(?:\.\d+)?))?"
    r"(?: (?!if )(?P<unit>\S+))?(?: if (?P<given>\S+(?: \S+)*))?"
)
_NUMBER = re.compile(r"(?P<number>[+-]?\d{1,9}(?:[.,]\d{1,9})?)(?: ?°? ?(?P<degrees>[CF]))?", re.IGNORECASE)
FAHRENHEIT = "F"
"""Stands behind a number that is in degrees Fahrenheit."""
CELSIUS = frozenset(("°C", "Cel", "C"))
"""Names of the unit into which such a number is converted."""


class _Banded(Protocol):
    @property
    def code(self) -> str: ...
    @property
    def band(self) -> str: ...


class Band(NamedTuple):
    """Numbers for which a code is present."""

    measure: str
    low: float
    with_low: bool
    high: float
    with_high: bool
    unit: str
    given: frozenset[str]
    """Codes of which one has to be present, none where it always applies."""

    def begins_before(self, value: float) -> bool:
        """Returns whether a number lies above the lower bound."""
        return self.low < value or (self.with_low and value == self.low)

    def ends_after(self, value: float) -> bool:
        """Returns whether a number lies below the upper bound."""
        return value < self.high or (self.with_high and value == self.high)


class NumberError(InputError):
    """What is wrong with a number; `text` is the number as it was given, and `reason` what is wrong."""

    def __init__(self, text: str, reason: str):
        super().__init__(f"{text!r}: {reason}")
        self.text, self.reason = text, reason


class BandStatus(NamedTuple):
    """The status that a number gives a code."""

    code: str
    present: bool
    place: int
    """Of the number, in the list that has it."""


def bands_of(cell: str) -> list[Band]:
    """Returns the bands in a cell of the column.

    Raises:
        InputError: the cell is malformed.
    """
    bands = []
    for text in cell.split(_SEPARATOR) if cell else ():
        match = _BAND.fullmatch(text.strip())
        if match is None or not (match["above"] or match["below"]):
            raise InputError(f"band {text!r}: expected such as 'temperature >=38 <45 °C'")
        low, high = float(match["low"] or -math.inf), float(match["high"] or math.inf)
        bands.append(
            Band(
                match["measure"], low, match["above"] == ">=", high, match["below"] == "<=", match["unit"] or "",
                frozenset((match["given"] or "").split()),
            )
        )  # fmt: skip
    return bands


def is_numeric(text: str) -> bool:
    """Returns whether a text is a number as a measure has it, such as "38.9" or "38,9"."""
    return _NUMBER.fullmatch(text.strip()) is not None


def number_in(text: str, unit: str) -> float | None:
    """Returns the number in a text, such as "38.9", "38,9" or, where the unit is °C, "102F"; None if it is none."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None or (match["degrees"] and unit not in CELSIUS):
        return None
    number = float(match["number"].replace(",", "."))
    return round((number - 32) / 1.8, 4) if (match["degrees"] or "").upper() == FAHRENHEIT else number


def by_numbers(numbers: Mapping[str, str], *codes: str) -> str:
    """Returns, for a message about codes, which of the numbers by code speak of them; "" where none does."""
    texts = dict.fromkeys(numbers[code] for code in codes if code in numbers)
    return f" (by {', '.join(texts)})" if texts else ""


def _implausible(value: float, bands: Sequence[Band]) -> str:
    """Returns what is expected of a number that no patient can have, "" for another.

    Bands that end at the same number, as those of fever and high fever, are of what is high: lower numbers are
    plausible, too, as far as twice the width of the bands. So are numbers above bands that begin at the same number, or
    have no lower bound. Other bands leave nothing plausible outside, such as those of a low and a high temperature.
    """
    lows, highs = {band.low for band in bands}, {band.high for band in bands}
    low, high = least, most = min(lows), max(highs)
    if len(highs) == 1:
        least = max(low - 2 * (high - low), min(low, 0))
    if len(lows) == 1 and (len(highs) > 1 or low == -math.inf):
        most = high + 2 * (high - low)
    below = not any(band.begins_before(value) for band in bands) and (value < least or least == low)
    above = not any(band.ends_after(value) for band in bands) and (value > most or most == high)
    if not (below or above):
        return ""
    unit = f" {bands[0].unit}" if bands[0].unit else ""
    if math.isinf(least) or math.isinf(most):
        return f"expected a number {f'above {least:g}' if below else f'below {most:g}'}{unit}"
    return f"expected a number between {least:g} and {most:g}{unit}"


class Bands:
    """Reads numbers by the bands of the entries of a vocabulary, which may have relations.

    Raises:
        InputError: a band is malformed, or does not fit the others.
    """

    def __init__(self, entries: Iterable[_Banded], relations: Relations):
        self._relations = relations
        self._measures: dict[str, dict[str, list[Band]]] = {}
        listed = list(entries)
        codes = {entry.code for entry in listed}
        for entry in listed:
            try:
                bands = bands_of(entry.band)
                for band in bands:
                    self._check(band, bands[0], codes)
                    self._measures.setdefault(band.measure, {}).setdefault(entry.code, []).append(band)
            except InputError as error:
                raise InputError(f"evidence {entry.code!r}: {error}") from None

    def _check(self, band: Band, first: Band, codes: Set[str]) -> None:
        if band.measure != first.measure:
            raise InputError(f"band of {band.measure!r} and of {first.measure!r}: expected one measure")
        if band.measure in codes:
            raise InputError(f"band: {band.measure!r} is a code: choose another name for the measure")
        if not band.low < band.high:
            raise InputError(f"band: expected a number above {band.low:g}, not {band.high:g}")
        if band.given - codes:
            raise InputError(f"band: unknown code {min(band.given - codes)!r} after 'if'")
        others = {each.unit for bands in self._measures.get(band.measure, {}).values() for each in bands}
        if others - {band.unit}:
            raise InputError(f"band: {band.measure!r} is in {others.pop()!r} elsewhere: expected one unit")

    @property
    def units(self) -> Mapping[str, str]:
        """The unit of each measure, "" where it has none."""
        return {name: next(iter(coded.values()))[0].unit for name, coded in self._measures.items()}

    def measure_of(self, code: str) -> str:
        """Returns the measure that a code is a band of, "" if it is none."""
        return next((name for name, coded in self._measures.items() if code in coded), "")

    def codes_of(self, number: str) -> Set[str]:
        """Returns the codes that are bands of the measure of a number, such as `temperature=38.9`."""
        return self._measures[number.partition(EQUALS)[0]].keys()

    def is_number(self, code: str) -> bool:
        """Returns whether a text in the place of a code is a number of a measure, such as `temperature=38.9`."""
        return code.partition(EQUALS)[0] in self._measures and EQUALS in code

    def read(self, present: Sequence[str]) -> Iterator[BandStatus]:
        """Yields what the numbers among the codes that are present say, but for what follows from the rest.

        Raises:
            NumberError: one is no number, out of range, there twice, or depends on what is not known.
        """
        places = {text: place for place, text in enumerate(present) if self.is_number(text)}
        known = {code for code in present if code not in places}
        findings: list[BandStatus] = []
        for text in sorted(places, key=self._is_conditional):  # the age first, on which others depend
            for code, there in self._statuses(text, known, places):
                findings.append(BandStatus(code, there, places[text]))
            known |= {each.code for each in findings if each.present}
        denied = {each.code for each in findings if not each.present}
        for finding in findings:
            if finding.present or not self._relations.follows(finding.code, known, denied):
                yield finding

    def _is_conditional(self, text: str) -> bool:
        coded = self._measures[text.partition(EQUALS)[0]]
        return any(band.given for bands in coded.values() for band in bands)

    def _statuses(self, text: str, known: Set[str], texts: Iterable[str]) -> Iterator[tuple[str, bool]]:
        measure, _, number = text.partition(EQUALS)
        if sum(other.partition(EQUALS)[0] == measure for other in texts) > 1:
            raise NumberError(text, f"{measure} is given twice")
        coded = self._measures[measure]
        every = [band for bands in coded.values() for band in bands]
        value = number_in(number, every[0].unit)
        if value is None:
            raise NumberError(text, "expected a number, such as 38.9")
        needed = {code for band in every for code in band.given}
        applying = {
            code: [band for band in bands if not band.given or band.given & known] for code, bands in coded.items()
        }
        if not any(applying.values()):
            raise NumberError(text, f"its meaning depends on other codes: give one of {', '.join(sorted(needed))}, too")
        if fault := _implausible(value, every):
            converted = number_in(f"{number}{FAHRENHEIT}", every[0].unit)
            if converted is not None and not _implausible(converted, every):
                fault += f", or {number.strip()}{FAHRENHEIT} in degrees Fahrenheit"
            raise NumberError(text, f"{fault} (by the bands of {', '.join(coded)})")
        for code, listed in applying.items():
            if listed:
                yield code, any(band.begins_before(value) and band.ends_after(value) for band in listed)
