import keras
import numpy as np
import pytest
import tensorflow as tf

from schemas.triage import Action
from trainer.config import OptimiserConfig, TrainConfig
from trainer.dyqn.agent import DyqnAgent, build_optimizer
from trainer.dyqn.environment import action_spec, time_step_spec
from trainer.dyqn.network import build_network
from trainer.dyqn.targets import Transition

LOGIT_HALF, LOGIT_THREE_QUARTERS = 0.0, float(np.log(3.0))


def _agent(config=None):
    """Two pieces of evidence, one hidden unit per sign; Q-values that one can work out."""
    config = config or TrainConfig.from_dict({"network": {"hidden_sizes": [4]}})
    network = build_network(2, config.network.hidden_sizes, seed=3)
    generator = tf.random.Generator.from_seed(0, alg="philox")
    return DyqnAgent(time_step_spec(2), action_spec(), network, config, generator)


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
    )


def test_loss_worked_out_by_hand():
    agent = _agent()
    _constant_network(agent)
    # Q(s) = (.5, .75, .5, .5, .5), Q(s') = (.5, .5, .5, .5, .5); appropriate: Red, Yellow.
    # ask target, OR query: (1 - .75) + .75 * .5 = .625. Squared errors: 0, .0625, .25, .25, .015625.
    info = agent.loss(_experience())
    np.testing.assert_allclose(info.extra.action_losses, [0.0, 0.0625, 0.25, 0.25, 0.015625], atol=1e-6)
    assert float(info.loss) == pytest.approx(0.578125, abs=1e-5)
    assert bool(info.extra.finite)


def test_weights_scale_the_loss_of_each_transition():
    agent = _agent()
    _constant_network(agent)
    assert float(agent.loss(_experience(), weights=tf.constant([0.5])).loss) == pytest.approx(0.2890625, abs=1e-5)


def test_training_lowers_the_loss_and_counts_its_steps():
    agent = _agent(
        TrainConfig.from_dict(
            {"network": {"hidden_sizes": [4]}, "optimiser": {"algorithm": "adam", "learning_rate": 0.01}}
        )
    )
    first = float(agent.train(_experience()).loss)
    for _ in range(30):
        last = float(agent.train(_experience()).loss)
    assert last < 0.5 * first
    assert int(agent.train_step_counter) == 31


def test_ask_has_no_gradient_after_a_triage_when_only_taken_successors_count():
    config = TrainConfig.from_dict({"network": {"hidden_sizes": [4]}, "target": {"ask_successor": "taken_only"}})
    for action, moves in ((Action.RED, False), (Action.ASK, True)):
        agent = _agent(config)
        before = agent.network.get_layer("q_values").get_weights()[1].copy()
        agent.train(_experience(action))
        after = agent.network.get_layer("q_values").get_weights()[1]
        assert (before[Action.ASK] != after[Action.ASK]) == moves
        assert before[Action.YELLOW] != after[Action.YELLOW]


def test_a_step_that_is_not_finite_changes_nothing_and_says_so():
    agent = _agent()
    before = agent.network.get_weights()
    broken = _experience()._replace(r_t=tf.constant([[0.5, np.nan, 0.0, 0.0]]))
    info = agent.train(broken)
    assert not bool(info.extra.finite)
    assert int(agent.train_step_counter) == 0
    for old, new in zip(before, agent.network.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_specs_describe_what_the_agent_trains_on():
    spec = _agent().training_data_spec
    assert [list(part.shape) for part in spec] == [[2], [], [4], [2]]
    assert _agent().collect_data_spec.policy_info.shape == [5]


@pytest.mark.parametrize(
    ("config", "kernel", "bias"),
    [
        # Gradient .5 at 2. Stochastic gradient descent: 2 - .1 * .5; with decay .3, the kernel is 2 * (1 - .03) before.
        (OptimiserConfig("sgd", 0.1, 0.0), 1.95, 1.95),
        (OptimiserConfig("sgd", 0.1, 0.3), 1.89, 1.95),
        # Adam's first step is the step size, whatever the gradient.
        (OptimiserConfig("adam", 0.1, 0.0), 1.9, 1.9),
        (OptimiserConfig("adam", 0.1, 0.3), 1.84, 1.9),
    ],
)
def test_the_first_step_of_each_optimiser_decays_kernels_only(config, kernel, bias):
    variables = [keras.Variable([2.0], name=name) for name in ("kernel", "bias")]
    optimizer = build_optimizer(config)
    optimizer.build(variables)
    optimizer.apply([tf.constant([0.5]), tf.constant([0.5])], variables)
    np.testing.assert_allclose([float(variable.numpy()[0]) for variable in variables], [kernel, bias], atol=1e-5)
