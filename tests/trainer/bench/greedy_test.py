import time

import numpy as np
import pytest

from trainer.bench import greedy
from trainer.bench.settings import BenchVignettes, Settings, save_vignettes

RED, YELLOW, GREEN, ASK = 0, 1, 2, 4
# The first vignette has evidence 0 and 1, the second evidence 2 alone, absent.
TWO = BenchVignettes(np.array([0, 2, 3]), np.array([1, 2, -3], np.int32), np.array([[1, 0, 0, 0], [0, 0, 1, 0]]))


def by_number_of_pieces(*actions, best=YELLOW):
    """Q-values that prefer an action for each number of known pieces, and of the decisions the one given."""

    def q_values(states):
        values = np.zeros([len(states), 5], np.float32)
        values[:, best] = 0.5
        values[np.arange(len(states)), [actions[known - 1] for known in np.count_nonzero(states, axis=1)]] = 1.0
        return values

    return q_values


def test_the_agent_asks_until_it_prefers_a_decision():
    made = greedy.decisions(by_number_of_pieces(ASK, RED), TWO, 3, max_questions=23, orders=[1, 2])
    # The second vignette has no second piece: asking on changes nothing, until the best decision is forced.
    assert made.tolist() == [[RED, YELLOW]] * 2


def test_the_question_limit_forces_the_best_decision():
    made = greedy.decisions(by_number_of_pieces(ASK, RED), TWO, 3, max_questions=0, orders=[1])
    assert made.tolist() == [[YELLOW, YELLOW]]


def test_evidence_comes_in_an_order_of_its_seed_and_with_its_sign():
    seen = []

    def q_values(states):
        seen.append(states.copy())
        return np.tile([0, 0, 0, 0, 1.0], [len(states), 1])

    greedy.decisions(q_values, TWO, 3, max_questions=23, orders=range(20))
    first = np.array([states[0] for states in seen if len(states) == 2])
    assert {tuple(state) for state in first} == {(1, 0, 0), (0, 1, 0)}
    assert all(states[1].tolist() == [0, 0, -1] for states in seen if len(states) == 2)


def test_a_tie_goes_to_the_decision_and_to_the_more_urgent_one():
    made = greedy.decisions(lambda states: np.ones([len(states), 5]), TWO, 3, max_questions=23, orders=[1])
    assert made.tolist() == [[RED, RED]]


def test_a_learner_trains_until_it_is_told_to_stop(tmp_path):
    save_vignettes(tmp_path / "tests.npz", TWO)
    taken = []
    answers = greedy.learner(
        Settings("none", evidence_count=3), tmp_path / "tests.npz",
        lambda _: (by_number_of_pieces(GREEN, GREEN), taken.append),
    )  # fmt: skip
    answer = answers({"began": 0.0, "until": 0.0})
    assert (taken, answer["finished"], answer["steps"]) == ([], False, 0)
    assert answer["decisions"] == [[GREEN, GREEN]] * len(greedy.ORDERS)
    assert answer["seconds"] == pytest.approx(1.8e9, rel=0.5), "since the epoch, at which it is said to have begun"
    later = answers({"began": time.time(), "until": 1e-9})
    assert later["steps"] == sum(taken)
