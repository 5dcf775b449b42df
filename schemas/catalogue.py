"""The evidence catalogue: the vocabulary of the knowledge base, with what the simulator needs to know about each piece.

The file is `schemas/knowledge/evidence.csv`; its first four columns are those of a vocabulary file.
"""

import csv
import dataclasses
import io
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schemas import evidence
from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from schemas.relations import EXHAUSTIVE
from schemas.text_file import read_text

COLUMNS = (*evidence.COLUMNS, "system", "parent", "exclusive", "only_if", "background", "instrument")
"""The columns of the file; the last one may be left out."""
AGE, SEX = EXHAUSTIVE
MIN_BACKGROUND = 1e-4  # any finding is possible in a patient who comes for another reason
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclasses.dataclass(frozen=True)
class CatalogueEntry:
    """A piece of evidence and its relations to the others."""

    evidence: Evidence
    system: str
    """The body system of a symptom or sign, or the type of a risk factor (demographic, medicine, habit, ...)."""
    only_if: tuple[tuple[str, ...], ...]
    """Who can have it: every term must hold. A term holds if one of its risk factors is present or, written with `!`,
    absent."""
    background: float
    """In [1e-4, 1). Of a symptom: its probability in a patient who comes for another reason (the leak). Of a risk
    factor: the share of patients who have it."""

    @property
    def code(self) -> str:
        """The evidence code."""
        return self.evidence.code

    @property
    def parent(self) -> str | None:
        """Evidence that is present whenever this is: chest pain is the parent of chest pain on exertion."""
        return self.evidence.parent or None

    @property
    def exclusive(self) -> str | None:
        """The group of which a patient has at most one member, such as the age bands."""
        return self.evidence.exclusive or None


class Catalogue:
    """All pieces of evidence in the order of the vocabulary. Made by `parse`."""

    def __init__(self, entries: Sequence[CatalogueEntry]):
        self._entries = tuple(entries)
        self.vocabulary = Vocabulary(entry.evidence for entry in entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[CatalogueEntry]:
        return iter(self._entries)

    def __contains__(self, code: object) -> bool:
        return code in self.vocabulary

    def __getitem__(self, code: str) -> CatalogueEntry:
        return self._entries[self.vocabulary.index(code)]

    def of_kind(self, kind: str) -> tuple[CatalogueEntry, ...]:
        """Returns the entries of a kind, "symptom" or "risk_factor", in order."""
        return tuple(entry for entry in self._entries if entry.evidence.kind == kind)

    def with_column(self, name: str, cells: Mapping[str, Any], source: str) -> "Catalogue":
        """Returns the catalogue with a field of `Evidence` by code; `source` is the file's name in errors.

        Raises:
            InputError: a code is not in the catalogue, or a cell is faulty.
        """
        for code in cells:
            if code not in self:
                raise InputError(f"{source}: {self.vocabulary.unknown_message(code)}")
        said = [
            dataclasses.replace(entry.evidence, **{name: cells[entry.code]}) if entry.code in cells else entry.evidence
            for entry in self
        ]
        try:
            return Catalogue(
                [dataclasses.replace(entry, evidence=each) for entry, each in zip(self, said, strict=True)]
            )
        except InputError as error:
            raise InputError(f"{source}: {error}") from None

    def group(self, name: str) -> tuple[CatalogueEntry, ...]:
        """Returns the members of an exclusive group, in order."""
        return tuple(entry for entry in self._entries if entry.exclusive == name)

    @classmethod
    def parse(cls, text: str, source: str) -> "Catalogue":
        """Reads the text of a catalogue file; `source` is its name in errors.

        Raises:
            InputError: a line is malformed, or relations contradict each other; the message has one line per fault.
        """
        reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
        try:
            rows = list(reader)
        except csv.Error as error:
            raise InputError(f"{source}: line {reader.line_num}: not valid CSV: {error}") from error
        if not rows or tuple(rows[0]) not in (COLUMNS, COLUMNS[:-1]):
            raise InputError(f"{source}: line 1: expected the header {','.join(COLUMNS)!r}")
        entries, faults = [], []
        for number, row in enumerate(rows[1:], start=2):  # the vocabulary refuses line breaks in a field
            try:
                if len(row) != len(rows[0]):
                    raise InputError(f"expected {len(rows[0])} columns ({','.join(rows[0])}), found {len(row)}")
                entries.append(_entry(*row))
            except InputError as error:
                faults.append(f"{source}: line {number}: {error}")
        if not faults:
            try:
                catalogue = cls(entries)
            except InputError as error:
                raise InputError(f"{source}: {error}") from None
            faults = [f"{source}: {fault}" for fault in _relation_faults(entries)]
        if faults:
            raise InputError("\n".join(faults))
        return catalogue

    @classmethod
    def load(cls, path: pathlib.Path) -> "Catalogue":
        """Reads a catalogue file.

        Raises:
            InputError: the file cannot be read or is not a catalogue.
        """
        return cls.parse(read_text(path), str(path))


def _entry(
    code: str, kind: str, name: str, question: str, system: str, parent: str, exclusive: str, only_if: str,
    background: str, instrument: str = "",
) -> CatalogueEntry:  # fmt: skip
    entry = Evidence(code, kind, name, question, parent=parent, exclusive=exclusive, instrument=instrument)
    for value, column in ((entry.code, "code"), (system, "system"), (exclusive or "none", "exclusive")):
        if not _NAME.fullmatch(value):
            raise InputError(f"{entry.code!r}: {column} {value!r} is not in snake_case")
    try:
        share = float(background)
    except ValueError:
        share = -1.0
    if not MIN_BACKGROUND <= share < 1:
        raise InputError(f"{entry.code!r}: background {background!r}: expected {MIN_BACKGROUND} or more, less than 1")
    terms = tuple(tuple(term.split("|")) for term in only_if.split())
    return CatalogueEntry(entry, system, terms, share)


def _relation_faults(entries: Sequence[CatalogueEntry]) -> list[str]:
    known = {entry.code: entry for entry in entries}
    faults = []
    for entry in entries:
        faults += [f"{entry.code!r}: {fault}" for fault in _entry_relation_faults(entry, known)]
    for name in EXHAUSTIVE:
        total = sum(entry.background for entry in entries if entry.exclusive == name)
        if abs(total - 1) > 1e-6:
            faults.append(
                f"group {name!r}: every patient has one of its members, but their background sums to {total:.6g}"
            )
    return faults


def _entry_relation_faults(entry: CatalogueEntry, known: dict[str, CatalogueEntry]) -> list[str]:
    faults = []
    if entry.parent is not None:
        parent = known[entry.parent]
        if parent.evidence.kind != entry.evidence.kind:
            faults.append(f"its parent {entry.parent!r} is of another kind")
        elif list(known).index(entry.parent) > list(known).index(entry.code):
            faults.append(f"its parent {entry.parent!r} must come above it")
        elif parent.background < entry.background:
            faults.append(f"background {entry.background} is above that of its parent {entry.parent!r}")
    for code in (part.removeprefix("!") for term in entry.only_if for part in term):
        if code not in known or known[code].evidence.kind != "risk_factor":
            faults.append(f"only_if: {code!r} is not a risk factor")
    return faults
