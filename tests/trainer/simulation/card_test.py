import numpy as np
import pytest

from trainer.simulation.card import NOTHING, Cards, card_sizes, read_cards, write_cards
from trainer.simulation.config import CardConfig, SimulationConfig
from trainer.simulation.draws import Draws, evenly_spread
from trainer.simulation.knowledge_tables import KnowledgeTables
from trainer.simulation.patients import draw_patients

COUNT = 3000
COLD, HEART_ATTACK, MISCARRIAGE = range(3)


@pytest.fixture
def tables(toy_knowledge):
    return KnowledgeTables(toy_knowledge, SimulationConfig(leak=1.0, prior_exponent=1.0, vigilance=0.0))


@pytest.fixture
def patients(tables):
    return draw_patients(tables, Draws(0, 0), COUNT)


def _write(tables, patients, sizes, **constants):
    wanted = np.tile(sizes, (len(patients.conditions), 1))
    return write_cards(tables, CardConfig(**constants), patients, wanted, Draws(0, 1))


def _on_card(tables, cells):
    table = np.zeros((len(cells), len(tables.codes) + 1), bool)
    np.put_along_axis(table, cells, True, axis=1)
    return table[:, :-1]


def test_a_card_has_only_true_evidence_and_none_twice(tables, patients):
    cards = _write(tables, patients, [3, 3, 2, 2])
    present, absent = _on_card(tables, cards.present), _on_card(tables, cards.absent)
    assert not (present & ~patients.present).any()
    assert not (absent & patients.present).any()
    assert not (absent & ~patients.possible).any()
    for cells, table in ((cards.present, present), (cards.absent, absent)):
        np.testing.assert_array_equal((cells != NOTHING).sum(axis=1), table.sum(axis=1))


def test_a_card_has_as_many_pieces_as_were_meant_where_there_are_as_many(tables, patients):
    cards = _write(tables, patients, [2, 1, 1, 0])
    symptoms = _on_card(tables, cards.present)[:, tables.symptoms].sum(axis=1)
    there = patients.present[:, tables.symptoms].sum(axis=1)
    np.testing.assert_array_equal(symptoms, np.minimum(there, 2))
    assert _on_card(tables, cards.present)[:, tables.risk_factors].sum() == COUNT  # everybody has an age
    assert (_on_card(tables, cards.absent)[:, tables.symptoms].sum(axis=1) == 1).all()
    assert not _on_card(tables, cards.absent)[:, tables.risk_factors].any()


def test_no_card_denies_an_age_a_sex_or_the_kind_of_a_pain(tables, patients):
    absent = _on_card(tables, _write(tables, patients, [1, 9, 1, 9]).absent)
    grouped = [tables.index(code) for code in ("child", "adult", "woman", "man", "mild_pain", "severe_pain")]
    assert not absent[:, grouped].any()


def test_a_card_denies_kinds_only_of_the_findings_on_it(tables, patients):
    cards = _write(tables, patients, [4, 9, 1, 0])
    present, absent = _on_card(tables, cards.present), _on_card(tables, cards.absent)
    chest_pain, crushing = tables.index("chest_pain"), tables.index("crushing_chest_pain")
    assert (absent[:, crushing] & present[:, chest_pain]).any()
    assert not (absent[:, crushing] & ~present[:, chest_pain]).any()


def test_the_more_salience_counts_the_more_informative_the_card(tables, patients):
    sick = patients.conditions == HEART_ATTACK
    shares = []
    for salience in (0.0, 1.0, 4.0):
        present = _on_card(tables, _write(tables, patients, [1, 0, 0, 0], salience=salience).present)
        both = sick & patients.present[:, tables.index("chest_pain")] & patients.present[:, tables.index("fatigue")]
        shares.append(present[both, tables.index("fatigue")].mean())
    assert shares[0] > shares[1] > shares[2]
    assert shares[2] < 0.02  # chest pain tells a heart attack, tiredness tells nothing


def test_red_flags_of_the_condition_are_written_first(tables, patients):
    cell = tables.index("sweating")
    flagged = (patients.conditions == HEART_ATTACK) & patients.present[:, cell]
    other = (patients.conditions == COLD) & patients.present[:, cell]
    first = _write(tables, patients, [3, 0, 0, 0], salience=0.0, red_flag_salience=20.0).present[:, 0]
    assert (first[flagged] == cell).all()
    assert not (first[other] == cell).all()


def test_what_is_denied_speaks_against_the_worrying_differential(tables, patients):
    cards = _write(tables, patients, [2, 1, 0, 0], salience=1.0, relevance=4.0)
    absent = _on_card(tables, cards.absent)
    colds = patients.conditions == COLD
    # A cold could be a heart attack: its signs are denied before a bleeding is.
    counts = {code: absent[colds, tables.index(code)].sum() for code in ("chest_pain", "sweating", "vaginal_bleeding")}
    assert counts["chest_pain"] > 10 * counts["vaginal_bleeding"]


@pytest.mark.parametrize(("mean", "sd"), [(3.0, 2.5), (3.0, 3.0**0.5), (3.0, 1.2), (0.34, 0.72)])
def test_sizes_have_the_mean_and_the_spread_that_are_wanted(mean, sd):
    config = CardConfig(symptoms_absent=(mean, sd))
    uniform = np.stack([evenly_spread(0, 0, 20_000, column) for column in range(4)], axis=1)
    sizes = card_sizes(config, uniform)[:, 1]
    assert sizes.mean() == pytest.approx(mean, rel=0.02)
    assert sizes.std() == pytest.approx(sd, rel=0.05)


def test_every_card_has_a_symptom():
    assert card_sizes(CardConfig(), np.full((1, 4), 1e-9))[0].tolist() == [1, 0, 0, 0]


def test_reading_multiplies_the_likelihoods_of_what_is_on_the_card(tables):
    cell = tables.index
    cards = Cards(
        np.array([[cell("fever"), cell("fever_over_39"), cell("man")], [cell("fever_over_39"), NOTHING, NOTHING]]),
        np.array([[cell("cough"), NOTHING], [NOTHING, NOTHING]]),
    )
    reading = read_cards(tables, cards)
    expected = (
        tables.log_present[cell("fever")]
        + tables.log_present_given_parent[cell("fever_over_39")]  # the fever is told already
        + tables.log_present[cell("man")]
        + tables.log_absent[cell("cough")]
    )
    np.testing.assert_allclose(reading.log_likelihood[0], expected)
    np.testing.assert_allclose(reading.log_likelihood[1], tables.log_present[cell("fever_over_39")])


def test_reading_counts_red_flags_and_risks_that_are_present(tables):
    cell = tables.index
    cards = Cards(np.array([[cell("sweating"), cell("smoker"), cell("fever")]]), np.array([[cell("severe_pain")]]))
    reading = read_cards(tables, cards)
    np.testing.assert_array_equal(
        reading.red_flags, [[0, 1, 1]]
    )  # sweating; fever, and no severe pain, in a miscarriage
    np.testing.assert_array_equal(reading.urgent_with, [[0, 1, 0]])
