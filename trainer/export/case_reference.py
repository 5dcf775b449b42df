"""The cases in the training data as a version decides them, with which `triage monitor` compares served cases."""

import numpy as np

from schemas.errors import InputError
from schemas.reference import Reference
from schemas.triage import DECISION_LABELS
from trainer.export.policy import LoadedVersion, play
from trainer.vignettes.arrays import VignetteArrays
from trainer.vignettes.tfrecord import DataDirectory

SPLIT = "train"


def case_reference(version: LoadedVersion, data: DataDirectory, seed: int) -> Reference | None:
    """Returns what is known and decided when `version` triages each vignette of the training split once.

    Args:
        version: the version.
        data: a data directory of whole vignettes.
        seed: of the evidence orders.

    Returns:
        The counts; None if the split cannot be played: it is empty, or has vignettes without evidence or with evidence
        that the version does not know.
    """
    vignettes = data.read(SPLIT)
    lengths = np.diff(vignettes.offsets)
    if not len(lengths) or lengths.min() < 1:
        return None
    try:
        outcomes = play(version, vignettes, data.vocabulary, [seed])
    except InputError:
        return None
    seen = np.minimum(outcomes.evidence_seen[0], lengths)
    present, absent = _expected(vignettes, seen / lengths, data)
    decisions = np.bincount(outcomes.decisions[0], minlength=len(DECISION_LABELS))
    pieces = np.bincount(seen)
    return Reference(
        source="vignettes of the training split, as far as the version asked about them",
        cases=len(lengths),
        present=present,
        absent=absent,
        urgencies=dict(zip(DECISION_LABELS, decisions.astype(float).tolist(), strict=True)),
        pieces={number: float(count) for number, count in enumerate(pieces.tolist()) if count},
    )


def _expected(
    vignettes: VignetteArrays, known: np.ndarray, data: DataDirectory
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns the expected number of cases in which each code is known to be present, and to be absent.

    The evidence of a vignette comes in random order, so each piece is known with the same probability, `known` `[V]`.
    """
    weights: np.ndarray = np.repeat(known, np.diff(vignettes.offsets))
    codes: np.ndarray = vignettes.signed_codes.astype(np.int64)
    counts = []
    for chosen in (codes > 0, codes < 0):
        sums = np.bincount(np.abs(codes[chosen]) - 1, weights[chosen], minlength=len(data.vocabulary))
        counts.append({data.vocabulary[int(cell)].code: round(float(sums[cell]), 3) for cell in np.flatnonzero(sums)})
    return counts[0], counts[1]
