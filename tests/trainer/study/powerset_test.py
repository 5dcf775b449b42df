import itertools

import numpy as np
import pytest

from trainer.study.powerset import powerset

COUNTS = [1, 0, 2, 0]


def sets_of(states):
    """The evidence sets of sparse states, as sets of signed codes."""
    rows = np.split(np.sign(states.data) * (states.indices + 1), states.indptr[1:-1])
    return [frozenset(row.astype(int).tolist()) for row in rows]


def evidence(pieces):
    """Signed codes of a vignette whose evidence is present and absent in turn."""
    return [code if code % 2 else -code for code in range(1, pieces + 1)]


@pytest.mark.parametrize(
    ("pieces", "rows", "smallest"),
    # max(1, n - 10) * 2^min(n, 10): 2^1, 2^3, 2^10, 1 * 1024, 2 * 1024, 5 * 1024; the empty set is of ten at most
    [(1, 2, 0), (3, 8, 0), (10, 1024, 0), (11, 1024, 1), (12, 2048, 1), (15, 5120, 1)],
)
def test_the_rows_are_as_many_as_the_formula_says_and_end_with_the_full_evidence(vignettes_of, pieces, rows, smallest):
    made = powerset(vignettes_of([(evidence(pieces), COUNTS)]), 20, seed=0)
    sets = sets_of(made.states)
    assert made.states.shape == (rows, 20)
    assert len(set(sets)) == rows
    assert sets[-1] == set(evidence(pieces))
    assert min(map(len, sets)) == smallest
    assert all(each <= set(evidence(pieces)) for each in sets)


@pytest.mark.parametrize(("pieces", "growths"), [(11, 1), (12, 2), (15, 5)])
def test_further_pieces_grow_one_by_one_in_front_of_every_set_of_the_other_ten(vignettes_of, pieces, growths):
    sets = sets_of(powerset(vignettes_of([(evidence(pieces), COUNTS)]), 20, seed=0).states)
    # Where the set of the ten is empty, the growth stands alone: {v_1}, {v_1, v_2} ..
    grown = sets[::1024]
    assert [len(growth) for growth in grown] == list(range(1, growths + 1))
    assert all(smaller < larger for smaller, larger in itertools.pairwise(grown))
    ten = set(evidence(pieces)) - grown[-1]
    for growth, start in zip(grown, range(0, len(sets), 1024), strict=True):
        assert {each - growth for each in sets[start : start + 1024]} == {
            frozenset(subset) for size in range(11) for subset in itertools.combinations(ten, size)
        }


def test_the_rows_of_several_vignettes_keep_their_decisions(vignettes_of):
    made = powerset(vignettes_of([([1, -2], [1, 0, 2, 0]), ([3], [0, 0, 0, 4])]), 3, seed=0)
    assert made.vignettes.tolist() == [0, 0, 0, 0, 1, 1]
    assert made.decision_counts.tolist() == [[1, 0, 2, 0]] * 4 + [[0, 0, 0, 4]] * 2
    assert sets_of(made.states)[3:] == [{1, -2}, set(), {3}]
