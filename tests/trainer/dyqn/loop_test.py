import numpy as np
import pytest

from schemas.danger_signs import NO_SIGNS
from schemas.triage import Action
from tests.builders import symptoms
from tests.trainer.conftest import tiny_default
from trainer.config import TrainConfig
from trainer.dyqn.assembly import build_loop
from trainer.dyqn.calibrate import divide, settling
from trainer.dyqn.loop import TrainingDivergedError
from trainer.graph import mixture
from trainer.graph.questions import QuestionGraph
from trainer.interviews.episodes import InterviewEpisodes
from trainer.interviews.play import led_states

QUIET = {"ask_noise_initial": 0.0, "ask_noise_final": 0.0}
PAIR = ([1, -3], [0, 1, 2, 0])
PAIR_REWARD = [0.0, 0.5, 1.0, 0.0]


def _config(burn_in=1_000_000, **sections):
    values = {
        "network": {"hidden_sizes": [8]},
        "memory": {"batch_size": 16, "memory_capacity": 64},
        "loop": {"burn_in_steps": burn_in, "seed": 3},
    }
    for name, section in sections.items():
        values[name] = {**values.get(name, {}), **section}
    return TrainConfig.from_dict(values)


def _loop(vignettes, evidence_count=30, **settings):
    return build_loop(vignettes, evidence_count, _config(**settings))


def _set_biases(loop, biases):
    """Makes the Q-values depend on nothing: sigmoid of the biases."""
    layer = loop.network.get_layer("q_values")
    layer.set_weights([np.zeros_like(layer.get_weights()[0]), np.array(biases, np.float32)])


def _stored(loop, count):
    """(signed codes of s, action, reward, signed codes of s') of the first transitions."""
    memory = loop.memory
    columns = [column.numpy()[:count] for column in (memory.s_tm1, memory.a_tm1, memory.r_t, memory.s_t)]
    return [
        (set(now[now != 0].tolist()), int(action), reward.tolist(), set(then[then != 0].tolist()))
        for now, action, reward, then in zip(*columns, strict=True)
    ]


def _weights(loop):
    return [weight.tobytes() for weight in loop.network.get_weights()]


@pytest.fixture(scope="module")
def of_a_pair(vignettes_of, tmp_path_factory):
    """A loop with one vignette, which does not learn, and its checkpoint of step 0."""
    loop = _loop(vignettes_of([PAIR]), 4, exploration=QUIET)
    return loop, loop.checkpoint().write(str(tmp_path_factory.mktemp("pair") / "checkpoint"))


@pytest.fixture
def pair_loop(of_a_pair):
    """The same loop at step 0."""
    loop, beginning = of_a_pair
    loop.checkpoint().read(beginning).assert_consumed()
    return loop


@pytest.mark.usefixtures("eager")
def test_trajectory_of_an_agent_that_asks_until_nothing_is_left(pair_loop):
    loop = pair_loop
    _set_biases(loop, [0, 1, 2, 0, 9])
    loop.run(4)
    both = {1, -3}
    first, second, third, fourth = _stored(loop, 4)
    for asked, forced in ((first, second), (third, fourth)):
        assert asked[0] in ({1}, {-3})
        assert asked[1:] == (Action.ASK, PAIR_REWARD, both)
        assert forced == (both, Action.GREEN, PAIR_REWARD, both)
    assert (loop.step, loop.episode) == (4, 2)
    # Training forces a triage when no evidence is left: one question an episode; Green is appropriate and safe.
    assert loop.episodes.summary() == {"appropriateness": 1.0, "safety": 1.0, "questions": 1.0, "ask_noise": 0.0}


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("successor", "looks_on", "learns_ask"),
    [("counterfactual", True, True), ("same_state", False, True), ("taken_only", True, False)],
)
def test_trajectory_of_an_agent_that_triages_at_once(pair_loop, vignettes_of, successor, looks_on, learns_ask):
    loop = pair_loop
    if loop.config.target.ask_successor != successor:
        loop = _loop(vignettes_of([PAIR]), 4, exploration=QUIET, target={"ask_successor": successor})
    _set_biases(loop, [9, 0, 0, 0, 0])
    loop.run(3)
    for known, action, reward, following in _stored(loop, 3):
        assert known in ({1}, {-3})
        assert (action, reward) == (Action.RED, PAIR_REWARD)
        assert following == ({1, -3} if looks_on else known)
    assert loop.episode == 3
    assert loop.memory.asked.numpy()[:3].tolist() == [learns_ask] * 3


