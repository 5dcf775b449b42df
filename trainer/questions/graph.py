"""The learned question policy as TensorFlow operations, so that all users of an exported model ask the same questions.

The value of a question is the information, in bits, that its answer is expected to give about whether each decision is
appropriate and, weighted by the agent's safety weight, whether it is safe. So the larger that weight, the more valuable
are questions that may uncover under-triage.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from schemas.evidence import Vocabulary
from schemas.features import MOST_QUESTIONS
from schemas.safety_rules import SafetyRule
from schemas.triage import NUM_DECISIONS
from trainer.dyqn.decision import Dial, anything_known
from trainer.questions.mixture import Mixture
from trainer.questions.red_flags import OpenRedFlags
from trainer.questions.relations import settled_by

RED_FLAG_LIKELY = 0.02
"""Minimum probability with which an open red flag is asked about before anything else.

And with which an interview goes on although the agent would decide: with .02 rather than .05 more emergencies are
safe, for .2 questions (docs/questions.md).
"""
RED_FLAG_WORTH = 0.3
"""Bits that learning of a code of a rule for Red is worth, whatever it says about the decision.

The information of an answer is an average: that of a rare red flag is small. With .3 the first red flag of an emergency
is known after half as many questions; more than that costs quality (docs/questions.md).
"""
RED_FLAG = 100.0
"""What a question about an open red flag is worth at least, by its rank: more than any information."""
_NEVER = -1.0  # below any information
_LEAST = 1e-6


class Questions(NamedTuple):
    """The best questions in each state, the best first; at most `MOST_QUESTIONS`."""

    codes: tf.Tensor  # int32 [B, Q], cell of the state; -1 where nothing is left to ask
    gains: tf.Tensor  # float32 [B, Q], in bits; 0 where nothing is left to ask
    likely: tf.Tensor  # float32 [B, Q], probability of a yes
    red_flags: tf.Tensor  # bool [B, Q], whether a yes would raise a red flag
    worth_asking: tf.Tensor  # bool [B, Q], whether the answer is worth more than a question costs; red flags always are


class QuestionGraph:
    """Ranks questions for a model.

    Args:
        mixture: of its training vignettes.
        vocabulary: of E pieces of evidence.
        rules: that it obeys; open red flags come first.
        dial: of which the safety weight and the cost of a question count.
    """

    def __init__(self, mixture: Mixture, vocabulary: Vocabulary, rules: Sequence[SafetyRule], dial: Dial):
        self._mixture = mixture
        self._settled_by = settled_by(vocabulary)
        self.red_flags = OpenRedFlags(rules, vocabulary)
        self._worth: np.ndarray = np.zeros(len(vocabulary), np.float32)  # [E]
        self._worth[self.red_flags.cells] = RED_FLAG_WORTH
        weights: np.ndarray = np.repeat([1.0, dial.safety_weight], NUM_DECISIONS)
        # A mean over truths, so that values with different dials are comparable.
        self._weights = (weights / weights.sum() / np.log(2)).astype(np.float32)  # [8]
        self._cost = dial.question_cost
        self._most = min(MOST_QUESTIONS, len(vocabulary))

    def __call__(self, states: tf.Tensor, not_to_ask: tf.Tensor) -> Questions:
        """Returns the questions for states `[B, E]` float32, except for those `not_to_ask`, bool `[B, E]`."""
        gains, likely, flags = self._valued(states)
        best, cells = tf.math.top_k(self._ranked(states, not_to_ask, gains, likely, flags), self._most)
        askable = best > _NEVER / 2

        def chosen(values: tf.Tensor) -> tf.Tensor:
            return tf.where(askable, tf.gather(values, cells, batch_dims=1), tf.zeros_like(values[:, : self._most]))

        nothing_known = ~anything_known(states)[:, tf.newaxis]  # nobody can be triaged on nothing
        worth_asking = askable & ((best > self._cost) | nothing_known)
        return Questions(tf.where(askable, cells, -1), chosen(gains), chosen(likely), chosen(flags), worth_asking)

    def ranks(self, states: tf.Tensor, not_to_ask: tf.Tensor) -> tf.Tensor:
        """Returns the bits by which questions are ranked, float32 `[B, E]`; negative if not to be asked."""
        return self._ranked(states, not_to_ask, *self._valued(states))

    def _valued(self, states: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        gains, likely = self.values(states)
        return gains, likely, self.red_flags.open(states) & (likely >= RED_FLAG_LIKELY)

    def _ranked(
        self, states: tf.Tensor, not_to_ask: tf.Tensor, gains: tf.Tensor, likely: tf.Tensor, flags: tf.Tensor
    ) -> tf.Tensor:
        first = tf.where(flags, RED_FLAG + likely, likely * self._worth)
        return tf.where(self.may_ask(states) & ~not_to_ask, gains + first, tf.fill(tf.shape(gains), _NEVER))

    def may_ask(self, states: tf.Tensor) -> tf.Tensor:
        """Returns which codes are open in states `[B, E]`: neither known nor settled; bool `[B, E]`."""
        never = tf.zeros_like(states[:, :1], tf.bool)
        truths = tf.concat([states > 0, states < 0, never], axis=1)  # [B, 2 E + 1]
        return ~tf.reduce_any(tf.gather(truths, self._settled_by, axis=1), axis=2)

    def values(self, states: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the value of each code in bits, and the probability that it is present, float32 `[B, E]` both."""
        one = _one(states)
        truths = tf.constant(self._mixture.truths) * one  # [K, 8]
        classes = self._classes(states)  # [B, K]
        whole = tf.concat([tf.ones_like(truths[:, :1]), truths], axis=1)  # [K, 9]
        parts = classes[:, tf.newaxis] * tf.transpose(whole)[tf.newaxis]  # [B, 9, K]
        rows, columns = tf.shape(states)[0], self._mixture.present.shape[1]
        flat = tf.matmul(tf.reshape(parts, [-1, parts.shape[2]]), tf.constant(self._mixture.present) * one)
        joint = tf.reshape(flat, [rows, 1 + truths.shape[1], columns])  # [B, 9, E]: P(present), P(present and true)
        likely = joint[:, 0]
        now = tf.matmul(classes, truths)[..., tf.newaxis]  # [B, 8, 1]
        yes = tf.maximum(likely, _LEAST)[:, tf.newaxis]
        no = tf.maximum(1 - likely, _LEAST)[:, tf.newaxis]
        after = yes * _entropy(joint[:, 1:] / yes) + no * _entropy((now - joint[:, 1:]) / no)  # [B, 8, E]
        weights = tf.constant(self._weights)[:, tf.newaxis] * one
        return tf.maximum(tf.reduce_sum((_entropy(now) - after) * weights, axis=1), 0.0), likely

    def likely_on_card(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the probability that each code is present if a vignette lists it at all, float32 `[B, E]`."""
        return tf.matmul(self._classes(states), tf.constant(self._mixture.written))

    def _classes(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the probability of each class in states `[B, E]`, float32 `[B, K]`."""
        literals = tf.concat([tf.nn.relu(states), tf.nn.relu(-states)], axis=1)  # [B, 2 E]
        logs = tf.matmul(literals, tf.constant(self._mixture.log_literals) * _one(states))
        return tf.nn.softmax(logs + tf.constant(self._mixture.log_prior))


def _entropy(shares: tf.Tensor) -> tf.Tensor:
    """Returns the entropy in nats of statements that are true with probabilities `shares`."""
    shares = tf.clip_by_value(shares, _LEAST, 1 - _LEAST)
    return -(shares * tf.math.log(shares) + (1 - shares) * tf.math.log(1 - shares))


def _one(states: tf.Tensor) -> tf.Tensor:
    """Returns 1, computed so that converters for phones do not round its factors to eight bits."""
    return tf.cast(tf.reduce_max(states[:1]) > -2.0, tf.float32)  # states are in {-1, 0, 1}: always
