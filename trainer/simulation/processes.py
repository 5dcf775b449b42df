"""Simulates on all cores of this machine."""

import concurrent.futures
import multiprocessing
from collections.abc import Iterator

from trainer.simulation.simulator import BLOCK, Simulator
from trainer.vignettes.vignette import Vignette

_BLOCKS_WORTH_A_PROCESS = 8
_WORKER: list[Simulator] = []


def simulated(simulator: Simulator, count: int, processes: int) -> Iterator[Vignette]:
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
        yield from pool.map(_block, range(blocks))


def _start_worker(simulator: Simulator) -> None:
    _WORKER.append(simulator)


def _block(number: int) -> list[Vignette]:
    return _WORKER[0].block(number)
