import pytest

from trainer.data.vignette import Vignette
from trainer.simulation.config import SimulationConfig
from trainer.simulation.simulator import BLOCK, Simulator, simulated


@pytest.fixture
def make(toy_knowledge):
    return lambda seed=0: Simulator(toy_knowledge, SimulationConfig(), seed)


def test_a_block_of_a_seed_is_always_the_same_and_of_another_seed_another(make):
    first = make().block(3)
    assert len(first) == BLOCK
    assert make().block(3) == first
    bare = lambda vignettes: [(v.present, v.absent, v.decisions) for v in vignettes]  # noqa: E731
    assert bare(make(seed=1).block(3)) != bare(first)
    assert bare(make().block(4)) != bare(first)


def test_a_vignette_can_be_prepared(make, toy_knowledge):
    symptoms = {entry.code for entry in toy_knowledge.catalogue.of_kind("symptom")}
    ids = set()
    for vignette in make().block(0) + make().block(1):
        assert isinstance(vignette, Vignette)
        assert symptoms.intersection(vignette.present)
        assert not set(vignette.present) & set(vignette.absent)
        assert 1 <= len(vignette.decisions) <= 11
        assert list(vignette.decisions) == sorted(vignette.decisions)
        ids.add(vignette.vignette_id)
    assert len(ids) == 2 * BLOCK
    assert "s0-0000001" in ids
    assert "s0-0001000" in ids


def test_tags_name_condition_and_system(make, toy_knowledge):
    codes = {f"condition={condition.code}" for condition in toy_knowledge.conditions}
    assert {vignette.tags[0] for vignette in make().block(0)} == codes
    assert {vignette.tags[1] for vignette in make().block(0)} == {"system=toy"}


@pytest.mark.slow  # each process loads all modules
def test_the_number_of_processes_changes_nothing(toy_knowledge):
    count = 16 * BLOCK + 7  # enough blocks for two processes, and a last block that is cut
    simulator = Simulator(toy_knowledge, SimulationConfig(), seed=5)
    assert list(simulated(simulator, count, processes=2)) == list(simulated(simulator, count, processes=1))
