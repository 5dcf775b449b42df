from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.triage import Action
from trainer.data.split import apportion, drawn_for_test, majority, split_warnings


@pytest.mark.parametrize(
    ("counts", "decision"),
    [
        ((1, 2, 0, 0), Action.YELLOW),
        ((2, 2, 0, 0), Action.RED),  # tie: the more urgent
        ((0, 1, 1, 1), Action.YELLOW),
        ((0, 0, 1, 2), Action.BLUE),
        ((1, 1, 1, 1), Action.RED),
    ],
)
def test_majority_is_the_most_frequent_decision_and_ties_are_urgent(counts, decision):
    assert majority(counts) is decision


@pytest.mark.parametrize(
    ("total", "shares", "parts"),
    [
        # 5 * (0.5, 0.3, 0.2) = (2.5, 1.5, 1.0): floors 2 1 1, one left, equal remainders: the earlier share
        (5, [0.5, 0.3, 0.2], [3, 1, 1]),
        # 5 * (0.34, 0.66) = (1.7, 3.3): floors 1 3, one left, to the remainder 0.7
        (5, [0.34, 0.66], [2, 3]),
        # not normalised: 3 * (1, 1, 2) / 4 = (0.75, 0.75, 1.5): floors 0 0 1, two left
        (3, [1, 1, 2], [1, 1, 1]),
        # 0.1 + 0.2 is a little more than 0.3 in binary; the remainders 0.5 are a tie all the same
        (1, [0.3, 0.1 + 0.2], [1, 0]),
        (4, [0.0, 1.0, 0.0], [0, 4, 0]),
        (0, [1, 2], [0, 0]),
    ],
)
def test_apportion_by_largest_remainder(total, shares, parts):
    assert apportion(total, shares) == parts


@given(st.integers(0, 300), st.lists(st.floats(0, 1), min_size=1, max_size=6).filter(lambda shares: sum(shares) > 1e-9))
def test_apportioned_parts_sum_to_the_total_and_are_within_one_of_exact(total, shares):
    parts = apportion(total, shares)

    assert sum(parts) == total
    for part, share in zip(parts, shares, strict=True):
        assert abs(part - total * share / sum(shares)) < 1 + 1e-6


def drawn(sizes, fraction, seed=0, order=None):
    """Returns how many of each stratum are drawn; the vignettes of a stratum have one decision each."""
    order = order or [stratum for stratum, size in enumerate(sizes) for _ in range(size)]
    flags = drawn_for_test([[each == stratum for each in range(4)] for stratum in order], Fraction(fraction), seed)
    return [sum(flag for flag, each in zip(flags, order, strict=True) if each == stratum) for stratum in range(4)]


@pytest.mark.parametrize(
    ("sizes", "fraction", "quotas"),
    [
        # 0.1 of 110 = 11; 11 * (10, 37, 53, 10) / 110 = (1.0, 3.7, 5.3, 1.0): floors sum to 10, one left to 3.7
        ([10, 37, 53, 10], "0.1", [1, 4, 5, 1]),
        # 0.1 of 25 = 2.5, half up: 3; 3 * (5, 20) / 25 = (0.6, 2.4): one left to 0.6
        ([5, 20, 0, 0], "0.1", [1, 2, 0, 0]),
        # 0.1 of 4 = 0.4: none
        ([1, 1, 1, 1], "0.1", [0, 0, 0, 0]),
        ([3, 3, 3, 3], "0", [0, 0, 0, 0]),
        ([0, 0, 0, 0], "0.5", [0, 0, 0, 0]),
    ],
)
def test_each_stratum_gives_its_share_whatever_the_order_and_the_seed(sizes, fraction, quotas):
    backwards = [stratum for stratum, size in enumerate(sizes) for _ in range(size)][::-1]
    assert drawn(sizes, fraction) == drawn(sizes, fraction, seed=2**40, order=backwards) == quotas


def test_every_subset_is_equally_likely():
    subsets = dict.fromkeys(combinations(range(5), 2), 0)  # 10 subsets
    for seed in range(5_000):
        flags = drawn_for_test([[1, 0, 0, 0]] * 5, Fraction(2, 5), seed)
        subsets[tuple(member for member, flag in enumerate(flags) if flag)] += 1

    # 500 each expected, standard deviation sqrt(5000 * 0.1 * 0.9) = 21: five of them
    assert all(abs(count - 500) < 106 for count in subsets.values())


def test_the_draw_is_the_same_on_every_machine():
    # Mersenne Twister, seed 7: 0.324, 0.151, 0.651, 0.072, 0.536, 0.366, 0.058, ... drawn where it times left < wanted:
    # 3.89 < 4, 1.66 < 3, 6.51 > 2, 0.65 < 2, 4.29 > 1, 2.56 > 1, 0.35 < 1, and the quota is full
    flags = drawn_for_test([[1, 0, 0, 0]] * 12, Fraction(4, 12), seed=7)
    assert flags == [True, True, False, True, False, False, True] + [False] * 5


COUNTS = {"Red": 50, "Yellow": 200, "Green": 200, "Blue": 50}
MANY = {"vignettes": 300, "decisions": COUNTS}


@pytest.mark.parametrize(
    ("split", "change", "warnings"),
    [
        ("test", {}, 0),
        ("test", {"vignettes": 0, "decisions": dict.fromkeys(COUNTS, 0)}, 0),
        ("test", {"vignettes": 1}, 1),
        ("test", {"vignettes": 49}, 1),
        ("test", {"vignettes": 50}, 0),
        ("train", {"vignettes": 49}, 0),
        ("test", {"decisions": COUNTS | {"Red": 0, "Blue": 0}}, 2),  # one for each colour
        ("train", {"decisions": dict.fromkeys(COUNTS, 0) | {"Green": 500}}, 1),
        ("train", {"vignettes": 500}, 1),  # one decision each
    ],
)
def test_small_and_degenerate_splits_do_not_pass_in_silence(split, change, warnings):
    found = list(split_warnings({"train": MANY, "test": MANY} | {split: MANY | change}))
    assert len(found) == warnings
    assert all(split in warning for warning in found)
