import collections
import pathlib
import resource

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
from tf_agents.environments import tf_environment
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from schemas.triage import Action
from trainer.dyqn.environment import Mode, VignetteEnvironment
from trainer.dyqn.rollout import Slice

TRAINING = Mode(training=True, max_questions=23)
EVALUATION = Mode(training=False, max_questions=23)
ONE = ([1, -3, 5, 7], [0, 1, 1, 0])  # present 0, 4, 6; absent 2
FULL = np.array([1, 0, -1, 0, 1, 0, 1, 0], np.float32)


def _environment(vignettes, mode=TRAINING, rows=1, seed=0, evidence_count=8):
    generator = tf.random.Generator.from_seed(seed, alg="philox")
    return VignetteEnvironment(vignettes, evidence_count, mode, generator, rows)


def _act(environment, action):
    return environment.step(tf.fill([environment.batch_size], int(action)))


def _known(time_step):
    return np.count_nonzero(time_step.observation.state, axis=1)


def test_emits_what_its_specs_say_in_every_step_of_random_episodes(random_vignettes):
    environment = _environment(random_vignettes, rows=16, evidence_count=30)
    assert isinstance(environment, tf_environment.TFEnvironment)
    generator = np.random.default_rng(0)
    time_step = environment.reset()
    for _ in range(40):
        for value, spec in zip(tf.nest.flatten(time_step), tf.nest.flatten(environment.time_step_spec()), strict=True):
            assert (value.dtype, value.shape) == (spec.dtype, [16, *spec.shape])
            if isinstance(spec, tensor_spec.BoundedTensorSpec):
                assert np.all(value.numpy() >= spec.minimum)
                assert np.all(value.numpy() <= spec.maximum)
        actions = generator.integers(0, 5, 16)
        actions[time_step.observation.forced.numpy() & (actions == Action.ASK)] = Action.GREEN
        time_step = environment.step(tf.constant(actions, tf.int32))


def test_asking_reveals_every_piece_exactly_once_and_then_forces_a_triage(vignettes_of):
    environment = _environment(vignettes_of([ONE]), rows=32)
    time_step = environment.reset()
    for known in (2, 3, 4):
        np.testing.assert_array_equal(time_step.observation.forced, False)
        before = time_step.observation.state.numpy()
        time_step = _act(environment, Action.ASK)
        after = time_step.observation.state.numpy()
        np.testing.assert_array_equal(_known(time_step), known)
        np.testing.assert_array_equal(after[before != 0], before[before != 0])
    np.testing.assert_array_equal(after, np.broadcast_to(FULL, after.shape))
    np.testing.assert_array_equal(time_step.observation.forced, True)
    np.testing.assert_array_equal(time_step.step_type, ts.StepType.MID)
    assert environment.questions_asked.numpy().tolist() == [3] * 32


def test_orders_of_evidence_are_uniform(vignettes_of):
    # 3 pieces have 3! = 6 orders; 6,000 episodes expect 1,000 of each.
    environment = _environment(vignettes_of([([1, -3, 5], [1, 0, 0, 0])]), rows=6000, seed=5)
    first = environment.reset().observation.state.numpy()
    second = _act(environment, Action.ASK).observation.state.numpy()
    first_cells = np.abs(first).argmax(axis=1)
    second_cells = np.abs(second - first).argmax(axis=1)
    counts = collections.Counter(zip(first_cells.tolist(), second_cells.tolist(), strict=True))
    assert set(counts) == {(0, 2), (0, 4), (2, 0), (2, 4), (4, 0), (4, 2)}
    assert scipy.stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_vignettes_are_drawn_uniformly_in_training(vignettes_of):
    environment = _environment(vignettes_of([ONE] * 5), rows=5000, seed=6)
    environment.reset()
    drawn = np.bincount(environment.state_variables["vignette"].numpy(), minlength=5)
    assert scipy.stats.chisquare(drawn).pvalue > 1e-3


def test_triage_ends_the_episode_with_the_counterfactual_reward_of_every_decision(vignettes_of):
    environment = _environment(vignettes_of([([1, 2], [0, 2, 1, 0])]))
    environment.reset()
    time_step = _act(environment, Action.RED)  # the reward is the same whichever decision was taken
    assert bool(time_step.is_last()[0])
    assert float(time_step.discount[0]) == 0.0
    np.testing.assert_allclose(time_step.reward[0], [0, 1, 0.5, 0])


