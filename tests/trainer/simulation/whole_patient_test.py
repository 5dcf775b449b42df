import numpy as np
import pytest

from trainer.simulation.card import NOTHING, Cards
from trainer.simulation.config import SimulationConfig
from trainer.simulation.draws import Draws
from trainer.simulation.knowledge_tables import KnowledgeTables
from trainer.simulation.patients import Patients
from trainer.simulation.simulator import Simulator
from trainer.simulation.whole_patient import listed, whole_case


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
    return Patients(np.array([1]), possible, present)


def _codes(tables, cells):
    return [tables.codes[cell] for cell in cells if cell != NOTHING]


def test_the_whole_case_tells_all_that_does_not_follow_from_the_rest(tables, patient):
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
    vignette = listed(tables, patient, cards, Draws(0, 0))
    assert _codes(tables, vignette.present[0]) == ["chest_pain", "man", "severe_pain", "adult"]
    assert set(_codes(tables, vignette.absent[0])).isdisjoint(_codes(tables, vignette.present[0]))


def test_which_absences_are_listed_depends_on_how_common_they_are_alone(tables, patient, monkeypatch):
    monkeypatch.setattr("trainer.simulation.whole_patient.ABSENT", 1)
    count = 6000
    rows = Patients(*(np.repeat(part, count, axis=0) for part in patient))
    cards = Cards(np.full((count, 1), tables.index("chest_pain")), np.full((count, 1), NOTHING))
    drawn = listed(tables, rows, cards, Draws(3, 0)).absent[:, 0]
    weights = np.where(patient.present[0], 0.0, tables.frequency)
    shares = np.bincount(drawn, minlength=len(weights)) / count
    # Five standard errors of a share are at most 5 * sqrt(.25 / 6000) = .032.
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.032)


def test_whole_patients_are_those_of_the_cards(toy_knowledge):
    cards, whole = (Simulator(toy_knowledge, SimulationConfig(), 5, whole=kind).block(0) for kind in (False, True))
    for card, patient in zip(cards, whole, strict=True):
        assert card.tags == patient.tags
        assert set(card.present) <= set(patient.present)
        assert set(card.absent).isdisjoint(patient.present)
        assert len(card.decisions) == len(patient.decisions)
    assert cards[0].vignette_id == "s5-0000001"
    assert whole[0].vignette_id == "w5-0000001"


def test_everything_is_worth_much_more_than_the_complaint(toy_knowledge):
    """The panel reads the whole case: whoever knows the condition agrees more often than whoever knows the complaint.

    A track on which all answers together say no more than the first one could not tell a good question from a bad one.
    """
    vignettes = [v for n in range(4) for v in Simulator(toy_knowledge, SimulationConfig(), 0, whole=True).block(n)]

    def share_of_commonest(groups):
        counts = {}
        for vignette, group in zip(vignettes, groups, strict=True):
            of_group = counts.setdefault(group, [0, 0, 0, 0])
            for decision in vignette.decisions:
                of_group[decision] += 1
        return sum(map(max, counts.values())) / sum(map(sum, counts.values()))

    first = share_of_commonest([v.present[0] for v in vignettes])
    everything = share_of_commonest([frozenset(v.present) for v in vignettes])
    assert everything > first + 0.03


def test_the_complaint_is_a_symptom(toy_knowledge):
    symptoms = {entry.code for entry in toy_knowledge.catalogue.of_kind("symptom")}
    block = Simulator(toy_knowledge, SimulationConfig(), 1, whole=True).block(0)
    assert {vignette.present[0] for vignette in block} <= symptoms
