"""Safety rules as TensorFlow operations, so that every reader of an exported model obeys them.

Red flags are codes of rules for Red that have begun and that one or two more answers would fire; questions about them
come first.

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
    """R rules, at least one, in the order in which they apply, over a vocabulary of E pieces of evidence.

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
        holding = _truths(states > 0, states < 0)

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


class OpenRedFlags:
    """Finds the codes by which a rule for Red that has begun would fire, alone or with one other code that is open.

    A rule has begun where something that it requires (`all`) holds, or the parent of the code. One of `any` begins
    none: who vomits would be asked about stings, snakes and each other cause of vomiting that a rule knows. Where
    nobody can have what a rule requires, it leads to no question: no man with a fever is asked what would mean sepsis
    after a birth. Rules for other decisions are ignored.
    """

    def __init__(self, rules: Sequence[SafetyRule], vocabulary: Vocabulary):
        count = len(vocabulary)
        red = [rule for rule in rules if rule.urgency == Action.RED]
        every, some, none = (
            [literals(getattr(rule, part), vocabulary) for rule in red] for part in ("all_of", "any_of", "none_of")
        )
        true, false = 2 * count, 2 * count + 1
        self._closure = Closure(vocabulary)
        self._every = padded(every, true)  # [R, W]
        self._some = padded([codes or (true,) for codes in some], false)
        self._none = padded(none, false)
        self._lengths = np.array(list(map(len, every)), np.int32)
        self._cells = np.concatenate([_present(every, count), _present(some, count)])  # [2 R, E]
        parents = [entry.parent for entry in vocabulary]
        self._parents = np.array([vocabulary.index(parent) if parent else false for parent in parents], np.int32)

    def open(self, states: tf.Tensor, may_be: tf.Tensor) -> tf.Tensor:
        """Returns the open red flags of states `[B, E]` float32, bool `[B, E]`; some of them may be known.

        `may_be`, bool `[B, E]`, are unknown codes that the patient may have.
        """
        if not len(self._cells):
            return tf.zeros_like(states, tf.bool)
        states = self._closure(states)
        holding = _truths(states > 0, states < 0)
        possible = _truths((states > 0) | may_be, states <= 0)

        def looked_up(truths: tf.Tensor, table: np.ndarray) -> tf.Tensor:
            return tf.gather(truths, table, axis=1)  # [B, R, W]

        can_fire = tf.reduce_all(looked_up(possible, self._every), axis=2)
        can_fire &= ~tf.reduce_any(looked_up(holding, self._none), axis=2)
        some = tf.reduce_any(looked_up(holding, self._some), axis=2)  # [B, R]
        missing = tf.reduce_sum(tf.cast(~looked_up(holding, self._every), tf.int32), axis=2)
        # One other code may be open, too, if the rule requires a third, or where one of `any` is open a second.
        near = [
            can_fire & some & (missing <= np.where(self._lengths > 2, 2, 1)),
            can_fire & ~some & (missing <= np.where(self._lengths > 1, 1, 0)),
        ]
        begun = missing < self._lengths
        return self._asked([rules & begun for rules in near]) | (
            self._asked(near) & tf.gather(holding, self._parents, axis=1)
        )

    def _asked(self, rules: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the codes of rules, of their `all` and of their `any`, bool `[B, R]` both; bool `[B, E]`."""
        return tf.matmul(tf.cast(tf.concat(rules, axis=1), tf.float32), tf.constant(self._cells)) > 0.5


def _present(rows: Sequence[Sequence[int]], count: int) -> np.ndarray:
    """Returns the codes that must be present among rows of literals, float32 `[R, E]`."""
    cells: np.ndarray = np.zeros((len(rows), count), np.float32)
    for row, codes in enumerate(rows):
        cells[row, [code for code in codes if code < count]] = 1
    return cells


def _truths(present: tf.Tensor, absent: tf.Tensor) -> tf.Tensor:
    """Returns which literals hold, bool `[B, 2 E + 2]`: those given, one that always does and one that never does."""
    always = tf.ones_like(present[:, :1])
    return tf.concat([present, absent, always, ~always], axis=1)


def _so_far(flags: tf.Tensor) -> tf.Tensor:
    """Returns whether any flag up to and with each place of a row is set; bool `[B, R]` both."""
    return tf.cumsum(tf.cast(flags, tf.int32), axis=1) > 0
