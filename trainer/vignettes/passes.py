"""The two passes of `triage prepare`: input lines to a spool, and the spool to the shards of a data directory."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from schemas.directories import SPLITS
from schemas.errors import InputError
from trainer.vignettes.rejects import RejectLog
from trainer.vignettes.source import Accepted, Outcome, Rejected
from trainer.vignettes.split import SelectionSampler, majority, stratum_quotas
from trainer.vignettes.split_stats import SplitStats
from trainer.vignettes.spool import IdRegistry, Spool, Summary
from trainer.vignettes.tfrecord import ShardWriter

MAX_SHARDS = 99_999
"""The highest number of five digits, as in a shard's name."""


@dataclasses.dataclass(frozen=True)
class WriteOptions:
    """How the second pass divides the vignettes."""

    test_fraction: Fraction
    seed: int
    shard_size: int
    compressed: bool


def first_pass(outcomes: Iterable[Outcome], spool: Spool, ids: IdRegistry, log: RejectLog) -> int:
    """Spools the vignettes with new ids, and logs the rest.

    Returns:
        The number of blank lines.
    """
    blank_lines = 0
    for outcome in outcomes:
        if isinstance(outcome, Accepted):
            place = ids.claim(outcome.vignette.vignette_id, f"{outcome.line.file}:{outcome.line.number}")
            if place is None:
                spool.add(outcome.vignette)
                continue
            reason = f"duplicate vignette_id: first used in {place}"
            outcome = Rejected(outcome.line, outcome.vignette.vignette_id, reason)
        if outcome is None:
            blank_lines += 1
        else:
            log.add(outcome)
    return blank_lines


def second_pass(
    spooled: Iterable[tuple[Summary, bytes]], spool: Spool, options: WriteOptions, directory: pathlib.Path
) -> dict[str, Any]:
    """Draws the split and writes the shards.

    Args:
        spooled: the items of `spool`, as a progress bar passes them on.
        spool: for the number of vignettes in each stratum.
        options: how to divide them.
        directory: where the shards go.

    Returns:
        `data_fingerprint` and the statistics of the `splits`.

    Raises:
        InputError: no vignette is left for training, or there would be too many shards.
    """
    quotas = stratum_quotas(spool.strata, options.test_fraction)
    sizes = {"train": spool.given["train"] + sum(spool.strata) - sum(quotas), "test": spool.given["test"] + sum(quotas)}
    _check_sizes(sizes, options.shard_size)
    sampler = SelectionSampler(spool.strata, quotas, options.seed)
    stats = {split: SplitStats() for split in SPLITS}
    fingerprint = hashlib.sha256()
    shard_size, compressed = options.shard_size, options.compressed
    with (
        ShardWriter(directory, "train", sizes["train"], shard_size, compressed) as train,
        ShardWriter(directory, "test", sizes["test"], shard_size, compressed) as test,
    ):
        for summary, serialized in spooled:
            split = summary.split or SPLITS[sampler.draw(majority(summary.decision_counts))]
            (train if split == "train" else test).write(serialized)
            stats[split].add(summary)
            fingerprint.update(f"{split} {len(serialized)}\n".encode() + serialized)
    return {
        "data_fingerprint": f"sha256:{fingerprint.hexdigest()}",
        "splits": {split: stats[split].to_dict() for split in SPLITS},
    }


def _check_sizes(sizes: dict[str, int], shard_size: int) -> None:
    if not sizes["train"]:
        raise InputError(
            f"no vignette is left for training: {sizes['test']:,} in the test split: give more vignettes or a smaller "
            "--test-fraction"
        )
    if max(sizes.values()) > MAX_SHARDS * shard_size:
        raise InputError(f"--shard-size {shard_size}: would make more than {MAX_SHARDS:,} shards: give a larger size")