@pytest.mark.usefixtures("eager")
def test_one_step_of_the_paper_by_hand(vignettes_of):
    loop = _loop(vignettes_of([PAIR]), 4, burn_in=1, exploration=QUIET)
    before = [0, 0, 0, 0, -np.log(3)]  # Q = .5 for each triage decision, .25 for ask
    _set_biases(loop, before)
    # The reward is 0, .5, 1, 0. Q_m is .5 in s and s', so that the OR query wants (1 - .5) + .5 * .5 = .75 of ask.
    assert loop.run(2).losses == pytest.approx(
        {"Red": 0.25, "Yellow": 0.0, "Green": 0.25, "Blue": 0.25, "ask": 0.25}, abs=1e-6
    )
    # The gradient of a squared error e at Q is 2 e Q (1 - Q): .25, 0, -.25, .25 and, for ask, 2 * -.5 * .25 * .75.
    gradient = np.array([0.25, 0, -0.25, 0.25, -0.1875])
    np.testing.assert_allclose(loop.network.get_layer("q_values").bias, before - 0.02 * gradient, atol=1e-6)


@pytest.mark.usefixtures("eager")
def test_priorities_are_those_of_the_q_values_at_collection(pair_loop):
    loop = pair_loop
    _set_biases(loop, [0, 0, 0, 0, -9])  # Q = .5 for each triage decision
    loop.run(2)
    # |mean(r - .5)| = |(-.5 + 0 + .5 - .5) / 4| = .125
    np.testing.assert_allclose(loop.memory.priorities.numpy()[:2], 0.125, atol=1e-6)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("interval", "stored"), [(1, 21), (2, 11)])
def test_one_optimisation_a_step_after_the_burn_in(random_vignettes, interval, stored):
    loop = _loop(random_vignettes, burn_in=20, loop={"collect_interval": interval})
    before = _weights(loop)
    quiet = loop.run(20)
    assert _weights(loop) == before
    assert quiet.loss is None
    learned = loop.run(21)
    assert int(loop.agent.train_step_counter) == 1
    assert _weights(loop) != before
    assert learned.loss == pytest.approx(sum(learned.losses.values()))
    assert int(loop.memory.stored) == stored


def test_another_seed_draws_other_weights_evidence_noise_and_batches(random_vignettes):
    loops = [_loop(random_vignettes, loop={"seed": seed}) for seed in (3, 3, 4)]
    kernels = [loop.network.get_layer("hidden_1").kernel.numpy() for loop in loops]
    assert (kernels[0] == kernels[1]).all()
    assert (kernels[0] != kernels[2]).any()
    for name in ("environment", "exploration", "memory"):
        draws = [loop.checkpoint().generators[name].uniform([9]).numpy() for loop in loops]
        assert (draws[0] == draws[1]).all(), name
        assert (draws[0] != draws[2]).all(), name


VOCABULARY = symptoms(*(f"e{number}" for number in range(30)), flags=("e3", "e4"))


def _default_loop(vignettes):
    """A loop of the preset `default`, made tiny."""
    config = tiny_default(seed=3)
    learned, held_out, _ = divide(vignettes, config.validation, seed=3)
    patients, limit = mixture.fit(learned, VOCABULARY, 0), config.environment.max_questions
    led = led_states(QuestionGraph(patients, VOCABULARY), VOCABULARY, held_out, False, limit)
    return build_loop(
        learned,
        VOCABULARY,
        config,
        patients=patients,
        interviews=lambda draws: InterviewEpisodes(
            learned, False, patients, VOCABULARY, NO_SIGNS, config.environment.environments, limit, draws
        ),
        settling=settling(held_out, 30, limit, 3, led, False),
    )


@pytest.mark.usefixtures("eager")
def test_a_weight_that_is_not_a_number_is_named_beside_probabilities(random_vignettes):
    loop = _default_loop(random_vignettes)
    assert loop.agent.collect_policy is loop.agent.policy, "interviews have no action to choose, and so no noise"
    loop.run(20)
    bias = loop.network.get_layer("q_values_of_1").bias
    poisoned = bias.numpy()
    poisoned[2] = np.nan
    bias.assign(poisoned)
    with pytest.raises(TrainingDivergedError, match=r"step 20, .*q_values_of_1/bias.*safe Blue"):
        loop.run(30)
