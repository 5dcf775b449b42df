"""Implications of the known evidence, so that no question is asked whose answer is known or impossible.

A *literal* is a cell that is known to be present (the first E) or known to be absent (the next E).
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from schemas.evidence import Evidence, Vocabulary
from schemas.relations import Implications, Status, all_implied, terms


def more_general(vocabulary: Vocabulary) -> np.ndarray:
    """Returns the cells of what each code is a special kind of, int32 `[E, W]`, padded with E.

    These are its ancestors, and what nobody has it without, such as a pregnancy; age and sex apart.
    """
    groups = {cell for cells in vocabulary.openings.values() for cell in cells}

    def cells(entry: Evidence) -> list[int]:
        needed = [term[0][0] for term in terms(entry.only_if) if len(term) == 1 and term[0][1]]
        above = map(vocabulary.index, (*vocabulary.relations.above[entry.code], *needed))
        return [cell for cell in above if cell not in groups]

    return padded(list(map(cells, vocabulary)), len(vocabulary))


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


def settled_by(vocabulary: Vocabulary) -> np.ndarray:
    """Returns the literals that each settle a code, int32 `[E, W]`, padded with 2 E.

    A code is settled by its own answer, by one from which its status follows, and by a risk factor, age or sex with
    which nobody has it or one of its ancestors.
    """
    implied = vocabulary.relations.implied
    direct: Implications = {status: set(statuses) for status, statuses in implied.items()}
    for entry in vocabulary:
        for status in _excluding(entry, implied):
            direct.setdefault(status, set()).add((entry.code, False))
    count = len(vocabulary)
    rows = [{cell, cell + count} for cell in range(count)]
    for status, statuses in all_implied(direct).items():
        for code, _ in statuses:
            rows[vocabulary.index(code)].update(literals([status], vocabulary))
    return padded([sorted(row) for row in rows], 2 * count)


def _excluding(entry: Evidence, implied: Mapping[Status, frozenset[Status]]) -> set[Status]:
    """Returns the statuses with which nobody has a piece of evidence."""
    never: set[Status] = set()
    for term in terms(entry.only_if):
        failing = [(code, not present) for code, present in term]
        by_part = [{status, *(each for each, statuses in implied.items() if status in statuses)} for status in failing]
        never |= set.intersection(*by_part)  # all parts of a term must fail
    return never
