"""The evidence vocabulary: the pieces of evidence, their order, the file format, and how they become a state.

The state is a vector s in {-1, 0, 1}^E (paper, section "The state-action space"): a code that is known to be present is
1 in its cell, one that is known to be absent -1. A code that is unknown to the vocabulary, or both present and absent,
leaves its cell 0 and is listed. `trainer.data.state.from_codes` is the same rule in a TensorFlow graph, for
models; a test compares the two.
"""

import csv
import dataclasses
import difflib
import functools
import hashlib
import io
import os
import pathlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import numpy as np

from schemas import relations
from schemas.bands import BAND, EQUALS, Bands
from schemas.csv_table import CsvTable
from schemas.errors import InputError
from schemas.relations import EXHAUSTIVE, ONLY_IF, RELATIONS, Relations
from schemas.text_file import read_text

KINDS = ("symptom", "risk_factor")
COLUMNS = ("code", "kind", "name", "question")
SYNONYMS, SEPARATOR = "synonyms", "|"
"""What patients say, in any language, and what separates the phrases."""
CRISIS = "!"
"""The mark before a phrase that is an emergency term: a search shows its matches first."""
INSTRUMENT = "instrument"
RED_FLAG, FLAGGED = "red_flag", "yes"
OPTIONAL = (SYNONYMS, *RELATIONS, ONLY_IF, BAND, INSTRUMENT, RED_FLAG)
"""Columns that a vocabulary file may have beside `COLUMNS`."""
MAX_CODE_LENGTH = 128

# A code is a key on the wire, in file names of slices and in a CSV column that TensorFlow reads without unquoting:
# letters (of any script, with their vowel signs and accents), digits and a few joiners, no white space, no comma, no
# quote. The expression is for the usual code; Python's \w lacks the combining marks of many scripts.
_PLAIN_CODE = re.compile(r"[^\W_][\w.@:/+()\-']*")
_JOINERS = frozenset("_.@:/+()-'")


@dataclasses.dataclass(frozen=True)
class Evidence:
    """One piece of evidence: a symptom or sign, or a risk factor, that is present or absent in a patient."""

    code: str
    kind: str
    name: str
    question: str
    synonyms: tuple[str, ...] = ()
    parent: str = ""
    """Code that is present whenever this is, "" if there is none."""
    exclusive: str = ""
    """Group of which a patient has at most one member, "" if there is none."""
    band: str = ""
    """Numbers for which it is present, see `schemas.bands`; "" if there are none."""
    instrument: str = ""
    """Without which nobody can tell, such as a stethoscope, "" if there is none."""
    red_flag: str = ""
    """`FLAGGED` if it can be a sign of danger, so that an interview asks about it early, or ""."""
    only_if: str = ""
    """Who can have it, see `schemas.relations.terms`; "" if anybody can."""


def phrases_in(cell: str) -> tuple[str, ...]:
    """Returns the phrases in a cell of the column `SYNONYMS`."""
    return tuple(cell.split(SEPARATOR)) if cell else ()


def code_fault(code: object) -> str | None:
    """Returns why `code` is malformed, or None if it is well formed."""
    if not isinstance(code, str):
        return f"evidence code {code!r} is not a string"
    if not code:
        return "evidence code is empty"
    if len(code) > MAX_CODE_LENGTH:
        return f"evidence code {code[:32]!r}... is longer than {MAX_CODE_LENGTH} characters"
    if unicodedata.normalize("NFC", code) != code:
        return f"evidence code {code!r} is not in Unicode normal form C"
    if not _PLAIN_CODE.fullmatch(code) and not (code[0].isalnum() and all(map(_may_stand_in_code, code))):
        return f"evidence code {code!r} is malformed: expected letters, digits and _ . @ : / + - ( ) ', no white space"
    return None


def _may_stand_in_code(character: str) -> bool:
    return character.isalnum() or character in _JOINERS or unicodedata.category(character) in ("Mn", "Mc")


