"""benchmarks/learn.py and benchmarks/serve.py: how contestants are judged, and what is sent to the servers."""

import asyncio
import sys

import numpy as np
import pytest

from benchmarks import learn, serve
from schemas.evidence import Evidence, Vocabulary
from schemas.triage import Action
from serving.service.validation import contradictions
from triage.v1 import triage_service_pb2

RED, YELLOW, GREEN, ASK = 0, 1, 2, 4
# The first vignette has evidence 0 and 1, the second evidence 2 alone, absent.
TWO = learn.SparseVignettes(
    np.array([0, 2, 3]), np.array([1, 2, -3], np.int32), np.array([[1, 0, 0, 0], [0, 0, 1, 0]]), np.array(3)
)
# Present 0 and 4, absent 2; decisions Yellow twice, Green once.
ONE = learn.SparseVignettes(
    np.array([0, 3]), np.array([1, -3, 5], np.int32), np.array([[0, 2, 1, 0]], np.uint8), np.array(5)
)


def by_number_of_pieces(*actions):
    """Q-values that prefer an action for each number of known pieces, and of the decisions Yellow."""

    def q_values(states):
        values = np.zeros([len(states), 5], np.float32)
        values[:, YELLOW] = 0.5
        values[np.arange(len(states)), [actions[known - 1] for known in np.count_nonzero(states, axis=1)]] = 1.0
        return values

    return q_values


def point(seconds, appropriateness, safety):
    return {"seconds": seconds, "appropriateness": appropriateness, "safety": safety}


def test_the_goal_is_reached_where_one_evaluation_has_both():
    points = [point(1.0, 0.83, 0.80), point(2.0, 0.70, 0.95), point(3.0, 0.82, 0.90), point(6.0, 0.83, 0.91)]
    assert learn.seconds_to_goal(points) == 3.0
    assert learn.seconds_to_goal(points[:2]) is None


def test_the_agent_asks_until_it_prefers_a_decision():
    made = learn.greedy_decisions(by_number_of_pieces(ASK, RED), TWO, orders=[1, 2])
    # The second vignette has no second piece, so that the best decision is forced.
    assert made.tolist() == [[RED, YELLOW]] * 2


def test_the_question_limit_forces_the_best_decision(monkeypatch):
    monkeypatch.setattr(learn, "MAX_QUESTIONS", 0)
    assert learn.greedy_decisions(by_number_of_pieces(ASK, RED), TWO, orders=[1]).tolist() == [[YELLOW, YELLOW]]


def test_asking_reveals_piece_by_piece_and_asking_in_vain_ends_the_episode():
    episodes = learn.Episodes(ONE, seed=0)
    state = episodes.begin()
    for known in (2, 3):
        assert np.count_nonzero(state) == known - 1
        state, reward, ended = episodes.act(Action.ASK)
        assert (reward, ended) == (0.0, False)
    np.testing.assert_array_equal(state, [1, 0, -1, 0, 1])
    assert episodes.act(Action.ASK)[1:] == (0.0, True)


@pytest.mark.parametrize(("decision", "reward"), [(0, 0.0), (1, 1.0), (2, 0.5), (3, 0.0)])
def test_a_triage_ends_the_episode_with_its_reward(decision, reward):
    episodes = learn.Episodes(ONE, seed=0)
    before = episodes.begin()
    state, rewarded, ended = episodes.act(decision)
    np.testing.assert_array_equal(state, before)
    assert (rewarded, ended) == (reward, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [learn.OURS, learn.TF_AGENTS, learn.FOREST])
def test_a_contestant_is_evaluated_after_its_training(name, tmp_path):
    counts = learn.prepare(tmp_path, 60, 40, seed=0)
    [evaluated] = learn.curve(name, sys.executable, tmp_path, 0.1, 0, counts)
    assert evaluated["seconds"] > 0
    assert 0 < evaluated["appropriateness"] <= 1


@pytest.mark.parametrize("questions", [0, 3])
def test_no_request_contradicts_itself(questions):
    """Refusals cost more than answers, and only answers are counted."""
    ages = [Evidence(f"age_{number}", "risk_factor", "Age", "Age?", exclusive="age") for number in range(8)]
    fits = [Evidence(f"fit_{number}", "symptom", "Fit", "Fit?", parent="fits") for number in range(8)]
    vocabulary = Vocabulary([*ages, *fits, Evidence("fits", "symptom", "Fits", "Fits?")])
    for request in map(triage_service_pb2.TriageRequest.FromString, serve.requests_of(vocabulary, questions)):
        assert len(request.state.evidence) >= 5
        assert request.questions == questions
        assert not list(contradictions(request.state, vocabulary))


@pytest.mark.slow
def test_calls_to_a_server_are_counted():
    with serve.empty_server(7) as address:
        measured = asyncio.run(serve.measure(address, [b"any bytes"], 3, 0.2))
    assert measured["failed"] == 0
    assert measured["calls_per_second"] > 0


def test_servers_are_compared_within_a_round():
    # A machine that is half as fast in one round changes no share.
    rates = [{serve.PLAIN: 3000.0, serve.EMPTY: 4000.0}, {serve.PLAIN: 1500.0, serve.EMPTY: 2000.0}]
    rounds = [{(name, 1): {"failed": 0, "calls_per_second": rate} for name, rate in each.items()} for each in rates]
    [row] = serve.medians(rounds, serve.PLAIN)
    assert (row["in_progress"], row["calls_per_second"], row["of_empty"]) == (1, 2250, 0.75)
