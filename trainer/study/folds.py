"""Selects vignettes in memory: a sample, or the folds of a cross-validation."""

import numpy as np

from trainer.vignettes.arrays import VignetteArrays


def concatenate(first: VignetteArrays, second: VignetteArrays) -> VignetteArrays:
    """Returns the vignettes of both, in order."""
    return VignetteArrays(
        vignette_ids=np.concatenate([first.vignette_ids, second.vignette_ids]),
        offsets=np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]]),
        signed_codes=np.concatenate([first.signed_codes, second.signed_codes]),
        decision_counts=np.concatenate([first.decision_counts, second.decision_counts]),
        tags=first.tags + second.tags,
    )


def select(vignettes: VignetteArrays, rows: np.ndarray) -> VignetteArrays:
    """Returns the vignettes at the places `rows`, int `[n]`, in that order."""
    lengths = np.diff(vignettes.offsets)[rows]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    shifts: np.ndarray = np.repeat(vignettes.offsets[rows] - offsets[:-1], lengths)
    return VignetteArrays(
        vignette_ids=vignettes.vignette_ids[rows],
        offsets=offsets,
        signed_codes=vignettes.signed_codes[np.arange(offsets[-1]) + shifts],
        decision_counts=vignettes.decision_counts[rows],
        tags=tuple(vignettes.tags[row] for row in rows),
    )


def sample_rows(vignettes: int, size: int, seed: int) -> np.ndarray:
    """Returns the places of `size` random vignettes (all if there are fewer), int `[size]` ascending."""
    if size >= vignettes:
        return np.arange(vignettes)
    return np.sort(np.random.default_rng(seed).choice(vignettes, size, replace=False))


def fold_rows(vignettes: int, folds: int, fold: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the places of the vignettes to train on and of those to test on, both ascending.

    Args:
        vignettes: number of vignettes, at least `folds`.
        folds: K; the folds of a seed are disjoint and together hold all vignettes; their sizes differ by at most 1.
        fold: the fold to test on, 0 to K - 1.
        seed: of the shuffle, the same for all folds of a cross-validation.
    """
    shuffled = np.random.default_rng(seed).permutation(vignettes)
    test = np.sort(np.array_split(shuffled, folds)[fold])
    return np.setdiff1d(np.arange(vignettes), test), test
