"""Metrics by slice: by tag, by majority decision, by number of pieces of evidence; pure NumPy."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from schemas.triage import TRIAGE_DECISIONS
from trainer.evaluation.agreement import majority_decisions
from trainer.evaluation.metrics import Estimate, estimates_of_sums, resampled_interval, resampled_sums
from trainer.simulation.simulator import UNSEEN

MINIMUM_VIGNETTES = 10
"""Smaller slices of a tag are merged; others have no interval: that of a bootstrap of few vignettes is too narrow."""

BAND_ENDS = (4, 7, 10)
"""Most pieces of evidence of a vignette in each band but the last; the paper's mean vignette has 7."""

NONE, OTHER = "(none)", "(other)"
"""Vignettes without the tag; values of a tag that have too few vignettes each."""

BEHAVIOUR = ("questions", "evidence_seen")
"""Metrics that show whether the agent asks more."""


class Group(NamedTuple):
    """The vignettes of a slice."""

    by: str  # "majority", "evidence", "tag:KEY" for tags KEY=VALUE, "tag" for tags without a value
    value: str
    rows: np.ndarray  # int [n], n > 0


class SliceFigures(NamedTuple):
    """The metrics of a slice."""

    by: str
    value: str
    vignettes: int
    metrics: dict[str, Estimate]


class Contrast(NamedTuple):
    """A metric on the vignettes with a tag, on the others, and the difference of the means (with minus without)."""

    with_tag: Estimate
    without_tag: Estimate
    difference: Estimate


def groups(tags: Sequence[Sequence[str]], decision_counts: np.ndarray, evidence_counts: np.ndarray) -> list[Group]:
    """Returns the slices of V vignettes.

    Slices by majority decision (of equally frequent ones the most urgent) and by number of pieces of evidence divide
    the vignettes. A vignette with several tags of a key is in the slice of each. Values of a tag with fewer than
    `MINIMUM_VIGNETTES` are merged into `OTHER`, which may still be small; a key with only one slice is left out.

    Args:
        tags: of each vignette.
        decision_counts: `[V, 4]`.
        evidence_counts: int `[V]`.
    """
    majority, bands = majority_decisions(decision_counts), np.searchsorted(BAND_ENDS, evidence_counts)
    starts = (1, *(end + 1 for end in BAND_ENDS))
    labels = [f"{start}-{end}" for start, end in zip(starts, BAND_ENDS, strict=False)] + [f"{starts[-1]}+"]
    slices = [Group("majority", decision.label, np.flatnonzero(majority == decision)) for decision in TRIAGE_DECISIONS]
    slices += [Group("evidence", label, np.flatnonzero(bands == band)) for band, label in enumerate(labels)]
    return [group for group in slices if len(group.rows)] + _tag_groups(tags)


def slice_figures(metrics: Mapping[str, np.ndarray], chosen: Sequence[Group], seed: int) -> list[SliceFigures]:
    """Returns the metrics of each slice.

    Args:
        metrics: float `[V]` each, such as `trainer.evaluation.metrics.agent_metrics`.
        chosen: slices of the same vignettes.
        seed: of the bootstrap over the vignettes of a slice.
    """
    values = np.stack(list(metrics.values()), axis=1)  # [V, M]
    return [
        SliceFigures(
            group.by, group.value, len(group.rows), dict(zip(metrics, _means(values[group.rows], seed), strict=True))
        )
        for group in chosen
    ]


def unseen_contrast(
    metrics: Mapping[str, np.ndarray], tags: Sequence[Sequence[str]], seed: int
) -> dict[str, Contrast] | None:
    """Returns how the agent behaves on vignettes with the tag `unseen`, against the others.

    Paper, section "The agents adapt to unseen cases": does it ask more? The two groups are resampled apart.

    Args:
        metrics: float `[V]` each, of which `BEHAVIOUR` are compared.
        tags: of each vignette.
        seed: of the bootstrap.

    Returns:
        One contrast for each metric of `BEHAVIOUR`; None where all vignettes or none have the tag.
    """
    tagged = np.array([UNSEEN in names for names in tags], bool)
    if tagged.all() or not tagged.any():
        return None
    values = np.stack([metrics[name] for name in BEHAVIOUR], axis=1)
    sides = (values[tagged], values[~tagged])
    # With one seed, the draws of the two sides would be correlated.
    seeds = [int(drawn) for drawn in np.random.SeedSequence(seed).generate_state(2)]
    estimates = [_means(side, drawn) for side, drawn in zip(sides, seeds, strict=True)]
    resampled = [resampled_sums(side, drawn) / len(side) for side, drawn in zip(sides, seeds, strict=True)]
    enough = min(map(len, sides)) >= MINIMUM_VIGNETTES
    contrasts = {}
    for column, (name, with_tag, without) in enumerate(zip(BEHAVIOUR, *estimates, strict=True)):
        differences = resampled[0][:, column] - resampled[1][:, column]
        low, high = resampled_interval(differences) if enough else (None, None)
        contrasts[name] = Contrast(with_tag, without, Estimate(with_tag.mean - without.mean, low, high, len(tagged)))
    return contrasts


def _means(values: np.ndarray, seed: int) -> list[Estimate]:
    """Returns the estimated mean of each column of `values` `[n, M]`, without an interval if n is too small."""
    count = len(values)
    if count < MINIMUM_VIGNETTES:
        return [Estimate(float(mean), None, None, count) for mean in values.mean(axis=0)]
    estimates = estimates_of_sums(values, lambda sums: sums / count, [count] * values.shape[1], seed)
    return [estimate for estimate in estimates if estimate is not None]  # a mean is always defined


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
