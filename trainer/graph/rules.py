"""Safety rules as TensorFlow operations, so that every reader of an exported model obeys them.

Conditions are looked up in a table of truths, `[B, 2 E + 2]` bool: present, absent, and one cell each that is always
true and always false. Booleans, not sums, because quantisation for phones rounds numbers and leaves booleans alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from schemas.evidence import Vocabulary
from schemas.safety_rules import SafetyRule
from schemas.triage import NUM_DECISIONS, Action
from trainer.graph.closure import Closure
from trainer.graph.relations import literals, padded


class Raised(NamedTuple):
    """Decisions after rules."""

    action: tf.Tensor  # int32 [B]
    best_triage: tf.Tensor  # int32 [B], never ask


class RuleGraph:
    """R rules over a vocabulary of E pieces of evidence.

    Args:
        rules: in the order in which they apply, at least one.
        vocabulary: that holds their codes.

    No rule fires where nothing is known: each has a condition in all or in any (`schemas.safety_rules`).

    Raises:
        InputError: a code is not in the vocabulary.
        ValueError: there is no rule.
    """

    def __init__(self, rules: Sequence[SafetyRule], vocabulary: Vocabulary):
        if not rules:
            raise ValueError("expected at least one rule")
        true, false = 2 * len(vocabulary), 2 * len(vocabulary) + 1
        self._all = padded([literals(rule.all_of, vocabulary) for rule in rules], true)  # [R, W]
        self._any = padded([literals(rule.any_of, vocabulary) or (true,) for rule in rules], false)
        self._none = padded([literals(rule.none_of, vocabulary) for rule in rules], false)
        self._urgencies = np.array([rule.urgency for rule in rules], np.int32)
        self._stopping = np.array([rule.stop_asking for rule in rules])
        self._closure = Closure(vocabulary)

    def fired(self, states: tf.Tensor) -> tf.Tensor:
        """Returns which rules apply to states `[B, E]` float32 with all that follows: bool `[B, R]`."""
        states = self._closure(states)
        holding = truths(states)

        def looked_up(table: np.ndarray) -> tf.Tensor:
            return tf.gather(holding, table, axis=1)  # [B, R, W]

        every = tf.reduce_all(looked_up(self._all), axis=2)
        some = tf.reduce_any(looked_up(self._any), axis=2)
        return every & some & ~tf.reduce_any(looked_up(self._none), axis=2)

    def apply(self, fired: tf.Tensor, action: tf.Tensor, best_triage: tf.Tensor) -> Raised:
        """Returns the decisions `[B]` int32 after the rules that `fired`, bool `[B, R]`; none is less urgent."""
        urgencies = tf.where(fired, self._urgencies, NUM_DECISIONS)  # [B, R]
        triage = tf.minimum(best_triage, tf.reduce_min(urgencies, axis=1))
        asking = (action == Action.ASK) & ~tf.reduce_any(fired & self._stopping, axis=1)
        return Raised(tf.where(asking, int(Action.ASK), triage), triage)

    def steps(self, fired: tf.Tensor, action: tf.Tensor, best_triage: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the actions before and after each rule, int32 `[B, R]`; what `apply` returns is after the last."""
        asking = (action == Action.ASK)[:, tf.newaxis] & ~_so_far(fired & self._stopping)  # [B, R]
        # The urgency is the number of levels that no rule reached so far.
        below = [~_so_far(fired & (self._urgencies <= level)) for level in range(NUM_DECISIONS)]
        triage = tf.minimum(best_triage[:, tf.newaxis], tf.add_n([tf.cast(missed, tf.int32) for missed in below]))
        after = tf.where(asking, int(Action.ASK), triage)
        return tf.concat([action[:, tf.newaxis], after[:, :-1]], axis=1), after


def truths(states: tf.Tensor) -> tf.Tensor:
    """Returns which literals hold in states `[B, E]`, then a cell that always does and one that never does."""
    always = tf.ones_like(states[:, :1], tf.bool)
    return tf.concat([states > 0, states < 0, always, tf.logical_not(always)], axis=1)  # [B, 2 E + 2]


def _so_far(flags: tf.Tensor) -> tf.Tensor:
    """Returns whether any flag up to and with each place of a row is set; bool `[B, R]` both."""
    return tf.cumsum(tf.cast(flags, tf.int32), axis=1) > 0
