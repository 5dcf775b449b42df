"""Metrics by slice: by tag, majority decision, number of pieces of evidence, age, sex and any code; pure NumPy."""

import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats

from schemas.evidence import Vocabulary
from schemas.triage import TRIAGE_DECISIONS
from trainer.evaluation.agreement import majority_decisions
from trainer.evaluation.estimates import Estimate, Gap, SliceFigures
from trainer.evaluation.metrics import estimates_of_sums, summary

MINIMUM_VIGNETTES = 10
"""Smaller slices of a tag are merged; others have no interval: that of a bootstrap of few vignettes is too narrow."""

BAND_ENDS = (4, 7, 10)
"""Most pieces of evidence of a vignette in each band but the last; the paper's mean vignette has 7."""

NONE, OTHER = "(none)", "(other)"
"""Vignettes without the tag; values of a tag that have too few vignettes each."""

NOT_STATED = "(not stated)"
"""Vignettes that do not say."""

DEMOGRAPHICS = {"age": "age_", "sex": "sex_"}
"""How the codes of age bands and sexes begin, in the vocabularies of `triage simulate` and of DDXPlus."""

QUALITY = ("appropriateness", "safety")
FALSE_DISCOVERIES = 0.05
"""Expected share of the gaps that are named and due to chance. A share, not the chance of a single one (as with Holm's
correction): the gaps are where to look, and missing one costs more than looking in vain."""


class Group(NamedTuple):
    """The vignettes of a slice."""

    # "majority", "evidence", "tag:KEY" for tags KEY=VALUE, "tag" for tags without a value, "age", "sex", "code:CODE"
    by: str
    value: str
    rows: np.ndarray  # int [n], n > 0


def groups(tags: Sequence[Sequence[str]], decision_counts: np.ndarray, evidence_counts: np.ndarray) -> list[Group]:
    """Returns the slices of V vignettes.

    Slices by majority decision (of equally frequent ones the most urgent) and by number of pieces of evidence divide
    the vignettes. A vignette with several tags of a key is in the slice of each. Values of a tag with fewer than
    `MINIMUM_VIGNETTES` are merged into `OTHER`, which may still be small; a key with only one slice is left out.
    `evidence_counts` are int `[V]`, and a tag is such as `condition=flu`.
    """
    majority, bands = majority_decisions(decision_counts), np.searchsorted(BAND_ENDS, evidence_counts)
    starts = (1, *(end + 1 for end in BAND_ENDS))
    labels = [f"{start}-{end}" for start, end in zip(starts, BAND_ENDS, strict=False)] + [f"{starts[-1]}+"]
    slices = [Group("majority", decision.label, np.flatnonzero(majority == decision)) for decision in TRIAGE_DECISIONS]
    slices += [Group("evidence", label, np.flatnonzero(bands == band)) for band, label in enumerate(labels)]
    return [group for group in slices if len(group.rows)] + _tag_groups(tags)


def evidence_groups(
    offsets: np.ndarray, signed_codes: np.ndarray, vocabulary: Vocabulary, codes: Sequence[str] = ()
) -> list[Group]:
    """Returns the slices of V vignettes by age band, by sex, and by whether each of `codes` is present or absent.

    Age and sex have slices if the vocabulary has codes of them, see `DEMOGRAPHICS`, and a vignette names one. A slice
    of those that say nothing comes last. The evidence is that of `trainer.data.state.SignedRows`; `codes` are further
    ones that are to have slices.
    """
    owners: np.ndarray = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))

    def having(signed: int) -> np.ndarray:
        return np.unique(owners[signed_codes == signed])

    slices = []
    for by, beginning in DEMOGRAPHICS.items():
        cells = [cell for cell, code in enumerate(vocabulary.codes) if code.startswith(beginning)]
        slices.append([Group(by, vocabulary[cell].name, having(cell + 1)) for cell in cells])
    for code in codes:
        cell = vocabulary.index(code) + 1
        by = f"code:{code}"
        slices.append([Group(by, "present", having(cell)), Group(by, "absent", having(-cell))])
    return [group for division in slices for group in _with_the_rest(division, len(offsets) - 1)]


def _with_the_rest(division: Sequence[Group], vignettes: int) -> list[Group]:
    stated = [group for group in division if len(group.rows)]
    if not stated:
        return []
    rest = np.setdiff1d(np.arange(vignettes), np.concatenate([group.rows for group in stated]))
    return [*stated, Group(stated[0].by, NOT_STATED, rest)] if len(rest) else stated


