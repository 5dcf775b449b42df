"""Warnings about data from which an agent learns little, or whose test figures mean little."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from schemas.triage import DECISION_LABELS

FEW_TEST_VIGNETTES = 50
"""With fewer, the 95% interval of a share is wider than about 25 percentage points."""


class Weakness(enum.Enum):
    """A kind of warning."""

    FEW_TEST_VIGNETTES = enum.auto()
    ONE_COLOUR = enum.auto()
    MISSING_COLOUR = enum.auto()
    SINGLE_DECISIONS = enum.auto()


class SplitFacts(NamedTuple):
    """The facts about a split that warnings depend on."""

    vignettes: int
    decisions: Sequence[int]  # [4]: number of decisions for Red, Yellow, Green, Blue
    several_decisions: bool  # whether a vignette has more than one


class SplitWarning(NamedTuple):
    """A warning about a split."""

    weakness: Weakness
    split: str
    text: str


def split_warnings(splits: Mapping[str, SplitFacts]) -> Iterator[SplitWarning]:
    """Yields the warnings about the splits "train" and "test"."""
    test = splits["test"].vignettes
    if 0 < test < FEW_TEST_VIGNETTES:
        text = f"only {test} test vignettes: expected {FEW_TEST_VIGNETTES} or more, as figures on few vary by chance"
        yield SplitWarning(Weakness.FEW_TEST_VIGNETTES, "test", text)
    for split, facts in splits.items():
        given = [label for label, count in zip(DECISION_LABELS, facts.decisions, strict=True) if count]
        if len(given) == 1:
            text = f"all decisions in the {split} split are {given[0]}: there is nothing to distinguish"
            yield SplitWarning(Weakness.ONE_COLOUR, split, text)
        elif given:
            for label in (label for label in DECISION_LABELS if label not in given):
                yield SplitWarning(Weakness.MISSING_COLOUR, split, f"no decision in the {split} split is {label}")
        if facts.vignettes and not facts.several_decisions:
            text = f"each vignette in the {split} split has one decision: agreement of clinicians cannot be measured"
            yield SplitWarning(Weakness.SINGLE_DECISIONS, split, text)


def facts_of(stats: Mapping[str, Any]) -> SplitFacts:
    """Returns the facts in the statistics of a split, as stats.json holds them."""
    decisions = [stats["decisions"][label] for label in DECISION_LABELS]
    return SplitFacts(stats["vignettes"], decisions, sum(decisions) > stats["vignettes"])
