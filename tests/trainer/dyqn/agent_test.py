import keras
import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import time_step as ts

from schemas.triage import Action
from trainer.config import TrainConfig
from trainer.dyqn import targets
from trainer.dyqn.agent import build_agent, build_optimizer
from trainer.dyqn.environment import Observation
from trainer.dyqn.network import build_network
from trainer.dyqn.policy import DecayingNoise
from trainer.dyqn.targets import Transition

LOGIT_HALF, LOGIT_THREE_QUARTERS = 0.0, float(np.log(3.0))


def _agent(config=None):
    """Two pieces of evidence, one hidden unit per sign; Q-values that one can work out."""
    config = config or TrainConfig.from_dict({"network": {"hidden_sizes": [4]}})
    network = build_network(2, config.network, seed=3)
    return build_agent(
        network, config, DecayingNoise(config.exploration, tf.random.Generator.from_seed(0, alg="philox"))
    )


def _constant_network(agent):
    """Makes Q(s, .) = (.5, .75, .5, .5, .5) for the empty state and lets evidence 0 alone move Yellow to .5."""
    hidden, output = agent.network.get_layer("hidden_1"), agent.network.get_layer("q_values")
    kernel = np.zeros([2, 4], np.float32)
    kernel[0, 0] = 1.0
    hidden.set_weights([kernel, np.zeros(4, np.float32)])
    selu_of_one = 1.0507009873554805
    output_kernel = np.zeros([4, 5], np.float32)
    output_kernel[0, Action.YELLOW] = -LOGIT_THREE_QUARTERS / selu_of_one
    output.set_weights(
        [output_kernel, np.array([LOGIT_HALF, LOGIT_THREE_QUARTERS, LOGIT_HALF, LOGIT_HALF, LOGIT_HALF], np.float32)]
    )


def _experience(action=Action.ASK):
    return Transition(
        s_tm1=tf.constant([[0.0, 0.0]]),
        a_tm1=tf.constant([int(action)]),
        r_t=tf.constant([[0.5, 1.0, 0.0, 0.0]]),
        s_t=tf.constant([[1.0, 0.0]]),
        asked=tf.constant([True]),
    )


def test_loss_worked_out_by_hand():
    agent = _agent()
    _constant_network(agent)
    # Q(s) = (.5, .75, .5, .5, .5), Q(s') = (.5, .5, .5, .5, .5); appropriate: Red, Yellow.
    # ask target, OR query: (1 - .75) + .75 * .5 = .625. Squared errors: 0, .0625, .25, .25, .015625.
    info = agent.loss(_experience())
    np.testing.assert_allclose(info.extra.losses, [0.0, 0.0625, 0.25, 0.25, 0.015625], atol=1e-6)
    assert float(info.loss) == pytest.approx(0.578125, abs=1e-5)
    assert bool(info.extra.finite)


@pytest.mark.parametrize("algorithm", ["sgd", "adam"])
def test_a_step_that_is_not_finite_changes_nothing_and_says_so(algorithm):
    agent = _agent(_config(optimiser={"algorithm": algorithm}))
    bias = agent.network.get_layer("hidden_1").bias
    finite = bias.numpy()
    broken = _experience()._replace(r_t=tf.constant([[0.5, np.nan, 0.0, 0.0]]))
    # An infinite activation leaves the sigmoid, and with it the loss, finite: the gradient alone tells.
    for batch, first in ((broken, finite[0]), (_experience(), np.nan), (_experience(), np.inf)):
        bias.assign([first, *finite[1:]])
        before = [weight.tobytes() for weight in agent.network.get_weights()]
        assert not bool(agent.train(batch).extra.finite)
        assert [weight.tobytes() for weight in agent.network.get_weights()] == before
        assert int(agent.train_step_counter) == int(agent.optimizer.iterations) == 0
    bias.assign(finite)
    assert bool(agent.train(_experience()).extra.finite)


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [("sgd", 1.95), ("adam", 1.9)],  # gradient .5 at 2: 2 - .1 * .5; Adam's first step is the step size, always
)
def test_the_first_step_of_each_optimiser(algorithm, expected):
    variable = keras.Variable([2.0])
    optimizer = build_optimizer(_config(optimiser={"algorithm": algorithm, "learning_rate": 0.1}))
    optimizer.build([variable])
    optimizer.apply([tf.constant([0.5])], [variable])
    np.testing.assert_allclose(variable.numpy(), [expected], atol=1e-5)


def test_a_cosine_rises_over_a_twentieth_of_the_steps_that_learn_and_falls_to_a_fiftieth():
    loop = {"burn_in_steps": 100, "steps": 1100}
    optimizer = build_optimizer(_config(optimiser={"schedule": "cosine", "learning_rate": 0.2}, loop=loop))
    optimizer.build([keras.Variable([2.0])])
    # 1,000 steps learn, of which 50 warm up; half-way through the other 950 it is the mean of both ends.
    for step, rate in ((0, 0.0), (25, 0.1), (50, 0.2), (525, (0.2 + 0.004) / 2), (1000, 0.004)):
        optimizer.iterations.assign(step)
        assert float(optimizer.learning_rate) == pytest.approx(rate, abs=1e-6)