def test_last_state_is_what_asking_would_have_revealed(vignettes_of):
    vignettes = vignettes_of([ONE])
    for seed in range(10):
        asked, triaged = _environment(vignettes, seed=seed), _environment(vignettes, seed=seed)
        asked.reset()
        before = triaged.reset()
        successor = _act(asked, Action.ASK).observation.state
        last = _act(triaged, Action.BLUE)
        np.testing.assert_array_equal(last.observation.state, successor)
        assert _known(last)[0] == _known(before)[0] + 1
        assert int(triaged.evidence_seen[0]) == 1  # looked at, not seen by the agent


def test_last_state_is_the_same_state_when_no_evidence_is_left_or_when_configured(vignettes_of):
    exhausted = _environment(vignettes_of([([4], [1, 0, 0, 0])]))
    before = exhausted.reset()
    assert bool(before.observation.forced[0])
    np.testing.assert_array_equal(_act(exhausted, Action.RED).observation.state, before.observation.state)

    same = _environment(vignettes_of([ONE]), Mode(training=True, max_questions=23, counterfactual=False))
    before = same.reset()
    np.testing.assert_array_equal(_act(same, Action.RED).observation.state, before.observation.state)


def test_question_limit_forces_a_triage_in_both_modes(vignettes_of):
    long = (list(range(1, 9)), [0, 0, 1, 0])
    for training in (True, False):
        environment = _environment(vignettes_of([long]), Mode(training=training, max_questions=2))
        environment.reset()
        assert not bool(_act(environment, Action.ASK).observation.forced[0])
        assert bool(_act(environment, Action.ASK).observation.forced[0])


def test_evaluation_lets_the_agent_ask_in_vain(vignettes_of):
    environment = _environment(vignettes_of([([4, 5], [1, 0, 0, 0])]), EVALUATION)
    time_step = environment.reset()
    for _ in range(22):
        time_step = _act(environment, Action.ASK)
        assert not bool(time_step.observation.forced[0])
    time_step = _act(environment, Action.ASK)
    assert bool(time_step.observation.forced[0])
    assert int(environment.questions_asked[0]) == 23
    assert int(environment.evidence_seen[0]) == 2


def test_evaluation_gives_each_row_its_own_vignette_in_every_episode(vignettes_of):
    environment = _environment(vignettes_of([ONE, ONE, ONE]), EVALUATION)
    environment.reset()
    assert environment.state_variables["vignette"].numpy().tolist() == [0, 1, 2]
    _act(environment, Action.RED)
    _act(environment, Action.RED)  # begins anew
    assert environment.state_variables["vignette"].numpy().tolist() == [0, 1, 2]


def test_a_step_after_the_last_one_begins_a_new_episode_in_that_row_alone(vignettes_of):
    environment = _environment(vignettes_of([ONE]), rows=2)
    environment.reset()
    environment.step(tf.constant([Action.RED, Action.ASK]))
    time_step = environment.step(tf.constant([Action.ASK, Action.ASK]))
    assert time_step.step_type.numpy().tolist() == [ts.StepType.FIRST, ts.StepType.MID]
    assert _known(time_step).tolist() == [1, 3]
    assert environment.questions_asked.numpy().tolist() == [0, 2]


def test_asking_although_triage_is_forced_is_an_error(vignettes_of):
    environment = _environment(vignettes_of([([4], [1, 0, 0, 0])]))
    environment.reset()
    with pytest.raises(tf.errors.InvalidArgumentError, match="forced"):
        _act(environment, Action.ASK)


def test_vignettes_without_evidence_or_without_decisions_are_refused(vignettes_of):
    for rows in ([ONE, ([], [1, 0, 0, 0])], [ONE, ([1], [0, 0, 0, 0])]):
        with pytest.raises(ValueError, match="evidence and decisions"):
            _environment(vignettes_of(rows))


def _resident_bytes():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_a_million_vignettes_take_well_under_a_gigabyte():
    rows, pieces = 1_300_000, 20
    before = _resident_bytes()
    offsets = np.arange(rows + 1, dtype=np.int64) * pieces
    codes = np.tile(np.arange(1, pieces + 1, dtype=np.int16), rows)
    counts = np.tile(np.array([[1, 2, 0, 0]], np.uint8), (rows, 1))
    environment = _environment(Slice(offsets, codes, counts), evidence_count=600)
    assert int(_known(environment.reset())[0]) == 1
    assert _resident_bytes() - before < 500e6
