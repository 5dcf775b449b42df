"""The vignettes of an input, once read: which are accepted, their splits, and the shards of a data directory."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from schemas.directories import SPLITS
from schemas.errors import InputError
from schemas.triage import DECISION_LABELS, NUM_DECISIONS
from trainer.data.source import Accepted, Outcome, Rejected, RejectLog
from trainer.data.split import SelectionSampler, majority, stratum_quotas
from trainer.data.tfrecord import ShardWriter, encode_example
from trainer.data.vignette import Vignette

SHARD_SIZE = 50_000
"""Vignettes in a shard; the last one of a split may have fewer."""


@dataclasses.dataclass(frozen=True)
class WriteOptions:
    """How the vignettes are divided."""

    test_fraction: Fraction
    seed: int
    shard_size: int = SHARD_SIZE


def accept(outcomes: Iterable[Outcome], log: RejectLog) -> tuple[list[Vignette], int]:
    """Returns the vignettes with new ids and the number of blank lines, and logs the rest."""
    vignettes: list[Vignette] = []
    places: dict[str, str] = {}  # where each id was first used
    blank_lines = 0
    for outcome in outcomes:
        if isinstance(outcome, Accepted):
            name = outcome.vignette.vignette_id
            if name not in places:
                places[name] = f"{outcome.line.file}:{outcome.line.number}"
                vignettes.append(outcome.vignette)
                continue
            outcome = Rejected(outcome.line, name, f"duplicate vignette_id: first used in {places[name]}")
        if outcome is None:
            blank_lines += 1
        else:
            log.add(outcome)
    return vignettes, blank_lines


def check_accepted(accepted: int, rejected: int, unit: str, allow_rejects: bool) -> None:
    """Checks whether what was accepted may be written.

    Args:
        accepted: number of vignettes.
        rejected: number of rejects.
        unit: of which each is one, such as "lines".
        allow_rejects: whether they may be left out.

    Raises:
        InputError: there are rejects, or no vignettes.
    """
    if rejected and not allow_rejects:
        raise InputError(f"{rejected:,} of {accepted + rejected:,} {unit} were rejected, and nothing was prepared")
    if not accepted:
        raise InputError("the input has no vignettes")


def write_splits(
    vignettes: Sequence[Vignette],
    options: WriteOptions,
    directory: pathlib.Path,
    tracked: Callable[[Iterable[Vignette]], Iterable[Vignette]] = iter,
) -> dict[str, Any]:
    """Draws the split of each vignette that has none, and writes the shards.

    Args:
        vignettes: in the order in which they are drawn and written.
        options: how to divide them.
        directory: where the shards go.
        tracked: passes the vignettes on, such as a progress bar.

    Returns:
        `data_fingerprint`, over the vignettes in order and their splits, and of each of the `splits` the number of
        `vignettes` and of clinicians' `decisions`.

    Raises:
        InputError: no vignette is left for training.
    """
    strata, given = [0] * NUM_DECISIONS, dict.fromkeys(SPLITS, 0)  # to be drawn, by majority decision; not to be drawn
    for vignette in vignettes:
        if vignette.split is None:
            strata[majority(vignette.decision_counts)] += 1
        else:
            given[vignette.split] += 1
    quotas = stratum_quotas(strata, options.test_fraction)
    sizes = {"train": given["train"] + sum(strata) - sum(quotas), "test": given["test"] + sum(quotas)}
    if not sizes["train"]:
        raise InputError(
            f"no vignette is left for training: {sizes['test']:,} in the test split: give more vignettes or a smaller "
            "--test-fraction"
        )
    sampler = SelectionSampler(strata, quotas, options.seed)
    decisions = {split: np.array([0] * NUM_DECISIONS) for split in SPLITS}
    fingerprint = hashlib.sha256()
    with (
        ShardWriter(directory, "train", sizes["train"], options.shard_size) as train,
        ShardWriter(directory, "test", sizes["test"], options.shard_size) as test,
    ):
        writers = {"train": train, "test": test}
        for vignette in tracked(vignettes):
            split = vignette.split or SPLITS[sampler.draw(majority(vignette.decision_counts))]
            serialized = encode_example(vignette)
            writers[split].write(serialized)
            fingerprint.update(f"{split} {len(serialized)}\n".encode() + serialized)
            decisions[split] += vignette.decision_counts
    return {
        "data_fingerprint": f"sha256:{fingerprint.hexdigest()}",
        "splits": {
            split: {
                "vignettes": sizes[split],
                "decisions": dict(zip(DECISION_LABELS, decisions[split].tolist(), strict=True)),
            }
            for split in SPLITS
        },
    }
