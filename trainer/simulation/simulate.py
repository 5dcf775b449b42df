"""`triage simulate`: makes a data directory of vignettes from the clinical knowledge base."""

import argparse
import collections
import concurrent.futures
import multiprocessing
import os
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from rich import progress as bars
from rich.console import Console

from schemas import figures, locations
from schemas.errors import InputError
from schemas.knowledge_base import KnowledgeBase
from trainer.progress import progress_bar, say, tracked
from trainer.runs.output import OutputDirectory, describe
from trainer.simulation.simulation_config import SimulationConfig
from trainer.simulation.simulator import BLOCK, Simulator
from trainer.vignettes.vignette import Vignette

PAPER_VIGNETTES, PAPER_TEST = 1374, 126
_FORMAT = "simulate"
_BLOCKS_WORTH_A_PROCESS = 8
_BLOCKS_AHEAD = 4  # of each process; bounds what is in memory
_WORKER: list[Simulator] = []


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage simulate`."""
    parser.add_argument("--out", type=locations.result, required=True, metavar="DIR", help="data directory to make")
    parser.add_argument(
        "--vignettes", type=int, default=PAPER_VIGNETTES, metavar="N", help=f"how many (default {PAPER_VIGNETTES})"
    )
    parser.add_argument("--seed", type=int, default=0, help="of every random draw (default 0)")
    parser.add_argument(
        "--test-fraction", type=_fraction, default=Fraction(PAPER_TEST, PAPER_VIGNETTES), metavar="F",
        help=f"share of the test split, such as 0.1 or 1/10 (default {PAPER_TEST}/{PAPER_VIGNETTES})",
    )  # fmt: skip
    parser.add_argument(
        "--unseen-conditions", nargs="+", default=[], metavar="CODE", help="conditions that only the test split has"
    )
    parser.add_argument("--knowledge", type=locations.source, metavar="DIR", help="another knowledge base")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="that work at once (default: all cores)"
    )
    parser.add_argument("--shard-size", type=int, default=50_000, help="vignettes in a shard (default 50000)")
    parser.add_argument("--gzip", action="store_true", help="compress the shards")
    parser.add_argument("--overwrite", action="store_true", help="replace the data directory that stands at --out")
    figures.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    import tensorflow as tf

    _check(arguments)
    output = OutputDirectory(arguments.out, arguments.overwrite)
    knowledge = KnowledgeBase.load(arguments.knowledge)
    config = SimulationConfig()
    simulator = Simulator(knowledge, config, arguments.seed, arguments.unseen_conditions)
    console = Console(stderr=True)
    try:
        with output, progress_bar(console) as bar:
            vignettes = _simulated(simulator, arguments.vignettes, arguments.processes)
            stats = _header(knowledge, config, arguments) | _write(vignettes, knowledge, arguments, output, bar)
            describe(output.staging, knowledge.catalogue.vocabulary, stats)
            output.publish()
    except (OSError, tf.errors.OpError) as error:
        raise InputError(f"--out {arguments.out}: cannot write: {error}") from error
    if arguments.json != "-":
        sizes = ", ".join(f"{split} {part['vignettes']:,}" for split, part in stats["splits"].items())
        say(Console(), f"{locations.shown(arguments.out)}: {sizes} vignettes of {len(knowledge.conditions)} conditions")
    figures.write({"out": locations.shown(arguments.out), **stats}, arguments.json)
    return 0


def _write(
    vignettes: Iterator[Vignette],
    knowledge: KnowledgeBase,
    arguments: argparse.Namespace,
    output: OutputDirectory,
    bar: bars.Progress,
) -> dict[str, Any]:
    from trainer.vignettes.passes import WriteOptions, second_pass
    from trainer.vignettes.spool import Spool

    with Spool(output.scratch, knowledge.catalogue.vocabulary) as spool:
        for vignette in tracked(vignettes, bar, "simulate", arguments.vignettes):
            spool.add(vignette)
    options = WriteOptions(arguments.test_fraction, arguments.seed, arguments.shard_size, arguments.gzip)
    return second_pass(tracked(spool, bar, "write", spool.count), spool, options, output.staging)


def _simulated(simulator: Simulator, count: int, processes: int) -> Iterator[Vignette]:
    """Yields `count` vignettes in order, whatever the number of processes."""
    blocks = -(-count // BLOCK)
    processes = min(processes, blocks // _BLOCKS_WORTH_A_PROCESS)
    made = _in_processes(simulator, blocks, processes) if processes > 1 else map(simulator.block, range(blocks))
    for number, block in enumerate(made):
        yield from block[: count - number * BLOCK]


def _in_processes(simulator: Simulator, blocks: int, processes: int) -> Iterator[list[Vignette]]:
    # Spawned, not forked: TensorFlow's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, context, _start_worker, (simulator,)) as pool:
        waiting: collections.deque[concurrent.futures.Future[list[Vignette]]] = collections.deque()
        for number in range(blocks):
            waiting.append(pool.submit(_block, number))
            if len(waiting) > processes * _BLOCKS_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _start_worker(simulator: Simulator) -> None:
    _WORKER.append(simulator)


def _block(number: int) -> list[Vignette]:
    return _WORKER[0].block(number)


def _header(knowledge: KnowledgeBase, config: SimulationConfig, arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "sources": [],
        "options": {
            "knowledge_fingerprint": knowledge.fingerprint,
            "unseen_conditions": sorted(arguments.unseen_conditions),
            "simulation": config.to_dict(),
        },
        "seed": arguments.seed,
        "test_fraction": float(arguments.test_fraction),
        "vocabulary_fingerprint": knowledge.catalogue.vocabulary.fingerprint,
    }


def _fraction(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number such as 0.1 or 1/10") from None


def _check(arguments: argparse.Namespace) -> None:
    for name, least in (("vignettes", 1), ("seed", 0), ("processes", 1), ("shard_size", 1)):
        value = getattr(arguments, name)
        if value < least:
            raise InputError(f"--{name.replace('_', '-')} {value}: expected {least} or more")
    if arguments.seed >= 2**64:
        raise InputError(f"--seed {arguments.seed}: expected less than 2^64")
    if not 0 <= arguments.test_fraction < 1:
        raise InputError(f"--test-fraction {arguments.test_fraction}: expected 0 or more, and less than 1")
