"""What follows from the known evidence, so that no question is asked whose answer is known or impossible.

A vocabulary states its relations itself. One that states none, such as one derived from data, gets those of the
knowledge base for the codes that the two share. A *literal* is a cell that is known to be present (the first E) or
known to be absent (the next E).
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from schemas.catalogue import Catalogue
from schemas.evidence import Evidence, Vocabulary
from schemas.knowledge_base import KnowledgeBase
from schemas.relations import Implications, Status, all_implied


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


def more_general(vocabulary: Vocabulary) -> np.ndarray:
    """Returns the cells of what each code is a special kind of, int32 `[E, W]`, padded with E.

    These are its ancestors, and what nobody has it without, such as a pregnancy; age and sex apart.
    """
    catalogue, related = KnowledgeBase.load(None).catalogue, with_relations(vocabulary)
    groups = {cell for cells in related.openings.values() for cell in cells}

    def cells(code: str) -> list[int]:
        terms = catalogue[code].only_if if code in catalogue else ()
        needed = [term[0] for term in terms if len(term) == 1 and term[0] in vocabulary]
        return [cell for cell in map(vocabulary.index, (*related.relations.above[code], *needed)) if cell not in groups]

    return padded(list(map(cells, vocabulary.codes)), len(vocabulary))


def literals(statuses: Iterable[Status], vocabulary: Vocabulary) -> tuple[int, ...]:
    """Returns the literals that say these statuses.

    Raises:
        InputError: a code is not in the vocabulary.
    """
    return tuple(vocabulary.index(code) + (0 if present else len(vocabulary)) for code, present in statuses)


def padded(rows: Sequence[Sequence[int]], padding: int) -> np.ndarray:
    """Returns rows of N cells as int32 `[N, W]`, with at least one column."""
    width = max([1, *map(len, rows)])
    return np.array([[*row, *[padding] * (width - len(row))] for row in rows], np.int32).reshape(len(rows), width)


def settled_by(vocabulary: Vocabulary, knowledge: KnowledgeBase | None = None) -> np.ndarray:
    """Returns the literals that each settle a code, int32 `[E, W]`, padded with 2 E.

    A code is settled by its own answer, by one from which its status follows, and by a risk factor, age or sex with
    which nobody has it or one of its ancestors.

    Args:
        vocabulary: of the model.
        knowledge: says who can have what, and see `with_relations`; by default that of `triage simulate`.
    """
    knowledge = KnowledgeBase.load(None) if knowledge is None else knowledge
    implied = with_relations(vocabulary, knowledge.catalogue).relations.implied
    direct: Implications = {status: set(statuses) for status, statuses in implied.items()}
    for code in vocabulary.codes:
        for status in _excluding(code, knowledge, implied):
            if status[0] in vocabulary:
                direct.setdefault(status, set()).add((code, False))
    count = len(vocabulary)
    rows = [{cell, cell + count} for cell in range(count)]
    for status, statuses in all_implied(direct).items():
        for code, _ in statuses:
            rows[vocabulary.index(code)].update(literals([status], vocabulary))
    return padded([sorted(row) for row in rows], 2 * count)


def _excluding(code: str, knowledge: KnowledgeBase, implied: Mapping[Status, frozenset[Status]]) -> set[Status]:
    """Returns the statuses of risk factors, ages and sexes with which nobody has `code`."""
    never = {(other, True) for other, times in knowledge.demographics.get(code, {}).items() if times == 0}
    for term in knowledge.catalogue[code].only_if if code in knowledge.catalogue else ():
        failing = [(part.removeprefix("!"), part.startswith("!")) for part in term]
        by_part = [{status, *(each for each, statuses in implied.items() if status in statuses)} for status in failing]
        never |= set.intersection(*by_part)  # all parts of a term must fail
    return never
