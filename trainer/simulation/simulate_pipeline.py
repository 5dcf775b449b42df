"""Simulating as an Apache Beam pipeline: the simulator's blocks become blocks of vignettes, then a data directory."""

from collections.abc import Callable, Iterator

import apache_beam as beam

from schemas.evidence import Vocabulary
from trainer.simulation.simulator import BLOCK, Simulator
from trainer.vignettes.assembly import Plan, assemble
from trainer.vignettes.blocks import Block, write_block
from trainer.vignettes.rejects import RejectLog
from trainer.vignettes.spool import Spool

UNIT = 40
"""Number of the simulator's blocks that a worker makes at a time."""


def build(
    pipeline: beam.Pipeline, count: int, make: Callable[[], Simulator], vocabulary: Vocabulary, plan: Plan
) -> None:
    """Adds the steps to a pipeline that makes `count` vignettes; `make` makes the simulator."""
    blocks = (
        pipeline
        | "units" >> beam.Create(list(range(0, -(-count // BLOCK), UNIT)))
        | "spread units" >> beam.Reshuffle()
        | "simulate" >> beam.ParDo(Simulate(count, make, vocabulary, plan))
    )
    assemble(blocks, plan)


class Simulate(beam.DoFn):
    """Writes vignettes with a simulator that each process of a worker makes: its tables are too large to be sent.

    Args:
        count: number of all vignettes.
        make: makes the simulator.
        vocabulary: of the vignettes.
        plan: where they go.
    """

    def __init__(self, count: int, make: Callable[[], Simulator], vocabulary: Vocabulary, plan: Plan):
        self._count, self._make, self._vocabulary, self._plan = count, make, vocabulary, plan

    def setup(self) -> None:
        """Makes the simulator."""
        self._simulator = self._make()

    def process(self, first: int) -> Iterator[Block]:
        """Yields the block of the vignettes from the simulator's block `first` on.

        Raises:
            OSError: a file cannot be written.
        """

        def fill(spool: Spool, log: RejectLog) -> int:
            del log
            for number in range(first, min(first + UNIT, -(-self._count // BLOCK))):
                for vignette in self._simulator.block(number)[: self._count - number * BLOCK]:
                    spool.add(vignette)
            return 0

        yield write_block(f"{first:015d}", self._plan.scratch, self._vocabulary, fill)
