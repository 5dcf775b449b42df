"""The loss of Algorithm 1 (paper, algo:dyqn) on a batch, as pure functions of logits.

A network gives logits `[L]`: A of Q-values alone, or those of `trainer.dyqn.network.WITH_SINGLE_DECISIONS`.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import tensorflow as tf

from schemas.triage import NUM_ACTIONS
from trainer.config import TargetConfig
from trainer.dyqn import targets
from trainer.dyqn.network import LEARNED_OUTPUTS
from trainer.dyqn.targets import Transition

OutputLoss = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
"""From logits, targets and weights `[B, O]` to the mean loss of each output over the batch, `[O]`."""


WEIGHT_OF_ASK_POINTS = 0.05
"""Weight of each Q(ask) in the loss: together they weigh like one other output, as all of them say much the same."""
_LEAST = 1e-5


class Logits(NamedTuple):
    """What N networks give for the states of a batch, float32 `[B, N, L]` each."""

    learned_tm1: tf.Tensor  # in s, with dropout where there is any: gradients flow through it
    tm1: tf.Tensor  # in s
    t: tf.Tensor  # in s'


class LossFn(Protocol):
    """The loss that an agent is given."""

    def __call__(self, logits: Logits, batch: Transition, weights: tf.Tensor | None) -> tf.Tensor:
        """Returns the loss of each output, `[A]` or `[O + 1]`; `weights`, float32 `[B]`, scale the transitions."""


def dyqn_loss(config: TargetConfig) -> LossFn:
    """Returns the sum of the losses of networks that learn independently of each other.

    Args:
        config: the targets, and the loss between an output and its target.
    """
    output_loss = OUTPUT_LOSSES[config.loss]

    def loss(logits: Logits, batch: Transition, weights: tf.Tensor | None = None) -> tf.Tensor:
        members, width = logits.tm1.shape[1], logits.tm1.shape[2]
        learned, tm1, t = (tf.reshape(each, [-1, width]) for each in logits)  # [B N, L]
        r_t, a_tm1 = (tf.repeat(column, members, axis=0) for column in (batch.r_t, batch.a_tm1))
        rows = tf.ones_like(r_t[:, :1])  # [B N, 1]
        if weights is not None:
            rows *= tf.repeat(weights, members)[:, tf.newaxis]
        q_tm1, q_t = (tf.sigmoid(each[:, :NUM_ACTIONS]) for each in (tm1, t))
        target, mask = targets.td_targets(q_tm1, q_t, r_t, config), targets.loss_weights(a_tm1, config)
        if width == NUM_ACTIONS:
            return output_loss(learned, target, mask * rows) * members
        together = tf.repeat(tf.sigmoid(tf.reduce_mean(logits.t[:, :, :LEARNED_OUTPUTS], axis=1)), members, axis=0)
        probabilities = targets.probability_td_targets(together, r_t, config.bootstrap)
        asking = targets.ask_point_targets(tf.sigmoid(t[:, :LEARNED_OUTPUTS]))
        target = tf.concat([target, probabilities, asking], axis=1)  # [B N, O]
        asking_mask = tf.fill(tf.shape(asking), WEIGHT_OF_ASK_POINTS)
        mask = tf.concat([mask, tf.ones_like(probabilities), asking_mask], axis=1)
        losses = output_loss(learned[:, :LEARNED_OUTPUTS], target, mask * rows)
        single = single_decision_loss(learned[:, LEARNED_OUTPUTS:], r_t, rows)
        return tf.concat([losses, [single]], axis=0) * members

    return loss


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


def coherence_loss(logits: tf.Tensor, likely: tf.Tensor, before: tf.Tensor) -> tf.Tensor:
    """Returns how far probabilities before a question are from their mean over its answers, by how likely each is.

    It is the cross-entropy, averaged over the batch, and summed over networks and probabilities. So where a yes is
    unlikely, a no hardly changes the probabilities.

    Args:
        logits: of the probabilities of N networks after a yes and after a no, `[2, B, N, 8]`.
        likely: probability of a yes, `[B]`.
        before: the probabilities of all networks together before the question, `[B, 8]`; without a gradient.
    """
    yes, no = tf.unstack(tf.sigmoid(logits))
    share = likely[:, tf.newaxis, tf.newaxis]
    expected = tf.clip_by_value(share * yes + (1 - share) * no, _LEAST, 1 - _LEAST)  # [B, N, 8]
    truth = tf.stop_gradient(before)[:, tf.newaxis]
    losses = -(truth * tf.math.log(expected) + (1 - truth) * tf.math.log(1 - expected))
    return tf.reduce_sum(tf.reduce_mean(losses, axis=0))


def single_decision_loss(logits: tf.Tensor, r_t: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Returns the cross-entropy of a softmax and the shares of the clinicians' decisions, averaged over the batch.

    Args:
        logits: `[B, 4]`.
        r_t: counterfactual reward `[B, 4]`.
        weights: `[B, 1]`.
    """
    losses = tf.nn.softmax_cross_entropy_with_logits(targets.decision_shares(r_t), logits)
    return tf.reduce_mean(weights[:, 0] * losses)