def _config(**sections):
    return TrainConfig.from_dict({"network": {"hidden_sizes": [4]}, **sections})


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
def test_each_member_learns_as_a_single_network_does(loss):
    """Losses and gradients of two members are those of two single networks with the same weights."""
    settings = {"hidden_sizes": [4]}
    both = _agent(_config(network={**settings, "networks": 2}, target={"loss": loss}))
    alone = [_agent(_config(network=settings, target={"loss": loss})) for _ in range(2)]
    for number, agent in enumerate(alone, start=1):
        for layer in ("hidden_1", "q_values"):
            agent.network.get_layer(layer).set_weights(both.network.get_layer(f"{layer}_of_{number}").get_weights())
    batch = Transition(
        s_tm1=tf.constant([[0.0, 1.0], [-1.0, 0.0], [1.0, 0.0]]),
        a_tm1=tf.constant([4, 0, 4]),
        r_t=tf.constant([[0.5, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.5]]),
        s_t=tf.constant([[1.0, 1.0], [-1.0, -1.0], [1.0, 0.0]]),
        asked=tf.constant([True, False, True]),
    )
    (together, ours), *apart = (_learned(agent, batch) for agent in (both, *alone))
    np.testing.assert_allclose(together, apart[0][0] + apart[1][0], rtol=1e-5)
    assert np.abs(apart[0][0] - apart[1][0]).max() > 1e-3
    for number, (_, gradients) in enumerate(apart, start=1):
        for path, gradient in gradients.items():
            layer, kind = path.split("/")
            np.testing.assert_allclose(ours[f"{layer}_of_{number}/{kind}"], gradient, atol=1e-6)


def test_weights_are_averaged_over_optimisations():
    config = _config(optimiser={"average": 0.75, "learning_rate": 0.1})
    agent, copy = _agent(config), build_network(2, config.network, seed=9)
    agent.copy_weights_to(copy)  # before the first step they are the agent's
    for mine, theirs in zip(copy.get_weights(), agent.network.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    steps = []
    for _ in range(3):
        agent.train(_experience())
        steps.append(agent.network.get_weights())
    agent.copy_weights_to(copy)
    for mine, first, second, third in zip(copy.get_weights(), *steps, strict=True):
        np.testing.assert_allclose(mine, 0.75 * (0.75 * first + 0.25 * second) + 0.25 * third, atol=1e-6)
    assert any(np.abs(mine - last).max() > 1e-4 for mine, last in zip(copy.get_weights(), steps[-1], strict=True))


def test_dropout_is_off_in_policies_and_losses_that_are_not_trained_on():
    agent = _agent(_config(network={"hidden_sizes": [64], "dropout": 0.5}))
    observation = Observation(tf.constant([[1.0, -1.0]]), tf.constant([False]))
    time_step = ts.TimeStep(tf.constant([1]), tf.zeros([1, 4]), tf.ones([1]), observation)
    for policy in (agent.policy, agent.collect_policy):
        infos = [policy.action(time_step).info["q"].numpy().tobytes() for _ in range(8)]
        assert len(set(infos)) == 1
    assert len({float(agent.loss(_known()).loss) for _ in range(8)}) == 1
    # It is on where the agent learns.
    assert len({float(agent.loss(_known(), training=True).loss) for _ in range(8)}) > 1


def _learned(agent, batch):
    """The loss of each output, and the gradients by the paths of the weights."""
    variables = agent.network.trainable_variables
    with tf.GradientTape() as tape:
        info = agent.loss(batch, training=True)
    gradients = tape.gradient(info.loss, variables)
    return info.extra.losses.numpy(), dict(zip([each.path for each in variables], gradients, strict=True))


def _known():
    return _experience()._replace(s_tm1=tf.constant([[1.0, -1.0]]))


def test_dropout_is_off_in_the_targets(monkeypatch):
    agent = _agent(_config(network={"hidden_sizes": [64], "dropout": 0.5}))
    seen = []
    real = targets.td_targets

    def watched(q_tm1, q_t, r_t, config):
        seen.append((q_tm1.numpy(), q_t.numpy()))
        return real(q_tm1, q_t, r_t, config)

    monkeypatch.setattr(targets, "td_targets", watched)
    losses = {float(agent.loss(_known(), training=True).loss) for _ in range(6)}
    assert len(losses) > 1
    for q_tm1, q_t in seen:
        np.testing.assert_allclose(q_tm1, agent.network(_known().s_tm1)["q"], atol=1e-6)
        np.testing.assert_allclose(q_t, agent.network(_known().s_t)["q"], atol=1e-6)


def test_the_compiled_step_is_the_one_that_is_written():
    settings = {"hidden_sizes": [8], "activation": "relu", "inputs": "two", "networks": 2, "outputs": "probabilities"}
    agent = _agent(_config(network=settings, target={"loss": "cross_entropy"}, optimiser={"learning_rate": 0.1}))
    for _ in range(3):
        before = [variable.numpy() for variable in agent.network.trainable_variables]
        _, gradients = _learned(agent, _experience())
        agent.train(_experience())
        for old, gradient, new in zip(before, gradients.values(), agent.network.trainable_variables, strict=True):
            np.testing.assert_allclose(new.numpy(), old - 0.1 * gradient, atol=1e-6)
