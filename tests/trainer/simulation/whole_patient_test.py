from fractions import Fraction

import numpy as np
import pytest

from trainer.simulation.card import NOTHING, Cards, everything, whole_case
from trainer.simulation.config import SimulationConfig
from trainer.simulation.draws import Draws
from trainer.simulation.knowledge_tables import KnowledgeTables
from trainer.simulation.patients import Population
from trainer.simulation.simulator import Simulator


@pytest.fixture
def tables(toy_knowledge):
    return KnowledgeTables(toy_knowledge, SimulationConfig())


@pytest.fixture
def patient(tables):
    """A man with pain in the chest, who cannot bleed as `vaginal_bleeding` says."""
    present = np.zeros((1, len(tables.codes)), bool)
    present[0, [tables.index(code) for code in ("chest_pain", "severe_pain", "adult", "man")]] = True
    possible = np.ones_like(present)
    possible[0, tables.index("vaginal_bleeding")] = False
    return Population(np.array([1]), possible, present)


def _codes(tables, cells):
    return [tables.codes[cell] for cell in cells if cell != NOTHING]


def test_the_whole_case_has_all_that_does_not_follow_from_the_rest(tables, patient):
    case = whole_case(tables, patient)
    assert set(_codes(tables, case.present[0])) == {"chest_pain", "severe_pain", "adult", "man"}
    absent = set(_codes(tables, case.absent[0]))
    assert "crushing_chest_pain" in absent  # its parent is present, so that this is news
    assert "fever" in absent
    assert "fever_over_39" not in absent  # follows from no fever
    assert not absent & {"mild_pain", "child", "woman"}  # follow from the member that is present
    assert "vaginal_bleeding" not in absent  # impossible, not denied


def test_a_vignette_lists_the_complaint_first_and_then_the_card_and_then_all_else(tables, patient):
    cards = Cards(np.array([[tables.index("man"), tables.index("chest_pain"), NOTHING]]), np.array([[NOTHING]]))
    vignette = everything(tables, patient, cards, Draws(0, 0))
    assert _codes(tables, vignette.present[0]) == ["chest_pain", "man", "severe_pain", "adult"]
    assert _codes(tables, vignette.absent[0]) == []


def test_whole_patients_are_those_of_the_cards(toy_knowledge):
    cards, whole = (
        Simulator(toy_knowledge, SimulationConfig(), 5, whole_test=share).block(0) for share in (None, Fraction(1, 4))
    )
    for card, patient in zip(cards, whole, strict=True):
        assert card.tags == patient.tags
        assert set(card.present) <= set(patient.present)
        assert not patient.absent  # in training as in the test: what is not listed is absent
        assert len(card.decisions) == len(patient.decisions)
    assert (cards[0].vignette_id, cards[0].split) == ("s5-0000001", None)
    assert (whole[0].vignette_id, whole[0].split) == ("w5-0000001", "train")
    assert [patient.split for patient in whole[:8]] == ["train", "train", "train", "test"] * 2


def test_everything_is_worth_much_more_than_the_complaint(toy_knowledge):
    """The panel reads the whole case: whoever knows all of it agrees more often than whoever knows the complaint.

    A track on which all answers together say no more than the first one could not tell a good question from a bad one.
    """
    simulator = Simulator(toy_knowledge, SimulationConfig(), 0, whole_test=Fraction(999, 1000))
    vignettes = [v for n in range(4) for v in simulator.block(n) if v.split == "test"]

    def share_of_commonest(groups):
        counts = {}
        for vignette, group in zip(vignettes, groups, strict=True):
            of_group = counts.setdefault(group, [0, 0, 0, 0])
            for decision in vignette.decisions:
                of_group[decision] += 1
        return sum(map(max, counts.values())) / sum(map(sum, counts.values()))

    first = share_of_commonest([v.present[0] for v in vignettes])
    everything_known = share_of_commonest([frozenset(v.present) for v in vignettes])
    assert everything_known > first + 0.03
