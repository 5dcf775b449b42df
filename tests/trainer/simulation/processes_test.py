"""Several processes make the vignettes that one makes, in the same order."""

import pytest

from trainer.simulation.config import SimulationConfig
from trainer.simulation.simulator import BLOCK, Simulator, simulated


@pytest.mark.slow  # each process loads all modules
def test_the_number_of_processes_changes_nothing(toy_knowledge):
    count = 16 * BLOCK + 7  # enough blocks for two processes, and a last block that is cut
    simulator = Simulator(toy_knowledge, SimulationConfig(), seed=5)
    assert list(simulated(simulator, count, processes=2)) == list(simulated(simulator, count, processes=1))
