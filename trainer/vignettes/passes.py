"""The two passes of `triage prepare`: input lines to a spool, and the spool to the shards of a data directory."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Iterable, Mapping, Sequence
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
    draw = SplitDraw(spool.strata, spool.given, options)
    fingerprint = Fingerprint()
    shard_size, compressed = options.shard_size, options.compressed
    with (
        ShardWriter(directory, "train", draw.sizes["train"], shard_size, compressed) as train,
        ShardWriter(directory, "test", draw.sizes["test"], shard_size, compressed) as test,
    ):
        for summary, serialized in spooled:
            split = draw.split_of(summary)
            (train if split == "train" else test).write(serialized)
            fingerprint.add(split, serialized)
    return {"data_fingerprint": str(fingerprint), "splits": draw.stats()}


class SplitDraw:
    """Draws the split of each vignette, in their order, and counts.

    Args:
        strata: number of vignettes whose split is drawn, by majority decision.
        given: number of vignettes with a given split, by split.
        options: how to divide them.

    Raises:
        InputError: no vignette is left for training, or there would be too many shards.
    """

    def __init__(self, strata: Sequence[int], given: Mapping[str, int], options: WriteOptions):
        quotas = stratum_quotas(strata, options.test_fraction)
        self.sizes = {"train": given["train"] + sum(strata) - sum(quotas), "test": given["test"] + sum(quotas)}
        """Number of vignettes, by split."""
        _check_sizes(self.sizes, options.shard_size)
        self._sampler = SelectionSampler(strata, quotas, options.seed)
        self._stats = {split: SplitStats() for split in SPLITS}

    def split_of(self, summary: Summary) -> str:
        """Returns the split of the next vignette."""
        split = summary.split or SPLITS[self._sampler.draw(majority(summary.decision_counts))]
        self._stats[split].add(summary)
        return split

    def stats(self) -> dict[str, Any]:
        """Returns the statistics of the `splits`."""
        return {split: self._stats[split].to_dict() for split in SPLITS}


class Fingerprint:
    """The data fingerprint, over the vignettes in order and their splits; `str` of it once all are added."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, split: str, serialized: bytes) -> None:
        """Adds the serialized tf.Example of a vignette."""
        self._hash.update(f"{split} {len(serialized)}\n".encode() + serialized)

    def __str__(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


def check_accepted(accepted: int, rejected: int, unit: str, allow_rejects: bool) -> None:
    """Checks after the first pass whether the second one may follow.

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


def _check_sizes(sizes: dict[str, int], shard_size: int) -> None:
    if not sizes["train"]:
        raise InputError(
            f"no vignette is left for training: {sizes['test']:,} in the test split: give more vignettes or a smaller "
            "--test-fraction"
        )
    if max(sizes.values()) > MAX_SHARDS * shard_size:
        raise InputError(f"--shard-size {shard_size}: would make more than {MAX_SHARDS:,} shards: give a larger size")
