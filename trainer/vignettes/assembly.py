"""Blocks of vignettes become a data directory: the end of a pipeline of Apache Beam.

One worker draws the split, for which it reads the summary of each vignette in the order of the input; then all of them
write the shards, each from the blocks that it needs.
"""

import bisect
import dataclasses
import io
import itertools
import json
import pathlib
import posixpath
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import apache_beam as beam
import tensorflow as tf

from schemas import directories
from schemas.beam import files
from schemas.directories import SPLITS
from schemas.errors import InputError
from trainer.vignettes.blocks import Block, join_rejects, records, summaries
from trainer.vignettes.passes import Fingerprint, SplitDraw, WriteOptions, check_accepted

_DRAWN, _SPLITS, _FINGERPRINT = "drawn.json", "splits", "fingerprint"
"""Files of the scratch folder: what the draw found, the split of each vignette as a byte, and the data fingerprint."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What every worker has to know."""

    staging: str  # folder of the data directory
    scratch: str  # folder of blocks and unfinished files
    how: WriteOptions
    unit: str = "vignettes"  # what is accepted or rejected
    allow_rejects: bool = False


@dataclasses.dataclass(frozen=True)
class Run:
    """Blocks one after the other, and where their splits are."""

    names: tuple[str, ...]
    vignettes: tuple[int, ...]  # in each
    first: int  # vignettes before the first block


@dataclasses.dataclass(frozen=True)
class Task:
    """A file of the data directory, or the data fingerprint."""

    name: str
    run: Run
    split: str = ""  # of a shard
    skipped: int = 0  # of a shard: vignettes of its split in the run that belong to the one before
    vignettes: int = 0  # of a shard


def assemble(blocks: beam.PCollection, plan: Plan) -> None:
    """Adds the steps from blocks to a data directory without its description, see `result`."""
    _ = (
        blocks
        | "all blocks" >> beam.combiners.ToList()
        | "draw" >> beam.FlatMap(draw, plan)
        | "spread files" >> beam.Reshuffle()
        | "write" >> beam.Map(write, plan)
    )


def result(plan: Plan) -> dict[str, Any]:
    """Returns what the pipeline found.

    Returns:
        `fault`, a line of text or None, `rejected` and `blank_lines`, and `origins`, the SHA-256 of each input file by
        its place; without a fault also `written`, which is what `trainer.vignettes.passes.second_pass` returns.

    Raises:
        InputError: the workers have not left all files.
        OSError: a file cannot be read.
    """
    drawn, fingerprint = (files.read(posixpath.join(plan.scratch, name)) for name in (_DRAWN, _FINGERPRINT))
    found: dict[str, Any] = json.loads(drawn or b"{}")
    there = {posixpath.basename(entry.location) for entry in files.entries(f"{plan.staging}/*")}
    if not found or not there.issuperset(found["files"]) or (found["fault"] is None and fingerprint is None):
        raise InputError("the workers have not left all of their files: run again")
    if found["fault"] is None:
        found["written"] = {"data_fingerprint": (fingerprint or b"").decode(), "splits": found.pop("splits")}
    return found


def draw(blocks: Iterable[Block], plan: Plan) -> Iterator[Task]:
    """Draws the split of all vignettes, and yields what is to be written.

    Raises:
        OSError: a file cannot be read or written.
    """
    ordered = sorted(blocks)
    fault = next((block.fault for block in ordered if block.fault), None)
    rejected = [block for block in ordered if block.rejected and not fault]
    tasks = [Task(directories.REJECTS, _run(rejected))] if rejected else []
    found: dict[str, Any] = {
        "fault": fault,
        "rejected": sum(block.rejected for block in rejected),
        "blank_lines": sum(block.blank_lines for block in ordered),
        "origins": dict(block.origin for block in ordered if block.origin),
    }
    if fault is None:
        filled = [block for block in ordered if block.vignettes]
        try:
            check_accepted(sum(block.vignettes for block in filled), found["rejected"], plan.unit, plan.allow_rejects)
            found["splits"], shards = _drawn(filled, plan)
            tasks += [*shards, Task(_FINGERPRINT, _run(filled))]
        except InputError as error:
            found["fault"] = str(error)
    found["files"] = [task.name for task in tasks if task.name != _FINGERPRINT]
    files.replace(posixpath.join(plan.scratch, _DRAWN), io.BytesIO(json.dumps(found).encode()), plan.scratch)
    yield from tasks


