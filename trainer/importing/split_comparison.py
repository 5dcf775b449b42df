"""Compares the training split of a data directory with its test split."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import scipy.stats

from schemas.evidence import Vocabulary
from schemas.triage import DECISION_LABELS, NUM_DECISIONS
from trainer.importing.anomalies import Findings, Kind, Place
from trainer.vignettes.split import majority
from trainer.vignettes.split_warnings import SplitFacts, split_warnings

DRIFT_P_VALUE = 0.01
DRIFT_DIFFERENCE = 0.05
"""Classes have drifted if the chi-squared test of the vignettes' majority decisions gives p below `DRIFT_P_VALUE`
(chance does not explain the difference) and a colour's share of all decisions differs by more than `DRIFT_DIFFERENCE`
(among many vignettes, even the slightest difference is significant)."""


class SplitTally:
    """Counts the decisions of a split and remembers its evidence."""

    def __init__(self) -> None:
        self.vignettes = 0
        self.decisions: np.ndarray = np.zeros(NUM_DECISIONS, np.int64)
        self.majorities: np.ndarray = np.zeros(NUM_DECISIONS, np.int64)  # of vignettes that have decisions
        self.several_decisions = False  # whether a vignette has more than one
        self.first_places: dict[str, Place] = {}  # by evidence code

    def add(self, codes: Iterable[str], decision_counts: Sequence[int], place: Place) -> None:
        """Adds a vignette: its evidence, present or absent, and the counts of its decisions `[4]`."""
        self.vignettes += 1
        for code in codes:
            if code not in self.first_places:
                self.first_places[code] = place
        if any(decision_counts):
            self.decisions += decision_counts
            self.several_decisions |= sum(decision_counts) > 1
            self.majorities[majority(decision_counts)] += 1


def check_sizes(tallies: Mapping[str, SplitTally], findings: Findings) -> None:
    """Adds warnings about small and degenerate splits to `findings`."""
    facts = {
        split: SplitFacts(tally.vignettes, tally.decisions.tolist(), tally.several_decisions)
        for split, tally in tallies.items()
    }
    for warning in split_warnings(facts):
        findings.add(Kind[warning.weakness.name], Place(warning.split), warning.text)


def compare(train: SplitTally, test: SplitTally, vocabulary: Vocabulary, findings: Findings) -> None:
    """Adds evidence that is only in test or unused, and drifted classes, to `findings`."""
    for code, place in test.first_places.items():
        if train.vignettes and code not in train.first_places:
            findings.add(Kind.ONLY_IN_TEST, place, code)
    unused = [code for code in vocabulary.codes if code not in train.first_places and code not in test.first_places]
    for code in unused:
        findings.add(Kind.UNUSED_EVIDENCE, Place("vocabulary.csv"), code)
    for label, shares in drifted(train, test).items():
        detail = f"{label}: {shares[0]:.1%} of the decisions in training, {shares[1]:.1%} in test"
        findings.add(Kind.CLASS_DRIFT, Place("test"), detail)


def drifted(train: SplitTally, test: SplitTally) -> dict[str, tuple[float, float]]:
    """Returns the share of each drifted colour among all decisions in training and in test."""
    majorities = np.stack([train.majorities, test.majorities])
    majorities = majorities[:, majorities.any(axis=0)]
    if majorities.shape[1] < 2 or not majorities.any(axis=1).all():
        return {}
    if scipy.stats.chi2_contingency(majorities).pvalue >= DRIFT_P_VALUE:
        return {}
    shares = np.stack([split.decisions / split.decisions.sum() for split in (train, test)])  # [2, 4]
    far = np.abs(shares[0] - shares[1]) > DRIFT_DIFFERENCE
    return {label: (shares[0, i], shares[1, i]) for i, label in enumerate(DECISION_LABELS) if far[i]}
