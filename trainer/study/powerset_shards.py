"""The work of `triage powerset`'s workers: dividing and writing the rows of D_pow, with figures about each shard.

Each shard is expanded and written by one call, row by row, in constant memory. A vignette's shard depends on its id,
and the vignettes of a shard are sorted by id, so that the files do not depend on the number of workers or the order of
the vignettes.
"""

import dataclasses
import hashlib
import io
import json
import pathlib
import posixpath
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import tensorflow as tf

from schemas import directories
from trainer.study.powerset import expand, id_number
from trainer.vignettes.tfrecord import decode_example, encode_example, read_records
from triage_runtime.storage import files


@dataclasses.dataclass(frozen=True)
class Plan:
    """What every worker has to know; folders are at an address, or have the same path for all of them."""

    staging: str  # folder of the finished shards
    scratch: str  # folder of unfinished shards, and of the figures of finished ones
    seed: int
    sample: float
    compressed: bool
    shards: dict[str, int]  # by split

    def shard_names(self, split: str) -> list[str]:
        """Returns the file names of a split's shards in order."""
        shards = self.shards[split]
        return [directories.shard_name(split, shard, shards, self.compressed) for shard in range(shards)]


class ShardFigures(NamedTuple):
    """Figures about a shard."""

    vignettes: int  # that its rows were made from
    rows_by_evidence: list[int]  # number of rows with 0, 1, 2, .. pieces of evidence
    sha256: str  # hexadecimal digest of its records

    @property
    def rows(self) -> int:
        """Records of the shard."""
        return sum(self.rows_by_evidence)


def keyed_vignettes(location: str, plan: Plan) -> Iterator[tuple[str, bytes]]:
    """Yields the name of the output shard and the serialized tf.Example of each vignette of an input shard.

    Raises:
        OSError: the shard cannot be read.
    """
    name = posixpath.basename(location)
    split, *_ = directories.shard_parts(name) or ("",)
    names = plan.shard_names(split)
    with tempfile.TemporaryDirectory(prefix="triage-") as folder:
        path = pathlib.Path(folder) / name
        files.fetch(location, path)
        for serialized in read_records(path):
            yield names[id_number(decode_example(serialized).vignette_id) % len(names)], serialized


def write_shard(group: tuple[str, Iterable[bytes]], plan: Plan) -> None:
    """Writes the rows of a shard's vignettes, and its figures.

    Two workers with the same shard do not disturb each other: they write the same bytes, and a file appears only when
    it is complete.

    Args:
        group: name of the shard, and its vignettes as serialized tf.Examples; b"" stands for none.
        plan: where it goes.

    Raises:
        OSError, tf.errors.OpError: it cannot be written.
    """
    name, members = group
    with tempfile.TemporaryDirectory(prefix="triage-") as folder:
        path = pathlib.Path(folder) / name
        figures = _write_rows(path, members, plan)
        with path.open("rb") as rows:
            files.replace(posixpath.join(plan.staging, name), rows, plan.scratch)
    content = json.dumps(figures._asdict()).encode()
    files.replace(_figures_location(plan, name), io.BytesIO(content), plan.scratch)


def _write_rows(path: pathlib.Path, members: Iterable[bytes], plan: Plan) -> ShardFigures:
    vignettes = sorted(map(decode_example, filter(None, members)), key=lambda vignette: vignette.vignette_id)
    digest, by_evidence = hashlib.sha256(), [0]
    with tf.io.TFRecordWriter(str(path), "GZIP" if plan.compressed else "") as writer:
        for vignette in vignettes:
            pieces = len(vignette.present) + len(vignette.absent)
            by_evidence += [0] * (pieces + 1 - len(by_evidence))
            for row in expand(vignette, plan.seed, plan.sample):
                serialized = encode_example(row)
                writer.write(serialized)
                digest.update(f"{len(serialized)}\n".encode() + serialized)
                by_evidence[len(row.present) + len(row.absent)] += 1
    return ShardFigures(len(vignettes), by_evidence, digest.hexdigest())


def finished_shards(plan: Plan, known: Mapping[str, ShardFigures] | None = None) -> dict[str, ShardFigures]:
    """Returns the figures of the finished shards, by name, in the order of splits and shards.

    Args:
        plan: where they are.
        known: some of them, which need not be read.

    Raises:
        OSError: they cannot be read.
    """
    names = [name for split in plan.shards for name in plan.shard_names(split)]
    there = {entry.location for entry in files.entries(f"{plan.scratch}/*")}
    read = dict(known or {})
    for name in names:
        location = _figures_location(plan, name)
        if name not in read and location in there:
            read[name] = ShardFigures(**json.loads(files.read(location) or b"{}"))
    return {name: read[name] for name in names if name in read}


def _figures_location(plan: Plan, name: str) -> str:
    return posixpath.join(plan.scratch, f"{name}.json")
