import numpy as np
import pytest

from schemas.evidence import Evidence
from trainer.simulation.knowledge_base import CatalogueEntry
from trainer.simulation.knowledge_tables import NO_PARENT, EvidenceSampler, EvidenceTree


def _entry(code, parent="", exclusive=""):
    evidence = Evidence(code, "symptom", code, f"{code}?", parent=parent, exclusive=exclusive)
    return CatalogueEntry(evidence, "general", (), 0.1)


TREE = EvidenceTree(
    [_entry("pain"), _entry("cramp", "pain"), _entry("mild", "", "severity"), _entry("severe", "", "severity")]
)
PAIN, CRAMP, MILD, SEVERE = range(4)


def _draw(given_parent, uniform, **options):
    uniform = np.asarray(uniform, float)
    return EvidenceSampler(TREE, np.asarray([given_parent])).draw(np.zeros(len(uniform), int), uniform, **options)


def test_a_parent_outside_of_the_tree_does_not_count():
    assert EvidenceTree([_entry("cramp", "pain")]).parents == (NO_PARENT,)


def test_given_parent_divides_and_marginal_multiplies():
    marginal = np.array([[0.4, 0.1, 0.3, 0.2]])
    given = TREE.given_parent(marginal)
    np.testing.assert_allclose(given, [[0.4, 0.25, 0.3, 0.2]])  # .1 / .4
    np.testing.assert_allclose(TREE.marginal(given), marginal)


def test_a_child_of_impossible_evidence_is_impossible():
    assert TREE.given_parent(np.array([[0.0, 0.0, 0.3, 0.2]]))[0, CRAMP] == 0.0


def test_a_child_needs_its_parent():
    drawn = _draw([0.4, 0.25, 0, 0], [[0.39, 0.24, 0.5, 0.5], [0.41, 0.24, 0.5, 0.5], [0.39, 0.26, 0.5, 0.5]])
    np.testing.assert_array_equal(drawn[:, [PAIN, CRAMP]], [[True, True], [False, False], [True, False]])


@pytest.mark.parametrize(
    ("shares", "number", "expected"),
    [
        ((0.3, 0.2), 0.29, (True, False)),
        ((0.3, 0.2), 0.31, (False, True)),
        ((0.3, 0.2), 0.51, (False, False)),
        ((0.9, 0.6), 0.59, (True, False)),  # .9 / 1.5 = .6
        ((0.9, 0.6), 0.99, (False, True)),
    ],
)
def test_of_an_exclusive_group_one_number_decides(shares, number, expected):
    drawn = _draw([0, 0, *shares], [[0.5, 0.5, number, 0.0]])
    assert tuple(drawn[0, [MILD, SEVERE]]) == expected


def test_impossible_evidence_is_not_drawn_nor_its_children():
    possible = np.array([[False, True, True, True]])
    drawn = _draw([0.9, 0.9, 0.5, 0.1], [[0.1, 0.1, 0.1, 0.1]], possible=possible)
    np.testing.assert_array_equal(drawn, [[False, False, True, False]])