def _drawn(blocks: Sequence[Block], plan: Plan) -> tuple[dict[str, Any], list[Task]]:
    """Writes the split of each vignette; returns the statistics and the shards."""
    strata = [sum(column) for column in zip(*(block.strata for block in blocks), strict=True)]
    given = [sum(column) for column in zip(*(block.given for block in blocks), strict=True)]
    split_draw = SplitDraw(strata, dict(zip(SPLITS, given, strict=True)), plan.how)
    counts: dict[str, list[int]] = {split: [] for split in SPLITS}  # by block
    with tempfile.TemporaryFile() as file:
        for block in blocks:
            drawn = bytes(SPLITS.index(split_draw.split_of(summary)) for summary in summaries(block, plan.scratch))
            file.write(drawn)
            for number, split in enumerate(SPLITS):
                counts[split].append(drawn.count(number))
        file.seek(0)
        files.replace(posixpath.join(plan.scratch, _SPLITS), file, plan.scratch)
    shards = [shard for split in SPLITS for shard in _shards(blocks, split, counts[split], plan.how)]
    return split_draw.stats(), shards


def _shards(blocks: Sequence[Block], split: str, counts: Sequence[int], how: WriteOptions) -> Iterator[Task]:
    """Yields the shards of a split, of which the blocks have `counts` vignettes."""
    reached = list(itertools.accumulate(counts))  # vignettes of the split up to the end of each block
    before = [0, *itertools.accumulate(block.vignettes for block in blocks)]
    vignettes = reached[-1]
    shards = -(-vignettes // how.shard_size)
    for shard in range(shards):
        start, end = shard * how.shard_size, min((shard + 1) * how.shard_size, vignettes)
        first, last = bisect.bisect_right(reached, start), bisect.bisect_left(reached, end)
        name = directories.shard_name(split, shard, shards, how.compressed)
        skipped = start - (reached[first] - counts[first])
        yield Task(name, _run(blocks[first : last + 1], before[first]), split, skipped, end - start)


def _run(blocks: Sequence[Block], first: int = 0) -> Run:
    return Run(tuple(block.name for block in blocks), tuple(block.vignettes for block in blocks), first)


def write(task: Task, plan: Plan) -> None:
    """Writes a file of the data directory, or the fingerprint.

    Raises:
        OSError, tf.errors.OpError: a file cannot be read or written.
    """
    with tempfile.TemporaryDirectory(prefix="triage-") as folder:
        path = pathlib.Path(folder) / task.name
        if task.name == directories.REJECTS:
            with path.open("wb") as file:
                join_rejects(task.run.names, plan.scratch, file)
        elif task.name == _FINGERPRINT:
            fingerprint = Fingerprint()
            for split, serialized in _vignettes(task.run, plan.scratch):
                fingerprint.add(split, serialized)
            path.write_text(str(fingerprint), encoding="utf-8")
        else:
            own = (each for split, each in _vignettes(task.run, plan.scratch) if split == task.split)
            with tf.io.TFRecordWriter(str(path), "GZIP" if plan.how.compressed else "") as writer:
                for serialized in itertools.islice(own, task.skipped, task.skipped + task.vignettes):
                    writer.write(serialized)
        target = plan.scratch if task.name == _FINGERPRINT else plan.staging
        content: IO[bytes]
        with path.open("rb") as content:
            files.replace(posixpath.join(target, task.name), content, plan.scratch)


def _vignettes(run: Run, scratch: str) -> Iterator[tuple[str, bytes]]:
    """Yields the split and the serialized tf.Example of each vignette of a run."""
    first = run.first
    for name, vignettes in zip(run.names, run.vignettes, strict=True):
        with files.opened(posixpath.join(scratch, _SPLITS)) as file:
            file.seek(first)
            drawn = file.read(vignettes)
        first += vignettes
        yield from zip((SPLITS[number] for number in drawn), records(name, scratch), strict=True)
