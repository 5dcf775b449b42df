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
        holding = _truths(states)

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


class _Pair(NamedTuple):
    """A code in a rule for Red, and the other conditions under which a yes fires the rule.

    One of `every` may still be open if another one holds.
    """

    cell: int
    every: tuple[int, ...]
    some: tuple[int, ...]  # () is satisfied
    none: tuple[int, ...]


class OpenRedFlags:
    """Finds the codes by which a rule for Red that has begun would fire, alone or with one other code that is open.

    A rule has begun where something that it requires (`all`) holds, or the parent of the code. One of `any` begins
    none: who vomits would be asked about stings, snakes and each other cause of vomiting that a rule knows.

    Args:
        rules: those for other decisions are ignored.
        vocabulary: with the codes of the rules.
    """

    def __init__(self, rules: Sequence[SafetyRule], vocabulary: Vocabulary):
        self._count = len(vocabulary)
        self._vocabulary = vocabulary
        self._closure = Closure(vocabulary)
        pairs = [pair for rule in rules if rule.urgency == Action.RED for pair in self._pairs(rule)]
        true, false = 2 * self._count, 2 * self._count + 1
        self._every = padded([pair.every for pair in pairs], true)
        self._some = padded([pair.some or (true,) for pair in pairs], false)
        self._none = padded([pair.none for pair in pairs], false)
        self._opposite = np.where(self._every < true, (self._every + self._count) % true, false).astype(np.int32)
        self._lengths = np.array([len(pair.every) for pair in pairs], np.int32)
        parents = [entry.parent for entry in vocabulary]
        above = np.array([vocabulary.index(parent) if parent else false for parent in parents], np.int32)
        self._parents = above[[pair.cell for pair in pairs]] if pairs else above[:0]
        self._cells: np.ndarray = np.zeros((len(pairs), self._count), np.float32)  # [N, E]
        self._cells[np.arange(len(pairs)), [pair.cell for pair in pairs]] = 1

    def open(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the open red flags of states `[B, E]` float32, bool `[B, E]`; some of them may be known."""
        if not len(self._cells):
            return tf.zeros_like(states, tf.bool)
        holding = _truths(self._closure(states))
        every = tf.gather(holding, self._every, axis=1)  # [B, N, W]
        missing = tf.reduce_sum(tf.cast(~every, tf.int32), axis=2)  # [B, N]
        denied = tf.reduce_any(tf.gather(holding, self._opposite, axis=1), axis=2)
        some = tf.reduce_any(tf.gather(holding, self._some, axis=1), axis=2)
        near = (missing == 0) | ((missing == 1) & ~denied & (self._lengths > 1))
        fires = near & some & ~tf.reduce_any(tf.gather(holding, self._none, axis=1), axis=2)
        begun = fires & ((missing < self._lengths) | tf.gather(holding, self._parents, axis=1))
        return tf.matmul(tf.cast(begun, tf.float32), tf.constant(self._cells)) > 0.5

    @property
    def cells(self) -> np.ndarray:
        """int64: the cells of all codes that a rule for Red requires to be present."""
        return np.flatnonzero(self._cells.any(axis=0))

    def _pairs(self, rule: SafetyRule) -> list[_Pair]:
        every, some, none = (literals(part, self._vocabulary) for part in (rule.all_of, rule.any_of, rule.none_of))
        pairs = [_Pair(cell, tuple(c for c in every if c != cell), some, none) for cell in every if cell < self._count]
        # Where one code of `any` holds, the others would add nothing.
        return pairs + [
            _Pair(cell, every, (), (*none, *(other for other in some if other != cell)))
            for cell in some
            if cell < self._count
        ]


def _truths(states: tf.Tensor) -> tf.Tensor:
    """Returns which literals hold in states `[B, E]`, then a cell that always does and one that never does."""
    always = tf.ones_like(states[:, :1], tf.bool)
    return tf.concat([states > 0, states < 0, always, tf.logical_not(always)], axis=1)  # [B, 2 E + 2]


def _so_far(flags: tf.Tensor) -> tf.Tensor:
    """Returns whether any flag up to and with each place of a row is set; bool `[B, R]` both."""
    return tf.cumsum(tf.cast(flags, tf.int32), axis=1) > 0
