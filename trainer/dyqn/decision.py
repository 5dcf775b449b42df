"""Chooses the action from the network's outputs: the one rule for the policy and for every exported signature.

Of equal values, the more urgent decision wins, and a triage decision wins over asking. Values that differ by less than
`TIE` count as equal, as engines round the same sum differently. If nothing at all is known about a patient, the action
is ask, even if triage is forced: no agent learns from an empty state.
"""

import dataclasses

import tensorflow as tf

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS, Action

TIE = 1e-6
"""Values closer than this are equal."""
QUESTION_COST = 0.01
"""Bits that an answer must be worth (docs/questions.md)."""


@dataclasses.dataclass(frozen=True)
class Dial:
    """How an agent weighs its probabilities. A network without probabilities decides by its Q-values alone.

    The triage decision is the one with the highest merit, (P(appropriate) + w P(safe)) / (1 + w), where w is the
    `safety_weight`. The agent asks until the merit of its best decision reaches `sure_enough`; if that is None, its
    Q-values decide when to ask. An interview whose questions the model chooses (`trainer.questions`) also ends where no
    answer is worth more than `question_cost` bits.
    """

    safety_weight: float = 0.0
    sure_enough: float | None = None
    question_cost: float = QUESTION_COST


NEUTRAL = Dial()


def decide(outputs: tf.Tensor, forced: tf.Tensor, known: tf.Tensor, dial: Dial = NEUTRAL) -> tf.Tensor:
    """Returns the best action of each row, int32 `[B]`.

    Args:
        outputs: float32 `[B, A]` or `[B, O]`, see `trainer.dyqn.network`.
        forced: bool `[B]`, rows that must triage because asking is not possible.
        known: bool `[B]`, rows in which anything is known, see `anything_known`; the others ask.
        dial: how probabilities are weighed.
    """
    if dial.sure_enough is not None and has_probabilities(outputs):
        asks = tf.reduce_max(merits(outputs, dial), axis=1) < dial.sure_enough
    else:
        asks = _first_best(outputs[:, :NUM_ACTIONS]) == Action.ASK
    return tf.where(known & (forced | ~asks), best_triage(outputs, dial), int(Action.ASK))


def anything_known(states: tf.Tensor) -> tf.Tensor:
    """Returns whether each of the states `[B, E]` holds a piece of evidence, bool `[B]`."""
    return tf.reduce_any(states != 0, axis=1)


def best_triage(outputs: tf.Tensor, dial: Dial = NEUTRAL) -> tf.Tensor:
    """Returns the best triage decision of each row of `outputs` `[B, A]` or `[B, O]`, int32 `[B]`, never ask."""
    return _first_best(merits(outputs, dial))


def merits(outputs: tf.Tensor, dial: Dial = NEUTRAL) -> tf.Tensor:
    """Returns the values by which a triage decision is chosen, `[B, 4]` in [0, 1]: merits (`Dial`) or Q-values."""
    if not has_probabilities(outputs):
        return outputs[:, :NUM_DECISIONS]
    return (appropriate(outputs) + dial.safety_weight * safe(outputs)) / (1 + dial.safety_weight)


def has_probabilities(outputs: tf.Tensor) -> bool:
    """Returns whether `outputs` hold probabilities after the Q-values."""
    return outputs.shape[-1] > NUM_ACTIONS


def appropriate(outputs: tf.Tensor) -> tf.Tensor:
    """Returns the probability `[B, 4]` that each decision is appropriate."""
    return outputs[:, NUM_ACTIONS : NUM_ACTIONS + NUM_DECISIONS]


def safe(outputs: tf.Tensor) -> tf.Tensor:
    """Returns the probability `[B, 4]` that each decision is safe."""
    return outputs[:, NUM_ACTIONS + NUM_DECISIONS :]


def _first_best(values: tf.Tensor) -> tf.Tensor:
    """Returns the first column of each row whose value is the highest, up to `TIE`; int32 `[B]`."""
    best = tf.cast(values >= tf.reduce_max(values, axis=-1, keepdims=True) - TIE, tf.float32)
    # tf.argmax does not define ties; top_k guarantees that the lower index comes first.
    return tf.squeeze(tf.math.top_k(best, k=1).indices, axis=-1)  # [B]
