"""Draws the test split, and warns of splits from which an agent learns little or whose figures mean little.

The draw is stratified by majority decision, with exact counts: selection sampling (Knuth, The Art of Computer
Programming, vol. 2, section 3.4.2, Algorithm S).
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from schemas.triage import DECISION_LABELS, TRIAGE_DECISIONS, Action

FEW_TEST_VIGNETTES = 50
"""With fewer, the 95% interval of a share is wider than about 25 percentage points."""


def majority(decision_counts: Sequence[int]) -> Action:
    """Returns the most frequent of the triage decisions `[4]`; among equals, the most urgent."""
    return TRIAGE_DECISIONS[decision_counts.index(max(decision_counts))]


def apportion(total: int, shares: Sequence[float]) -> list[int]:
    """Divides `total` in proportion to `shares`, which are not negative and not all 0, by largest remainder.

    Returns:
        One number for each share. Equal remainders (to nine digits, as shares are often rounded sums) go to the earlier
        share first.
    """
    whole = sum(shares)
    divided = [divmod(total * share, whole) for share in shares]
    parts = [int(quotient) for quotient, _ in divided]
    by_remainder = sorted(range(len(parts)), key=lambda i: -round(divided[i][1] / whole, 9))  # stable: ties in order
    for i in by_remainder[: total - sum(parts)]:
        parts[i] += 1
    return parts


def drawn_for_test(decision_counts: Sequence[Sequence[int]], test_fraction: Fraction, seed: int) -> list[bool]:
    """Returns which vignettes are drawn for the test split.

    Their number is `test_fraction` of all, rounded half up, and is divided among the majority decisions in proportion
    to their frequency. Every subset of a stratum with the wanted size is equally likely. The draw depends only on the
    seed, 0 or more, and on the order of the vignettes.
    """
    strata = list(map(majority, decision_counts))
    left = [strata.count(decision) for decision in TRIAGE_DECISIONS]
    wanted = apportion(math.floor(test_fraction * len(strata) + Fraction(1, 2)), left) if strata else left
    # The only method among Python's and NumPy's generators that guarantees the same numbers in every version.
    uniform = random.Random(seed).random  # noqa: S311
    drawn = []
    for stratum in strata:
        drawn.append(uniform() * left[stratum] < wanted[stratum])
        left[stratum] -= 1
        wanted[stratum] -= drawn[-1]
    return drawn


def split_warnings(splits: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yields the warnings about the splits "train" and "test", whose statistics are as stats.json holds them."""
    test = splits["test"]["vignettes"]
    if 0 < test < FEW_TEST_VIGNETTES:
        yield f"only {test} test vignettes: expected {FEW_TEST_VIGNETTES} or more, as fewer give unreliable figures"
    for split, stats in splits.items():
        given = [label for label in DECISION_LABELS if stats["decisions"][label]]
        if len(given) == 1:
            yield f"all decisions in the {split} split are {given[0]}: there is nothing to learn"
        elif given:
            for label in (label for label in DECISION_LABELS if label not in given):
                yield f"no decision in the {split} split is {label}"
        if stats["vignettes"] and sum(stats["decisions"].values()) <= stats["vignettes"]:
            yield f"each vignette in the {split} split has one decision: agreement of clinicians cannot be measured"
