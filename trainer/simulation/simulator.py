"""Simulates vignettes block by block; a block depends only on the seed and its number."""

import concurrent.futures
import dataclasses
import multiprocessing
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import threadpoolctl

from schemas.triage import TRIAGE_DECISIONS, Action
from trainer.data.vignette import Vignette
from trainer.simulation.card import NOTHING, STREAM, Cards, card_sizes, everything, read_cards, whole_case, write_cards
from trainer.simulation.config import SimulationConfig
from trainer.simulation.draws import Draws, evenly_spread
from trainer.simulation.knowledge_base import KnowledgeBase
from trainer.simulation.knowledge_tables import KnowledgeTables
from trainer.simulation.panel import Panel
from trainer.simulation.patients import Population, draw_patients

BLOCK = 500
"""Number of vignettes simulated together. Changing it changes the vignettes of a seed."""

_DECISIONS_COLUMN = 4


class Simulator:
    """Makes vignettes of a knowledge base.

    With `whole_test`, the share of the test split, it makes complete patients in place of cards, see
    `trainer.simulation.card`; these vignettes say which split they belong to.
    """

    def __init__(
        self, knowledge: KnowledgeBase, config: SimulationConfig, seed: int, whole_test: Fraction | None = None
    ):
        self._tables = KnowledgeTables(knowledge, config)
        self._config = config
        self._seed = seed
        self._whole_test = whole_test
        self._panel = Panel(self._tables, config, seed)
        self._decisions = np.cumsum(config.decisions_per_vignette) / sum(config.decisions_per_vignette)

    @threadpoolctl.threadpool_limits.wrap(limits=1)  # the matrices are small, and each core has a process
    def block(self, number: int) -> list[Vignette]:
        """Returns the `BLOCK` vignettes from `number * BLOCK` on."""
        draws = Draws(self._seed, number)
        first = number * BLOCK
        spread = np.stack([evenly_spread(self._seed, first, BLOCK, column) for column in range(5)], axis=1)
        patients = draw_patients(self._tables, draws, BLOCK)
        sizes = card_sizes(self._config.card, spread[:, :_DECISIONS_COLUMN])
        cards = write_cards(self._tables, self._config.card, patients, sizes, draws)
        clinicians = 1 + (self._decisions[None, :] <= spread[:, _DECISIONS_COLUMN, None]).sum(axis=1)
        if self._whole_test is not None:
            return self._whole_patients(first, patients, cards, clinicians)
        counts = self._panel.decide(read_cards(self._tables, cards), clinicians, draws)
        return [
            self._vignette(first + row, int(patients.conditions[row]), cards, row, counts[row]) for row in range(BLOCK)
        ]

    def _whole_patients(self, first: int, patients: Population, cards: Cards, clinicians: np.ndarray) -> list[Vignette]:
        draws = Draws(self._seed, STREAM + first // BLOCK)
        evidence = read_cards(self._tables, whole_case(self._tables, patients))
        counts = self._panel.decide(evidence, clinicians, draws)
        listed = everything(self._tables, patients, cards, draws)
        vignettes, share = [], self._whole_test or Fraction(0)
        for row, place in enumerate(range(first, first + BLOCK)):
            test = int((place + 1) * share) > int(place * share)  # so that its members are evenly spread
            vignette = self._vignette(place, int(patients.conditions[row]), listed, row, counts[row])
            named = vignette.vignette_id.replace("s", "w", 1)
            vignettes.append(dataclasses.replace(vignette, vignette_id=named, split="test" if test else "train"))
        return vignettes

    def _vignette(self, place: int, condition: int, cards: Cards, row: int, counts: np.ndarray) -> Vignette:
        described = self._tables.knowledge.conditions[condition]
        return Vignette(
            vignette_id=f"s{self._seed}-{place + 1:07d}",
            present=self._codes(cards.present[row]),
            absent=self._codes(cards.absent[row]),
            decisions=_decisions(counts),
            tags=(f"condition={described.code}", f"system={described.system}"),
        )

    def _codes(self, cells: np.ndarray) -> tuple[str, ...]:
        return tuple(self._tables.codes[cell] for cell in cells if cell != NOTHING)


def _decisions(counts: np.ndarray) -> tuple[Action, ...]:
    return tuple(decision for decision in TRIAGE_DECISIONS for _ in range(counts[decision]))


_BLOCKS_WORTH_A_PROCESS = 8
_WORKER: list[Simulator] = []


def simulated(simulator: Simulator, count: int, processes: int) -> Iterator[Vignette]:
    """Yields `count` vignettes in order, regardless of the number of processes."""
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
