"""The advice of an agent as a table that the R package symptomcheckR reads: a row for each checker and vignette."""

import csv
import pathlib
from collections.abc import Iterator, Mapping

import numpy as np

from schemas.errors import InputError
from schemas.triage import DECISION_LABELS, NUM_DECISIONS
from trainer.evaluation.agreement import majority_decisions
from trainer.vignettes.arrays import VignetteArrays
from triage_runtime.storage.whole_file import removed_unless_written

COLUMNS = (
    "App_name",
    "Vignette_id",
    "Goldstandard_solution",
    "Triage_advice_from_app",
    "Correct_Triage_Advice_provided_from_app",
)
"""As in the package's own data set; the last one is TRUE or FALSE."""
AGENT, RULED, CLINICIAN = "agent", "agent with safety rules", "clinician"


def write(
    path: pathlib.Path,
    decisions: Mapping[str, np.ndarray],
    vignettes: VignetteArrays,
    minimum_decisions: int,
    seed: int,
) -> None:
    """Writes the advice on the vignettes with enough decisions.

    Of each vignette, one clinician is drawn, whose decision is advice like that of the agents. What most of the others
    decided is the right solution for all. If no vignette has enough decisions, it is what most clinicians decided, and
    the table has no clinician.

    Args:
        path: of the file.
        decisions: int `[K, V]` of each agent by its name; the table has those in the first evidence order.
        vignettes: V of them.
        minimum_decisions: at least 2.
        seed: of the draw.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        with removed_unless_written(path), path.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(COLUMNS)
            table.writerows(_rows(decisions, vignettes, minimum_decisions, seed))
    except OSError as error:
        raise InputError(f"--symptomcheckr {path}: cannot write: {error.strerror or error}") from error


def _rows(
    decisions: Mapping[str, np.ndarray], vignettes: VignetteArrays, minimum_decisions: int, seed: int
) -> Iterator[tuple[str, str, str, str, str]]:
    counts: np.ndarray = vignettes.decision_counts.astype(np.int64)
    advice = {name: each[0] for name, each in decisions.items()}
    rows: np.ndarray = np.flatnonzero(counts.sum(axis=1) >= minimum_decisions)
    right = majority_decisions(counts)
    if len(rows):
        drawn = _drawn(counts, seed)
        right = majority_decisions(counts - np.eye(NUM_DECISIONS, dtype=np.int64)[drawn])
        advice[CLINICIAN] = drawn
    else:
        rows = np.arange(len(counts))
    for name, advised in advice.items():
        for row in rows:
            correct = "TRUE" if advised[row] == right[row] else "FALSE"
            labels = DECISION_LABELS[right[row]], DECISION_LABELS[advised[row]]
            yield name, str(vignettes.vignette_ids[row]), *labels, correct


def _drawn(counts: np.ndarray, seed: int) -> np.ndarray:
    """Returns the decision of one clinician of each row of `counts` `[V, 4]`, drawn uniformly, int `[V]`."""
    places = np.random.default_rng(seed).random(len(counts)) * counts.sum(axis=1)
    return (places[:, np.newaxis] >= counts.cumsum(axis=1)).sum(axis=1)
