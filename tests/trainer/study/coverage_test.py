import numpy as np
import pytest
import scipy.sparse

from trainer.study.by_evidence import judge
from trainer.study.coverage import coverage_figures, distances
from trainer.study.supervised import PowersetRows


def states(*rows):
    return scipy.sparse.csr_matrix(np.array(rows, np.float32))


VISITED = states([1, 0, 0, 0], [1, -1, 0, 0])


def test_a_piece_differs_if_only_one_knows_it_or_the_answers_differ():
    found = distances(states([1, -1, 0, 0], [1, 1, 0, 0], [1, -1, 1, 1], [0, 0, 0, 0], [-1, 0, 0, 0]), VISITED)
    # [1 1] is one piece more than [1], and differs in one from [1 -1]; nothing is one piece less than [1].
    assert found.tolist() == [0, 1, 2, 1, 1]


def test_coverage_is_by_pieces_and_quality_by_distance():
    train = PowersetRows(
        states([0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [1, -1, 0, 0], [1, -1, 1, 1]),
        np.array([[0, 0, 1, 0]] * 5, np.uint8), np.arange(5),
    )  # fmt: skip
    judged = judge(lambda some: np.where(abs(some).sum(axis=1) > 2, [[1, 0, 0, 0]], [[0, 0, 1, 0]]), train)
    figures = coverage_figures(VISITED, train, train, judged, seed=0)
    assert figures["visited"] == 2
    assert figures["by_pieces"] == [
        {"pieces": 1, "states": 2, "visited": 0.5},
        {"pieces": 2, "states": 1, "visited": 1.0},
        {"pieces": 4, "states": 1, "visited": 0.0},
    ]
    # Distances: 1 (the empty one), 0, 2 (one for each of both pieces), 0, 2. It says Red only of the last: too urgent.
    assert [(each["distance"], each["states"]) for each in figures["by_distance"]] == [(0, 2), (1, 1), (2, 2)]
    assert [each["appropriateness"] for each in figures["by_distance"]] == pytest.approx([1.0, 1.0, 0.5])
    assert [each["safety"] for each in figures["by_distance"]] == [1.0, 1.0, 1.0]
