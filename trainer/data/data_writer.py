"""Writes vignettes as the shards of a data directory, each in its split."""

import hashlib
import pathlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from schemas.directories import SPLITS
from schemas.errors import InputError
from schemas.triage import TRIAGE_DECISIONS
from trainer.data.split import drawn_for_test
from trainer.data.tfrecord import encode_example, write_shards
from trainer.data.vignette import Vignette

SHARD_SIZE = 50_000
"""Vignettes in a shard; the last one of a split may have fewer."""


def write_splits(
    vignettes: Sequence[Vignette],
    directory: pathlib.Path,
    test_fraction: Fraction,
    seed: int,
    tracked: Callable[[Iterable[Vignette]], Iterable[Vignette]] = iter,
    shard_size: int = SHARD_SIZE,
) -> dict[str, Any]:
    """Draws the split of each vignette that has none, and writes the shards.

    Of the vignettes without a split, the share `test_fraction` goes to the test split; `seed` decides which. `tracked`
    passes the vignettes on, such as a progress bar.

    Returns:
        `data_fingerprint`, over the vignettes in order and their splits, and of each of the `splits` the number of
        `vignettes` and of clinicians' `decisions`.

    Raises:
        InputError: no vignette is left for training.
    """
    undecided = [vignette.decision_counts for vignette in vignettes if vignette.split is None]
    drawn = iter(drawn_for_test(undecided, test_fraction, seed))
    splits = [vignette.split or SPLITS[next(drawn)] for vignette in vignettes]
    if "train" not in splits:
        raise InputError(
            f"no vignette is left for training: {len(splits):,} in the test split: give more vignettes or a smaller "
            "--test-fraction"
        )
    records: dict[str, list[bytes]] = {split: [] for split in SPLITS}
    decisions: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
    fingerprint = hashlib.sha256()
    for split, vignette in zip(splits, tracked(vignettes), strict=True):
        serialized = encode_example(vignette)
        records[split].append(serialized)
        fingerprint.update(f"{split} {len(serialized)}\n".encode() + serialized)
        decisions[split].update(decision.label for decision in vignette.decisions)
    for split in SPLITS:
        write_shards(directory, split, records[split], shard_size)
    return {
        "data_fingerprint": f"sha256:{fingerprint.hexdigest()}",
        "splits": {
            split: {
                "vignettes": len(records[split]),
                "decisions": {decision.label: decisions[split][decision.label] for decision in TRIAGE_DECISIONS},
            }
            for split in SPLITS
        },
    }