def _entry_fault(entry: Evidence) -> str | None:
    fault = code_fault(entry.code)
    if fault:
        return fault
    if entry.code == COLUMNS[0]:
        return f"evidence code {entry.code!r} is reserved for the header line"
    if entry.kind not in KINDS:
        return f"evidence {entry.code!r}: kind {entry.kind!r} is not one of {', '.join(KINDS)}"
    texts = (("name", entry.name), ("question", entry.question), *((SYNONYMS, each) for each in entry.synonyms),
             (INSTRUMENT, entry.instrument or "none"), (ONLY_IF, entry.only_if or "none"))  # fmt: skip
    texts += (("exclusive", entry.exclusive),) if entry.exclusive else ()
    if entry.red_flag not in ("", FLAGGED):
        return f"evidence {entry.code!r}: {RED_FLAG} must be {FLAGGED!r} or empty, not {entry.red_flag!r}"
    for column, text in texts:
        # One entry is one line of the file: TensorFlow takes the line number as the index.
        # What is printable has none of these characters, and is told far sooner.
        if not text.strip(CRISIS + " " if column == SYNONYMS else None) or (
            not text.isprintable() and any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in text)
        ):
            return f"evidence {entry.code!r}: {column} must be one line of text, not {text!r}"
    return None


def unknown_message(code: str, nearest: Sequence[str]) -> str:
    """Returns the message about an unknown code; `nearest` are the known codes that resemble it."""
    measure, equals, _ = code.partition(EQUALS)
    if equals:
        measure = measure[:MAX_CODE_LENGTH]
        return f"a number of {measure!r} cannot stand here: it needs a band in the vocabulary, and a place in present"
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else "see the vocabulary for the known codes"
    return f"unknown evidence code {code[:MAX_CODE_LENGTH]!r}: {hint}"


