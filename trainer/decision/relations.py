"""What follows from the known evidence, so that no question is asked whose answer is known or impossible.

A vocabulary states its relations itself. One that states none, such as one derived from data, gets those of the
knowledge base for the codes that the two share. A *literal* is a cell that is known to be present (the first E) or
known to be absent (the next E).
"""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from schemas.catalogue import Catalogue
from schemas.evidence import Evidence, Vocabulary
from schemas.knowledge_base import KnowledgeBase
from schemas.relations import EXHAUSTIVE

OnlyIf = tuple[tuple[str, ...], ...]
"""Who can have a piece of evidence, see `schemas.catalogue.CatalogueEntry`."""


def with_relations(vocabulary: Vocabulary, catalogue: Catalogue | None = None) -> Vocabulary:
    """Returns the vocabulary with its relations, see above.

    Args:
        vocabulary: of the model.
        catalogue: with relations, by default that of `triage simulate`.
    """
    if any(entry.parent or entry.exclusive for entry in vocabulary):
        return vocabulary
    catalogue = KnowledgeBase.load(None).catalogue if catalogue is None else catalogue

    def related(entry: Evidence) -> Evidence:
        if entry.code not in catalogue:
            return entry
        parent = catalogue[entry.code].parent or ""
        while parent and parent not in vocabulary:
            parent = catalogue[parent].parent or ""
        return dataclasses.replace(entry, parent=parent, exclusive=catalogue[entry.code].exclusive or "")

    return Vocabulary(map(related, vocabulary))


def settled_by(vocabulary: Vocabulary, catalogue: Catalogue | None = None) -> np.ndarray:
    """Returns the literals that each settle a code, int32 `[E, W]`, padded with 2 E.

    A code is settled by its own answer, an absent parent, a present child, another present member of its exclusive
    group (or an absent one, if everybody has one of the two), or a risk factor, age or sex with which nobody has it or
    one of its ancestors.

    Args:
        vocabulary: of the model.
        catalogue: says who can have what, and see `with_relations`; by default that of `triage simulate`.
    """
    catalogue = KnowledgeBase.load(None).catalogue if catalogue is None else catalogue
    only_if = {entry.code: entry.only_if for entry in catalogue if entry.code in vocabulary}
    relations = _Relations(with_relations(vocabulary, catalogue), only_if)
    count = len(vocabulary)
    cells = {code: cell for cell, code in enumerate(vocabulary.codes)}

    def literal(condition: tuple[str, bool]) -> int:
        code, present = condition
        return cells[code] + (0 if present else count)

    rows = []
    for code in vocabulary.codes:
        conditions = {literal(condition) for condition in relations.settling(code)}
        rows.append(sorted(conditions | {cells[code], cells[code] + count}))
    width = max(map(len, rows))
    return np.array([row + [2 * count] * (width - len(row)) for row in rows], np.int32)


class _Relations:
    """The relations among the entries of a vocabulary."""

    def __init__(self, entries: Iterable[Evidence], only_if: Mapping[str, OnlyIf]):
        self._entries = {entry.code: entry for entry in entries}
        self._only_if = only_if
        self._groups: dict[str, list[str]] = {}
        self._children: dict[str, list[str]] = {}
        for entry in self._entries.values():
            if entry.exclusive:
                self._groups.setdefault(entry.exclusive, []).append(entry.code)
            if entry.parent:
                self._children.setdefault(entry.parent, []).append(entry.code)

    def settling(self, code: str) -> set[tuple[str, bool]]:
        """Returns the conditions, code and whether it is present, of which any one settles `code`."""
        return self._excluding(code) | self._implying(code)

    def _excluding(self, code: str) -> set[tuple[str, bool]]:
        """Returns the conditions of which any one means that `code` is absent."""
        entry = self._entries[code]
        conditions = {(sibling, True) for sibling in self._siblings(code)}
        for term in self._only_if.get(code, ()):
            parts = [self._denying(part) for part in term]
            conditions |= set.intersection(*parts)  # all parts of a term must fail
        if entry.parent:
            conditions |= {(entry.parent, False)} | self._excluding(entry.parent)
        return conditions

    def _implying(self, code: str) -> set[tuple[str, bool]]:
        """Returns the conditions of which any one means that `code` is present."""
        conditions = set()
        for child in self._children.get(code, ()):
            conditions |= {(child, True)} | self._implying(child)
        siblings = self._siblings(code)
        if self._entries[code].exclusive in EXHAUSTIVE and len(siblings) == 1:
            conditions.add((siblings[0], False))
        return conditions

    def _denying(self, part: str) -> set[tuple[str, bool]]:
        """Returns the conditions of which any one makes a part of a term fail."""
        code = part.removeprefix("!")
        if code not in self._entries:
            return set()
        if part.startswith("!"):
            return {(code, True)}
        return {(code, False)} | {(sibling, True) for sibling in self._siblings(code)}

    def _siblings(self, code: str) -> list[str]:
        return [each for each in self._groups.get(self._entries[code].exclusive, ()) if each != code]