def gaps(metrics: Mapping[str, np.ndarray], chosen: Sequence[Group], seed: int) -> tuple[list[Gap], int]:
    """Returns the slices in which the agent is worse than elsewhere, and the number of comparisons.

    Each comparison is a Welch test; of all of them, the Benjamini-Hochberg correction keeps those named by chance to a
    share of `FALSE_DISCOVERIES`. Slices with fewer than `MINIMUM_VIGNETTES`, or with fewer others, are left out.
    """
    values = np.stack([metrics[name] for name in QUALITY], axis=1)  # [V, 2]
    enough = range(MINIMUM_VIGNETTES, len(values) - MINIMUM_VIGNETTES + 1)
    compared = [group for group in chosen if len(group.rows) in enough]
    if not compared:
        return [], 0
    chances = np.array([_chance(values, group) for group in compared])  # [G, 2]
    named = scipy.stats.false_discovery_control(chances.ravel()).reshape(chances.shape) <= FALSE_DISCOVERIES
    worse = []
    for group, known in zip(compared, named, strict=True):
        for column in np.flatnonzero(known):
            difference = _difference(values[:, column], group, seed)
            if difference.high is not None and difference.high < 0:
                mean = float(values[group.rows, column].mean())
                others = mean - difference.mean
                worse.append(Gap(group.by, group.value, len(group.rows), QUALITY[column], mean, others, difference))
    return worse, len(compared) * len(QUALITY)


def _chance(values: np.ndarray, group: Group) -> np.ndarray:
    """Returns how likely a difference as large is if there is none, float `[M]`, for each column of values `[V, M]`."""
    inside = np.isin(np.arange(len(values)), group.rows)
    with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column that is the same everywhere shows no difference
        tested = scipy.stats.ttest_ind(values[inside], values[~inside], equal_var=False)
    return np.nan_to_num(np.asarray(tested.pvalue), nan=1.0)


def _difference(values: np.ndarray, group: Group, seed: int) -> Estimate:
    """Returns the mean of `values` `[V]` in a slice minus that elsewhere; vignettes of both are resampled together."""
    inside = np.isin(np.arange(len(values)), group.rows)
    parts = np.stack([inside, inside * values, ~inside, ~inside * values], axis=1)  # [V, 4]

    def difference(sums: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):  # a resample may miss a slice
            return sums[:, 1:2] / sums[:, :1] - sums[:, 3:] / sums[:, 2:3]

    [found] = estimates_of_sums(parts, difference, [len(values)], seed)
    return found or Estimate(0.0)  # defined, as the slice and the others have vignettes


def slice_figures(metrics: Mapping[str, np.ndarray], chosen: Sequence[Group], seed: int) -> list[SliceFigures]:
    """Returns the metrics, float `[V]` each, of each slice of the V vignettes."""
    figures = []
    for by, value, rows in chosen:
        there = {name: values[rows] for name, values in metrics.items()}
        few = {name: Estimate(float(values.mean()), None, None, len(rows)) for name, values in there.items()}
        means = few if len(rows) < MINIMUM_VIGNETTES else summary(there, seed)
        figures.append(SliceFigures(by, value, len(rows), means))
    return figures


def _tag_groups(tags: Sequence[Sequence[str]]) -> list[Group]:
    members: dict[str, dict[str, list[int]]] = {}
    for row, names in enumerate(tags):
        for name in names:
            key, equals, value = name.partition("=")
            by, label = (f"tag:{key}", value) if equals else ("tag", name)
            members.setdefault(by, {}).setdefault(label, []).append(row)
    slices: list[Group] = []
    for by in sorted(members):
        divided = _merged(by, members[by], len(tags))
        slices += divided if len(divided) > 1 else []
    return slices


def _merged(by: str, members: dict[str, list[int]], vignettes: int) -> list[Group]:
    """Returns the slices of one key, the largest first, then those without the tag, then the merged ones."""
    slices = [Group(by, value, np.unique(rows)) for value, rows in members.items()]
    slices.sort(key=lambda group: (-len(group.rows), group.value))
    without = np.setdiff1d(np.arange(vignettes), np.concatenate([group.rows for group in slices]))
    slices += [Group(by, NONE, without)] if len(without) else []
    large = [group for group in slices if len(group.rows) >= MINIMUM_VIGNETTES]
    small = [group for group in slices if len(group.rows) < MINIMUM_VIGNETTES]
    if len(small) < 2:  # nothing to merge
        return slices
    return [*large, Group(by, OTHER, np.unique(np.concatenate([group.rows for group in small])))]
