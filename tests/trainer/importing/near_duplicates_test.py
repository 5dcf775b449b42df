import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.importing.near_duplicates import MINIMUM_PIECES, NearDuplicates

EVIDENCE = 6
STATES = st.lists(
    st.lists(st.sampled_from([-1, 0, 1]), min_size=EVIDENCE, max_size=EVIDENCE).map(
        lambda cells: tuple(sorted(cell * (index + 1) for index, cell in enumerate(cells) if cell))
    ),
    max_size=25,
)


def vector(state):
    cells = np.zeros(EVIDENCE, int)
    for code in state:
        cells[abs(code) - 1] = np.sign(code)
    return cells


def first(states, wanted):
    return next((position for position, state in enumerate(states) if wanted(state)), -1)


@given(STATES, STATES)
def test_agrees_with_comparing_all_pairs(indexed, asked):
    matches = NearDuplicates(indexed, EVIDENCE).find(asked)

    def one_apart(one, other):
        long = min(len(one), len(other)) >= MINIMUM_PIECES
        return long and (vector(one) != vector(other)).sum() == 1

    assert matches.same.tolist() == [first(asked, lambda other, s=state: other == s) for state in indexed]
    assert matches.one_apart.tolist() == [first(asked, lambda other, s=state: one_apart(s, other)) for state in indexed]


@given(STATES, STATES)
def test_signatures_that_all_agree_do_no_harm(indexed, asked):
    class Colliding(NearDuplicates):
        def _key(self, codes):
            return np.zeros(len(codes), np.uint64)

    one, other = (kind(indexed, EVIDENCE).find(asked) for kind in (NearDuplicates, Colliding))
    assert [pairs.tolist() for pairs in one] == [pairs.tolist() for pairs in other]


@pytest.mark.parametrize(
    ("one", "other", "same", "apart"),
    [
        ((-2, 1, 3, 4), (-2, 1, 3, 4), 0, -1),
        ((-2, 1, 3, 4), (1, 2, 3, 4), -1, 0),  # absent here, present there
        ((1, 2, 3, 4), (1, 2, 3, 4, 5), -1, 0),  # one more
        ((1, 2, 3, 4, 5), (1, 2, 3, 4), -1, 0),  # one less
        ((1, 2, 3, 4), (1, 2, 3, 5), -1, -1),  # one for another: two cells
        ((1, 2, 3), (1, 2, 3, 4), -1, -1),  # too short
        ((1,), (1,), 0, -1),  # the same counts at any length
        ((1, 2, 3), (-3, 1, 2), -1, -1),
    ],
)
def test_what_counts_as_one_apart(one, other, same, apart):
    matches = NearDuplicates([one], EVIDENCE).find([other])
    assert (matches.same.tolist(), matches.one_apart.tolist()) == ([same], [apart])


def test_equal_vignettes_of_one_split_all_get_their_match():
    matches = NearDuplicates([(1,), (2,), (1,)], EVIDENCE).find([(3,), (1,), (1,)])
    assert matches.same.tolist() == [1, -1, 1]


def test_a_hundred_thousand_vignettes_make_no_hundred_thousand_squared_pairs():
    generator = np.random.default_rng(0)
    cells = np.sort(np.argsort(generator.random((1000, 40)), axis=1)[:, :6] + 1, axis=1)
    pool = [tuple(row) for row in cells.tolist()]
    states = [pool[index] for index in generator.integers(0, 1000, 100_000)]
    matches = NearDuplicates(states[:50_000], 40).find(states[50_000:])
    assert (matches.same >= 0).all()
    assert all(states[50_000 + matches.same[row]] == states[row] for row in range(0, 50_000, 997))
