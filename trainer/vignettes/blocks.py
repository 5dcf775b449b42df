"""Blocks of vignettes: what the workers of a cluster make in any order, and what a data directory is made from.

A block is a run of the input. Its files depend on nothing else, and each has its name when it is whole: a worker that
repeats another one's work writes the same bytes.
"""

import dataclasses
import pathlib
import posixpath
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from schemas import directories
from schemas.beam import files
from schemas.directories import SPLITS
from schemas.evidence import Vocabulary
from trainer.vignettes.rejects import RejectLog
from trainer.vignettes.spool import RECORDS, SUMMARIES, Spool, Summary, read_summaries
from trainer.vignettes.tfrecord import read_records

_FILES = (RECORDS, SUMMARIES, directories.REJECTS)


@dataclasses.dataclass(frozen=True, order=True)
class Block:
    """What is known about a block; blocks sort as the input does."""

    name: str  # which those of its files begin with
    vignettes: int = 0
    strata: tuple[int, ...] = ()  # [4]: vignettes whose split will be drawn, by majority decision
    given: tuple[int, ...] = ()  # [2]: vignettes with a given split
    rejected: int = 0
    blank_lines: int = 0
    origin: tuple[str, str] | None = None  # the place of the input file among all, and its SHA-256
    fault: str | None = None  # why the input cannot be used; there are no files then


def write_block(
    name: str,
    scratch: str,
    vocabulary: Vocabulary,
    fill: Callable[[Spool, RejectLog], int],
    origin: tuple[str, str] | None = None,
) -> Block:
    """Writes the files of a block.

    Args:
        name: of the block.
        scratch: the folder of all blocks.
        vocabulary: distinguishes symptoms from risk factors.
        fill: adds the vignettes and the rejects, and returns the number of blank lines.
        origin: the place of the input file among all, and its SHA-256.

    Raises:
        OSError: a file cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="triage-") as temporary:
        folder = pathlib.Path(temporary)
        with RejectLog(folder / directories.REJECTS, lambda text: None) as log, Spool(folder, vocabulary) as spool:
            blank_lines = fill(spool, log)
        for path in map(folder.joinpath, _FILES):
            if path.exists():
                with path.open("rb") as content:
                    files.replace(_location(scratch, name, path.name), content, scratch)
    given = tuple(spool.given[split] for split in SPLITS)
    return Block(name, spool.count, tuple(spool.strata), given, log.count, blank_lines, origin)


def summaries(block: Block, scratch: str) -> Iterator[Summary]:
    """Yields the summary of each vignette."""
    with files.opened(_location(scratch, block.name, SUMMARIES)) as file:
        yield from read_summaries(file)


def records(name: str, scratch: str) -> Iterator[bytes]:
    """Yields the serialized tf.Example of each vignette of a block."""
    with tempfile.TemporaryDirectory(prefix="triage-") as folder:
        path = pathlib.Path(folder) / RECORDS
        files.fetch(_location(scratch, name, RECORDS), path)
        yield from read_records(path)


def join_rejects(names: Iterable[str], scratch: str, file: IO[bytes]) -> None:
    """Writes the rejects of blocks one after the other."""
    for name in names:
        with files.opened(_location(scratch, name, directories.REJECTS)) as rejects:
            file.writelines(rejects)


def _location(scratch: str, name: str, file: str) -> str:
    return posixpath.join(scratch, f"{name}.{file}")
