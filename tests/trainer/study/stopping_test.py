import numpy as np
import pytest

from schemas.triage import Action
from trainer.config import NetworkConfig
from trainer.dyqn.network import build_network
from trainer.dyqn.rollout import Rollout, greedy_policy
from trainer.study.state_values import StateValues
from trainer.study.stopping import EvaluationOrders, first_stops


def _table(*rows):
    """Triage values of which only the given ones, by (place, decision), are not 0."""
    table = np.zeros([len(rows), 3, 4], np.float32)
    for row, values in enumerate(rows):
        for (place, decision), value in values.items():
            table[row, place, decision] = value
    return table


def test_the_agent_stops_in_the_first_state_in_which_a_triage_value_is_not_below_that_of_asking():
    triage = _table(
        {(0, Action.GREEN): 0.6, (1, Action.RED): 0.9},  # .6 >= .5: Green at once, whatever comes later
        {(0, Action.GREEN): 0.4, (1, Action.RED): 0.7, (2, Action.BLUE): 0.9},  # .4 < .5 <= .7: Red after one question
        {(0, Action.GREEN): 0.5},  # equal: triage comes before asking
        {(1, Action.RED): 0.5, (1, Action.BLUE): 0.5},  # equal: the more urgent one
    )
    stops = first_stops(triage, np.full([4, 3], 0.5, np.float32), np.array([3, 3, 3, 3]), max_questions=23)
    assert stops.decisions.tolist() == [Action.GREEN, Action.RED, Action.GREEN, Action.RED]
    assert stops.questions.tolist() == [0, 1, 0, 1]
    assert stops.place.tolist() == [0, 1, 0, 1]
    assert not stops.forced.any()


def test_who_asks_in_the_last_state_asks_to_the_limit_and_is_forced_there():
    triage = _table({(0, Action.BLUE): 0.3, (2, Action.YELLOW): 0.4}, {(1, Action.RED): 0.2, (2, Action.GREEN): 0.9})
    stops = first_stops(triage, np.full([2, 3], 0.5, np.float32), np.array([3, 2]), max_questions=23)
    assert stops.decisions.tolist() == [Action.YELLOW, Action.RED]  # what stands behind the depth is not looked at
    assert stops.questions.tolist() == [23, 23]
    assert stops.place.tolist() == [2, 1]
    assert stops.forced.all()


def test_a_decision_at_the_limit_is_forced_even_where_the_agent_would_have_made_it():
    triage = _table({(2, Action.RED): 0.9})
    stops = first_stops(triage, np.full([1, 3], 0.5, np.float32), np.array([3]), max_questions=2)
    assert (stops.questions.tolist(), stops.forced.tolist(), stops.decisions.tolist()) == ([2], [True], [Action.RED])


@pytest.mark.parametrize(("seed", "max_questions"), [(1, 2), (2, 5), (3, 23)])
def test_outcomes_are_those_of_the_rollout_of_the_same_agent(random_vignettes, seed, max_questions):
    network = build_network(30, NetworkConfig(hidden_sizes=(8,)), seed)
    kernel, bias = network.get_layer("q_values").get_weights()
    network.get_layer("q_values").set_weights([4 * kernel, bias + np.eye(5)[4] * 1.5])  # some ask for long, some not
    orders = [5, 6, 7]
    played = Rollout(random_vignettes, 30, max_questions, greedy_policy(network)).run(orders)
    values = StateValues(lambda states: np.asarray(network(states.toarray()))[:, :4], 30)

    def ask(codes):
        states = np.zeros([len(codes), 31], np.float32)
        for row in range(codes.shape[1]):
            states[np.arange(len(codes)), np.where(codes[:, row], np.abs(codes[:, row]) - 1, 30)] = np.sign(
                codes[:, row]
            )
        return np.asarray(network(states[:, :30]))[:, 4]

    outcomes = EvaluationOrders(random_vignettes, values, max_questions, orders).outcomes(ask)
    assert 0 < played.forced.mean() < 1
    for name in ("decisions", "questions", "evidence_seen", "forced"):
        np.testing.assert_array_equal(getattr(outcomes, name), getattr(played, name), err_msg=name)
    np.testing.assert_allclose(outcomes.q_values, played.q_values, atol=1e-5)


def test_states_are_judged_when_the_orders_are_drawn_and_not_again(vignettes_of):
    calls = []

    def judge(states):
        calls.append(states.shape[0])
        return np.full([states.shape[0], 4], 0.25)

    vignettes = vignettes_of([([1, 2], [1, 0, 0, 0])])
    orders = EvaluationOrders(vignettes, StateValues(judge, 6), 23, [0, 1])
    judged = len(calls)
    assert orders.outcomes(lambda codes: np.full(len(codes), 0.9)).questions.tolist() == [[23], [23]]
    assert orders.outcomes(lambda codes: np.full(len(codes), 0.1)).questions.tolist() == [[0], [0]]
    assert len(calls) == judged
