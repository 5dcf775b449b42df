import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from trainer.config import NetworkConfig, TargetConfig
from trainer.dyqn import losses
from trainer.dyqn.network import build_network, logits_of
from trainer.dyqn.targets import Transition


def test_loss_is_the_mean_over_the_batch_for_each_action():
    never, half, always = -100.0, 0.0, 100.0  # logits of Q = 0, .5 and 1
    logits = tf.constant([[never, half, never, never, always], [half, half, never, never, never]])
    target = tf.constant([[1.0, 0.0, 0.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.0, 0.5]])
    # Red: (1 + 0) / 2; Yellow: (.25 + .25) / 2; ask: (1 + .25) / 2.
    result = losses.squared_loss(logits, target, tf.ones([2, 5]))
    np.testing.assert_allclose(result, [0.5, 0.25, 0.0, 0.0, 0.625])


def test_cross_entropy_is_the_mean_over_the_batch_for_each_output():
    logits = tf.constant([[0.0, np.log(3.0)], [0.0, np.log(3.0)]], tf.float32)  # .5 and .75
    target = tf.constant([[1.0, 0.5], [0.0, 1.0]])
    # First output: log 2 in both rows. Second: (-.5 log .75 - .5 log .25 - log .75) / 2.
    expected = [np.log(2), -(1.5 * np.log(0.75) + 0.5 * np.log(0.25)) / 2]
    np.testing.assert_allclose(losses.cross_entropy_loss(logits, target, tf.ones([2, 2])), expected, rtol=1e-6)
    weights = tf.constant([[1.0, 0.0], [0.0, 1.0]])  # what is left out counts as a row without a loss
    expected = [np.log(2) / 2, -np.log(0.75) / 2]
    np.testing.assert_allclose(losses.cross_entropy_loss(logits, target, weights), expected, rtol=1e-6)


@pytest.mark.parametrize("outputs", ["q_values", "probabilities"])
def test_every_logit_has_a_label_of_its_own(outputs):
    network = build_network(2, NetworkConfig(hidden_sizes=(), networks=2, outputs=outputs), 0)
    names = losses.labels(network)
    assert len(set(names)) == len(names) == logits_of(network)(tf.zeros([1, 2])).shape[2]
    assert names[-1] == "ask"


def test_the_gradient_of_cross_entropy_is_the_error_even_if_a_sigmoid_is_saturated():
    logits = tf.constant([[-12.0]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = losses.cross_entropy_loss(logits, tf.constant([[1.0]]), tf.ones([1, 1]))
    assert float(tape.gradient(loss, logits)[0, 0]) == pytest.approx(-1.0, abs=1e-4)


# P(safe) is .75, .5 and .25 from Yellow on; all clinicians are less urgent than Red with .5, than Yellow and than Green
# with .25. With the safety weight 1 the utilities are .75, .625, .375 and .25.
CUMULATIVE = scipy.special.logit([0.75, 0.5, 0.25, 0.5, 0.25, 0.25])
LOG_3 = np.log(3)


def _utility_loss(ask_logits, yellow_logits, asked):
    """The losses where so many networks say the same but of these, and Red and Yellow, Yellow, Yellow were given."""
    logits = np.array([[*CUMULATIVE, asking] for asking in ask_logits])
    logits[:, 0] = yellow_logits
    logits = tf.constant(np.tile(logits, [len(asked), 1, 1]), tf.float32)  # [B, N, 7]
    rewards, states = tf.tile([[1 / 3, 1.0, 0.0, 0.0]], [len(asked), 1]), tf.zeros([len(asked), 2])
    batch = Transition(states, tf.fill([len(asked)], 4), rewards, states, tf.constant(asked))
    config = TargetConfig(price=0.05, bootstrap=0.5)
    network = build_network(2, NetworkConfig(hidden_sizes=(), outputs="probabilities"), 0, target=config)
    return losses.dyqn_loss(network, config)(losses.Logits(logits, logits, logits), batch, None).numpy()


def test_the_loss_of_probabilities_and_of_asking_by_hand():
    # The truths are 1, 0, 0 and 0, 0, 0; half of each error remains, as half of the target is the probability in s'.
    # Asking: the best in s' is Red with .75, less .05; Q(ask) is .5, so that the error is .2.
    errors = np.array([0.25, 0.5, 0.25, 0.5, 0.25, 0.25]) / 2
    alone = _utility_loss([0.0], [LOG_3], [True])
    np.testing.assert_allclose(alone, [*errors**2, 0.04], atol=1e-6)
    # Where nothing was asked that the policy asks, asking is not learned.
    np.testing.assert_allclose(_utility_loss([0.0], [LOG_3], [True, False]), [*errors**2, 0.02], atol=1e-6)


def test_several_networks_learn_from_what_they_say_together():
    both = _utility_loss([LOG_3, -LOG_3], [2 * LOG_3, 0.0], [True])
    # Of Yellow they say .9 and .5, together .75: the target of both is (1 + .75) / 2 = .875.
    # Of asking they say .75 and .25, and its target is .7.
    np.testing.assert_allclose(both[[0, 6]], [0.025**2 + 0.375**2, 0.05**2 + 0.45**2], atol=1e-6)
    assert both[1] == pytest.approx(2 * 0.25**2, abs=1e-6)