class Vocabulary:
    """An ordered set of evidence; the position of a piece of evidence is its cell in the state vector.

    Args:
        entries: in the order of the cells.
        lines: of a file, on which the entries are, for errors.

    Raises:
        InputError: there is no evidence, a code is duplicate, empty or malformed, or a relation or a band impossible.
    """

    def __init__(self, entries: Iterable[Evidence], lines: Sequence[int] = ()):
        self._entries = tuple(entries)
        self._index: dict[str, int] = {}
        places = [f"line {line}" for line in lines] or [f"vocabulary entry {n + 1}" for n in range(len(self._entries))]
        for index, entry in enumerate(self._entries):
            fault = _entry_fault(entry)
            if fault is None and entry.code in self._index:
                fault = f"evidence code {entry.code!r} is a duplicate of {places[self._index[entry.code]]}"
            if fault:
                raise InputError(f"{places[index]}: {fault}")
            self._index[entry.code] = index
        if not self._entries:
            raise InputError("the vocabulary is empty: expected at least one piece of evidence")
        fault = relations.fault_of(self._entries)
        if fault:
            raise InputError(fault)
        self.relations = Relations(self._entries)
        """What cannot be so together."""
        self.bands = Bands(self._entries, self.relations)
        """What numbers say."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Evidence]:
        return iter(self._entries)

    def __contains__(self, code: object) -> bool:
        return code in self._index

    def has_all(self, codes: Set[str]) -> bool:
        """Whether each of `codes` is in the vocabulary."""
        return codes <= self._index.keys()

    def __getitem__(self, index: int) -> Evidence:
        return self._entries[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._entries == other._entries

    def __hash__(self) -> int:
        return hash(self._entries)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes in the order of the state vector's cells."""
        return tuple(self._index)

    def read_numbers(
        self, present: Sequence[str], absent: Sequence[str]
    ) -> tuple[list[str], list[str], Mapping[str, str]]:
        """Returns codes that are present and absent, with those of bands in place of numbers, see `schemas.bands`.

        The mapping has the number that speaks of a code, by the code.

        Raises:
            NumberError: one of the numbers is faulty.
        """
        there, missing, numbers = list(present), list(absent), dict[str, str]()
        if any(map(self.bands.is_number, present)):
            there = [code for code in present if not self.bands.is_number(code)]
            for finding in self.bands.read(present):
                numbers[finding.code] = present[finding.place]
                codes = there if finding.present else missing
                if finding.code not in codes:
                    codes.append(finding.code)
        return there, missing, numbers

    def index(self, code: str) -> int:
        """Returns the state cell of `code`, in `[0, len(self))`.

        Raises:
            InputError: the code is not in the vocabulary; the message gives the nearest known codes.
        """
        try:
            return self._index[code]
        except KeyError:
            raise InputError(self.unknown_message(code)) from None

    def nearest(self, code: str) -> list[str]:
        """Returns up to three known codes whose spelling resembles `code`, the nearest first."""
        folded = {known.casefold(): known for known in self._index}
        wanted = code[:MAX_CODE_LENGTH].casefold().replace(" ", "_").replace("-", "_")
        return [folded[match] for match in difflib.get_close_matches(wanted, folded)]

    def unknown_message(self, code: str) -> str:
        """Returns the message about an unknown code."""
        composed = unicodedata.normalize("NFC", code)
        if composed != code and composed in self:
            return f"evidence code {code!a} is {composed!a} in another Unicode form: convert the file to form C (NFC)"
        return unknown_message(code, self.nearest(code))

    @functools.cached_property
    def openings(self) -> Mapping[str, tuple[int, ...]]:
        """The cells of each group of which every patient has exactly one member, by which an interview opens."""
        groups = {
            name: tuple(cell for cell, entry in enumerate(self._entries) if entry.exclusive == name)
            for name in EXHAUSTIVE
        }
        return {name: cells for name, cells in groups.items() if len(cells) > 1}

    @functools.cached_property
    def measured(self) -> tuple[str, ...]:
        """The codes that nobody can tell without an instrument."""
        return tuple(entry.code for entry in self._entries if entry.instrument)

    @functools.cached_property
    def takes_instrument(self) -> np.ndarray:
        """Which cells are those of `measured`: bool `[E]`."""
        return np.array([bool(entry.instrument) for entry in self._entries])

    @functools.cached_property
    def red_flags(self) -> np.ndarray:
        """Which cells can be a sign of danger: bool `[E]`."""
        return np.array([bool(entry.red_flag) for entry in self._entries])

    @property
    def fingerprint(self) -> str:
        """`sha256:` and 64 hexadecimal digits over the codes in order.

        It identifies the meaning of a model's input: reordering, adding or removing a code changes it, rewording a
        question does not.
        """
        return "sha256:" + hashlib.sha256("".join(f"{code}\n" for code in self._index).encode()).hexdigest()

    def difference(self, other: "Vocabulary") -> str:
        """Describes how the codes of `other` differ from these; "" if the fingerprints are equal."""
        codes, others = self.codes, other.codes
        parts = [
            f"{verb} {len(changed)} ({', '.join(map(repr, changed[:3]))}{', ...' if len(changed) > 3 else ''})"
            for verb, changed in (
                ("lacks", [code for code in codes if code not in other]),
                ("adds", [code for code in others if code not in self]),
            )
            if changed
        ]
        if not parts and codes != others:
            cell = next(cell for cell, (code, wanted) in enumerate(zip(codes, others, strict=True)) if code != wanted)
            parts = [f"has the codes in another order from cell {cell} on: {others[cell]!r}, not {codes[cell]!r}"]
        return " and ".join(parts)

    def to_csv(self) -> str:
        """Returns the canonical text of the vocabulary file, LF line ends, header first."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        used = [column for column in OPTIONAL if any(getattr(entry, column) for entry in self._entries)]
        writer.writerow((*COLUMNS, *used))
        for entry in self._entries:
            cells = {**vars(entry), SYNONYMS: SEPARATOR.join(entry.synonyms)}
            writer.writerow(cells.get(column, "") for column in (*COLUMNS, *used))
        return text.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the vocabulary file that `load` reads."""
        pathlib.Path(path).write_text(self.to_csv(), encoding="utf-8", newline="\n")

    @classmethod
    def parse(cls, text: str, source: str) -> "Vocabulary":
        """Reads the text of a vocabulary file; `source` is its name in errors.

        Raises:
            InputError: the header or a line is malformed; the message names the file and the line.
        """
        table = CsvTable.of_text(text, source, COLUMNS, OPTIONAL)
        lines, entries = [], []
        for number, read in table.records():
            cells: dict[str, Any] = {**read, SYNONYMS: phrases_in(read.get(SYNONYMS, ""))}
            lines.append(number)
            entries.append(Evidence(**cells))
        try:
            return cls(entries, lines)
        except InputError as error:
            raise InputError(f"{source}: {error}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Vocabulary":
        """Reads a vocabulary file: a `CsvTable` with the columns code, kind, name, question, and perhaps more.

        Raises:
            InputError: the file cannot be read or is not a vocabulary file.
        """
        return cls.parse(read_text(pathlib.Path(path)), str(path))


UNKNOWN = -1
"""The cell of a code that is not in the vocabulary."""


class Encoded(NamedTuple):
    """States, and the codes that are not part of them."""

    states: np.ndarray  # float32 [B, E] in {-1, 0, 1}
    unknown_codes: np.ndarray  # bytes [B, U], padded with b""
    conflicting_codes: np.ndarray  # bytes [B, C], padded with b""


class StateEncoder:
    """Encodes evidence with one vocabulary; no line of Python runs once per piece of evidence."""

    def __init__(self, vocabulary: Vocabulary):
        self._cells = {code: cell for cell, code in enumerate(vocabulary.codes)}

    def encode(self, codes: Sequence[str], counts: Sequence[int], present: np.ndarray, absent: np.ndarray) -> Encoded:
        """Returns the states of B evidence sets with N pieces of evidence in all.

        Args:
            codes: the N codes, set by set.
            counts: the B numbers of pieces; they sum to N.
            present: bool `[N]`, whether each piece is known to be present.
            absent: bool `[N]`, whether it is known to be absent. A piece that is neither is ignored.

        Returns:
            A listed code is listed as often as it occurs, a conflicting one as often as it is present; unknown codes
            that are present precede those that are absent, and "" is not listed.
        """
        cells = np.fromiter(map(self._cells.get, codes, repeat(UNKNOWN)), np.int64, len(codes))
        rows: np.ndarray = np.repeat(np.arange(len(counts)), counts)
        known = cells != UNKNOWN
        places = rows * len(self._cells) + cells
        states: np.ndarray = np.zeros(len(counts) * len(self._cells), np.float32)
        states[places[present & known]] = 1
        denied = places[absent & known]
        contradicted = denied[states[denied] > 0]
        states[denied] = -1
        states[contradicted] = 0
        conflicting: np.ndarray = np.empty((len(counts), 0), object)
        unknown = conflicting
        if len(contradicted):
            chosen = np.flatnonzero(present & known & np.isin(places, contradicted))
            conflicting = _codes_by_row(chosen, rows, codes, len(counts))
        if not known.all():
            named = np.fromiter(map(bool, codes), bool, len(codes)) & ~known
            chosen = np.concatenate([np.flatnonzero(named & present), np.flatnonzero(named & absent)])
            unknown = _codes_by_row(chosen[np.argsort(rows[chosen], kind="stable")], rows, codes, len(counts))
        return Encoded(states.reshape(len(counts), len(self._cells)), unknown, conflicting)


def pad_rows(rows: Iterable[list[bytes]]) -> np.ndarray:
    """Returns rows of codes as bytes `[B, N]`, padded with b"", N at least 1."""
    listed = list(rows)
    width = max(map(len, listed), default=0) or 1
    return np.array([row + [b""] * (width - len(row)) for row in listed], object).reshape(len(listed), width)


def _codes_by_row(chosen: np.ndarray, rows: np.ndarray, codes: Sequence[str], count: int) -> np.ndarray:
    """Returns the chosen codes, which are sorted by row, as bytes `[B, W]`."""
    bounds: Any = np.searchsorted(rows[chosen], np.arange(count + 1)).tolist()
    listed = list(map(str.encode, map(codes.__getitem__, chosen.tolist())))
    return pad_rows(listed[begin:end] for begin, end in pairwise(bounds))
