"""The loss of Algorithm 1 (paper, algo:dyqn) on a batch, as pure functions of logits.

A network gives logits `[L]`: A of Q-values alone, or those of `trainer.dyqn.network` with probabilities.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import keras
import tensorflow as tf

from schemas.triage import ACTION_LABELS, DECISION_LABELS, NUM_ACTIONS, NUM_DECISIONS, Action
from trainer.config import TargetConfig
from trainer.dyqn import targets
from trainer.dyqn.network import HEADS, NUM_CUMULATIVE
from trainer.dyqn.targets import Transition

OutputLoss = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
"""From logits, targets and weights `[B, L]` to the mean loss of each logit over the batch, `[L]`."""


class Logits(NamedTuple):
    """What N networks give for the states of a batch, float32 `[B, N, L]` each."""

    learned_tm1: tf.Tensor  # in s, with dropout where there is any: gradients flow through it
    tm1: tf.Tensor  # in s
    t: tf.Tensor  # in s'


class LossFn(Protocol):
    """The loss that an agent is given."""

    def __call__(self, logits: Logits, batch: Transition, weights: tf.Tensor | None) -> tf.Tensor:
        """Returns the loss of each logit, `[L]`; `weights`, float32 `[B]`, scale the transitions."""


def dyqn_loss(network: keras.Model, config: TargetConfig) -> LossFn:
    """Returns the loss of `network`: that of Q-values alone, or of probabilities and Q(ask)."""
    output_loss = OUTPUT_LOSSES[config.loss]
    of_network = _q_loss(output_loss, config)
    if "safe" in network.output:
        of_network = _utility_loss(output_loss, config, network.get_layer(HEADS))
    return of_network


def labels(network: keras.Model) -> tuple[str, ...]:
    """Returns the name of each logit of `network`, of L."""
    if "safe" not in network.output:
        return ACTION_LABELS
    safe = (f"safe {label}" for label in DECISION_LABELS[1:])
    return (*safe, *(f"less urgent than {label}" for label in DECISION_LABELS[:-1]), Action.ASK.label)


def _q_loss(output_loss: OutputLoss, config: TargetConfig) -> LossFn:
    """Returns the sum of the losses of networks that learn Q-values, independently of each other."""

    def loss(logits: Logits, batch: Transition, weights: tf.Tensor | None = None) -> tf.Tensor:
        members = logits.tm1.shape[1]
        learned, tm1, t = (tf.reshape(each, [-1, NUM_ACTIONS]) for each in logits)  # [B N, A]
        r_t, rows, asked = _for_members(batch, weights, members)
        target = targets.td_targets(tf.sigmoid(tm1), tf.sigmoid(t), r_t, config)
        mask = tf.concat([tf.ones([tf.shape(rows)[0], NUM_DECISIONS]), asked], axis=1)
        return output_loss(learned, target, mask * rows) * members

    return loss


def _utility_loss(output_loss: OutputLoss, config: TargetConfig, outputs: keras.layers.Layer) -> LossFn:
    """Returns the sum of the losses of networks that learn probabilities and Q(ask), with targets of all together.

    Args:
        output_loss: between a logit and its target.
        config: the price and the share of the bootstrap.
        outputs: from the logits of all networks to the heads.
    """

    def loss(logits: Logits, batch: Transition, weights: tf.Tensor | None = None) -> tf.Tensor:
        members, width = logits.tm1.shape[1], logits.tm1.shape[2]
        learned = tf.reshape(logits.learned_tm1, [-1, width])  # [B N, L]
        r_t, rows, asked = _for_members(batch, weights, members)
        together = tf.sigmoid(tf.reduce_mean(logits.t[:, :, :NUM_CUMULATIVE], axis=1))
        cumulative = targets.cumulative_targets(tf.repeat(together, members, axis=0), r_t, config.bootstrap)
        asking = tf.repeat(targets.value_target(outputs(logits.t)["q"], config.price), members)[:, tf.newaxis]
        mask = tf.concat([tf.ones_like(cumulative), asked], axis=1)
        return output_loss(learned, tf.concat([cumulative, asking], axis=1), mask * rows) * members

    return loss


def _for_members(batch: Transition, weights: tf.Tensor | None, members: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns rewards `[B N, 4]`, weights of rows `[B N, 1]`, and where `ask` is learned, float32 `[B N, 1]`."""
    r_t = tf.repeat(batch.r_t, members, axis=0)
    rows = tf.ones_like(r_t[:, :1]) if weights is None else tf.repeat(weights, members)[:, tf.newaxis]
    return r_t, rows, tf.repeat(tf.cast(batch.asked, tf.float32), members)[:, tf.newaxis]


def squared_loss(logits: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Returns the squared TD error of each output, averaged over the batch, `[O]`.

    For Q-values alone, the sum is the loss of Algorithm 1: the mean over the batch of the sum over all five actions.

    Args:
        logits: `[B, O]`.
        targets: `[B, O]`.
        weights: `[B, O]`.
    """
    return tf.reduce_mean(weights * tf.square(targets - tf.sigmoid(logits)), axis=0)


def cross_entropy_loss(logits: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Returns the cross-entropy of each output and its target in [0, 1], averaged over the batch, `[O]`.

    Like the squared error, it is lowest if the output equals the target. But its gradient for the logits does not
    vanish if a sigmoid is saturated, so rare decisions are learned as well. Arguments as for `squared_loss`.
    """
    return tf.reduce_mean(weights * tf.nn.sigmoid_cross_entropy_with_logits(targets, logits), axis=0)


OUTPUT_LOSSES: dict[str, OutputLoss] = {"squared": squared_loss, "cross_entropy": cross_entropy_loss}
"""The losses between an output and its target; the names are the choices of `trainer.config.TargetConfig.loss`."""
