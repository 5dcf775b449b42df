import numpy as np
import pytest
import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.trajectories import policy_step

from schemas.triage import Action
from tests.builders import network_of
from trainer.dyqn.environment import action_spec, time_step_spec
from trainer.dyqn.rollout import EpisodeWindow, Rollout, greedy_policy


def _network(biases, kernel_of_first=(0, 0, 0, 0, 0)):
    """Q-values from the output biases alone; `kernel_of_first` adds logits for evidence 0 present."""
    return network_of((np.eye(6, 1), 0), ([kernel_of_first], biases))


@pytest.mark.parametrize(
    ("asking", "questions", "seen", "forced"), [(-9, [0, 0], [1, 1], False), (9, [23, 23], [3, 1], True)]
)
def test_an_agent_that_never_asks_sees_one_piece_and_one_that_always_asks_everything(
    vignettes_of, asking, questions, seen, forced
):
    vignettes = vignettes_of([([1, 2, 3], [1, 0, 0, 0]), ([-4], [0, 0, 0, 1])])
    outcomes = Rollout(vignettes, 6, 23, greedy_policy(_network([0, 0, 1, 0, asking]))).run([1, 2, 3])
    assert outcomes.decisions.tolist() == [[Action.GREEN, Action.GREEN]] * 3
    assert (outcomes.questions.tolist(), outcomes.evidence_seen.tolist()) == ([questions] * 3, [seen] * 3)
    assert (outcomes.forced == forced).all()


def test_an_agent_that_waits_for_one_piece_stops_when_it_is_revealed(vignettes_of):
    # Asks until evidence 0 is present, then says Red: over many orders it is seen at each of the 3 places equally.
    vignettes = vignettes_of([([1, 2, 3], [1, 0, 0, 0])])
    network = _network([0, 0, 0, 0, 2], kernel_of_first=[9, 0, 0, 0, 0])
    outcomes = Rollout(vignettes, 6, 23, greedy_policy(network)).run(list(range(300)))
    assert set(outcomes.decisions.ravel()) == {Action.RED}
    np.testing.assert_array_equal(outcomes.evidence_seen, outcomes.questions + 1)
    counts = np.bincount(outcomes.questions.ravel(), minlength=3)
    assert counts.min() > 70  # 100 each are expected, standard deviation 8
    assert not outcomes.forced.any()


class _ChangesItsMind(tf_policy.TFPolicy):
    """In the first row Red at once and Blue ever after; in the second row it asks for as long as it can."""

    def __init__(self):
        self._calls = tf.Variable(0)
        super().__init__(time_step_spec(6), action_spec())

    def _variables(self):
        return [self._calls]

    def _action(self, time_step, policy_state, seed=None):
        first = tf.where(self._calls == 0, int(Action.RED), int(Action.BLUE))
        second = tf.where(time_step.observation.forced[1], int(Action.GREEN), int(Action.ASK))
        self._calls.assign_add(1)
        return policy_step.PolicyStep(tf.stack([first, second]), policy_state, ())


def test_the_first_episode_of_a_row_counts_while_others_continue(vignettes_of):
    vignettes = vignettes_of([([1, 2, 3], [1, 0, 0, 0]), ([4, 5], [0, 0, 1, 0])])
    outcomes = Rollout(vignettes, 6, 23, _ChangesItsMind()).run([0])
    assert outcomes.decisions.tolist() == [[Action.RED, Action.GREEN]]
    assert outcomes.questions.tolist() == [[0, 23]]
    assert outcomes.forced.tolist() == [[False, True]]


def test_q_values_are_those_of_the_state_in_which_the_decision_fell(vignettes_of):
    # Evidence 0 present lifts Red from 0 to 9 * selu(1) = 9 * 1.0507; the agent asks until then.
    vignettes = vignettes_of([([1, 2, 3], [1, 0, 0, 0])])
    network = _network([0, 0, 0, 0, 2], kernel_of_first=[9, 0, 0, 0, 0])
    outcomes = Rollout(vignettes, 6, 23, greedy_policy(network)).run(range(20))
    assert outcomes.questions.max() > 0
    assert outcomes.heads["q"].shape == (20, 1, 5)
    expected = 1 / (1 + np.exp(-np.array([9 * 1.0507, 0, 0, 0, 2])))
    np.testing.assert_allclose(outcomes.heads["q"][:, 0], np.tile(expected, [20, 1]), rtol=1e-4)


def test_q_values_of_rows_that_ended_early_are_not_overwritten(vignettes_of):
    # Row 0 has the telling piece alone and ends at once, row 1 never sees it and asks until it is forced.
    vignettes = vignettes_of([([1], [1, 0, 0, 0]), ([2, 3], [0, 0, 1, 0])])
    network = _network([0, 0, 0, 0, 2], kernel_of_first=[9, 0, 0, 0, 0])
    outcomes = Rollout(vignettes, 6, 23, greedy_policy(network)).run([0])
    assert outcomes.questions.tolist() == [[0, 23]]
    assert outcomes.heads["q"][0, 0, 0] > 0.99
    assert outcomes.heads["q"][0, 1, 0] == 0.5


def _record(window, decision, counts, questions):
    window.record(tf.constant([int(decision)]), tf.constant([counts], tf.uint8), tf.constant([questions]))


def test_means_are_over_the_episodes_that_have_ended():
    window = EpisodeWindow(3)
    assert window.means() == {}
    _record(window, Action.YELLOW, [1, 0, 1, 0], 2)  # between Red and Green
    _record(window, Action.RED, [0, 0, 1, 0], 4)  # over-triage: safe, not appropriate
    assert window.means() == {"appropriateness": 0.5, "safety": 1.0, "questions": 3.0}


def test_episodes_that_end_together_enter_the_window_together_and_round_its_end():
    window = EpisodeWindow(3)
    window.record(tf.zeros([0], tf.int32), tf.zeros([0, 4], tf.uint8), tf.zeros([0], tf.int32))
    assert window.means() == {}
    counts = tf.constant([[0, 0, 1, 0]] * 2, tf.uint8)
    window.record(tf.constant([2, 3]), counts, tf.constant([1, 2]))
    window.record(tf.constant([2, 2]), counts, tf.constant([6, 10]))  # 2, 6 and 10 stay
    assert window.means() == {"appropriateness": pytest.approx(2 / 3), "safety": pytest.approx(2 / 3), "questions": 6.0}
