"""The work of `triage powerset`'s workers: dividing and writing the rows of D_pow, with figures about each shard.

Each shard is expanded and written by one call, row by row, in constant memory. A vignette's shard depends on its id,
and the vignettes of a shard are sorted by id, so that the files do not depend on the number of workers or the order of
the vignettes.
"""

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import tensorflow as tf

from schemas import directories, whole_file
from trainer.supervised.powerset import expand, id_number
from trainer.vignettes.tfrecord import decode_example, encode_example, read_records


@dataclasses.dataclass(frozen=True)
class Plan:
    """What every worker has to know; the directories have the same paths for all of them."""

    staging: str  # directory of the finished shards
    scratch: str  # directory of unfinished shards, and of the figures of finished ones
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


def keyed_vignettes(path: str, plan: Plan) -> Iterator[tuple[str, bytes]]:
    """Yields the name of the output shard and the serialized tf.Example of each vignette of an input shard."""
    split, _, _, compressed = directories.shard_parts(pathlib.Path(path).name) or ("", 0, 0, False)
    names = plan.shard_names(split)
    for serialized in read_records(path, compressed):
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
    vignettes = sorted(map(decode_example, filter(None, members)), key=lambda vignette: vignette.vignette_id)
    scratch = pathlib.Path(plan.scratch)
    digest, by_evidence = hashlib.sha256(), [0]
    with (
        whole_file.path_replacing(pathlib.Path(plan.staging) / name, scratch) as unfinished,
        tf.io.TFRecordWriter(str(unfinished), "GZIP" if plan.compressed else "") as writer,
    ):
        for vignette in vignettes:
            pieces = len(vignette.present) + len(vignette.absent)
            by_evidence += [0] * (pieces + 1 - len(by_evidence))
            for row in expand(vignette, plan.seed, plan.sample):
                serialized = encode_example(row)
                writer.write(serialized)
                digest.update(f"{len(serialized)}\n".encode() + serialized)
                by_evidence[len(row.present) + len(row.absent)] += 1
    figures = ShardFigures(len(vignettes), by_evidence, digest.hexdigest())
    with whole_file.replacing(_figures_path(plan, name), scratch=scratch) as file:
        json.dump(figures._asdict(), file)


def finished_shards(plan: Plan) -> dict[str, ShardFigures]:
    """Returns the figures of the finished shards, by name, in the order of splits and shards."""
    names = [name for split in plan.shards for name in plan.shard_names(split)]
    paths = {name: _figures_path(plan, name) for name in names}
    return {
        name: ShardFigures(**json.loads(path.read_text(encoding="utf-8")))
        for name, path in paths.items()
        if path.exists()
    }


def _figures_path(plan: Plan, name: str) -> pathlib.Path:
    return pathlib.Path(plan.scratch) / f"{name}.json"
