"""The agent's choice of questions as TensorFlow operations, so that all users of an exported model ask the same ones.

An interview opens with the age and sex of the patient. Then come the open danger signs, several of them in one
question: those by which a safety rule that has begun would fire, and those of the patient's complaints
(`schemas.danger_signs`); what is both leads. No interview ends below Red before they are known. The next question is
the one with the highest value: the information, in bits, that its answer is expected to give about whether each
decision is appropriate and whether it is safe. A mixture of patients estimates how likely a yes is. A finding is asked
about before its special kinds, and what few similar patients have is not asked about.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from schemas.danger_signs import NO_SIGNS, TOGETHER, DangerSigns
from schemas.evidence import Vocabulary
from schemas.features import MOST_QUESTIONS
from schemas.safety_rules import SafetyRule
from schemas.triage import NUM_DECISIONS, Action
from trainer.graph.closure import Closure
from trainer.graph.decide import NEUTRAL, Heads, OperatingPoint, anything_known, decide
from trainer.graph.mixture import Mixture, classes_given, product
from trainer.graph.relations import literals, more_general, padded, settled_by
from trainer.graph.rules import OpenRedFlags

RELATED, AS_OFTEN = 0.01, 0.5
"""A finding is asked about if the share of similar patients who have it is at least `RELATED`, and at least `AS_OFTEN`
times that of all patients.

What similar patients have less often has little to do with their complaint, such as acne with an injured ankle.
"""
ORDER = 2
"""Version of the choice of questions. Raise it with each change, as a promise holds for one choice alone."""
_OPENING, _RULE, _SIGN = 1_000.0, 100.0, 10.0
"""Ranks of what comes first, all above any information in bits."""
_NEVER = -1.0  # below any information
_LEAST = 1e-6
_LITTLE = 1e-5
"""In nats; less than that is the second-order term of the information, as rounding changes a difference of entropies.

Otherwise the order of questions late in an interview would depend on the machine.
"""


class Questions(NamedTuple):
    """The best questions in each state, the best first; at most `MOST_QUESTIONS`.

    Codes that are asked together with the first question are not listed as questions.
    """

    codes: tf.Tensor  # int32 [B, Q], cell of the state; -1 where nothing is left to ask
    gains: tf.Tensor  # float32 [B, Q], in bits; 0 where nothing is left to ask
    likely: tf.Tensor  # float32 [B, Q], probability of a yes
    red_flags: tf.Tensor  # bool [B, Q], whether it is an open danger sign; the first is if one of its group is
    worth_asking: tf.Tensor  # bool [B, Q], whether going on is worth more than deciding; age, sex and signs are
    together: tf.Tensor  # int32 [B, T], the codes of the first question, itself first, if it asks several; else -1


class _Ranked(NamedTuple):
    """All E questions of states, `[B, E]`."""

    ranks: tf.Tensor  # float32, the highest comes first; negative if not to be asked
    gains: tf.Tensor  # float32, in bits
    likely: tf.Tensor  # float32, probability of a yes
    signs: tf.Tensor  # bool, open danger signs
    opens: tf.Tensor  # bool, what an interview opens with
    group: tf.Tensor  # int32 [B, T], signs that make one question, -1 behind the last; -1 if the first is alone


Network = Callable[[tf.Tensor], Heads]
"""From states `[B, E]` to a network's outputs."""


class QuestionGraph:
    """Ranks questions for a model.

    Args:
        mixture: of its training vignettes.
        vocabulary: of E pieces of evidence.
        rules: that it obeys.
        signs: danger signs of the vocabulary.
        network: that says where going on is worth more than deciding; None means everywhere.
        point: see `network`.
    """

    def __init__(
        self,
        mixture: Mixture,
        vocabulary: Vocabulary,
        rules: Sequence[SafetyRule] = (),
        signs: DangerSigns = NO_SIGNS,
        network: Network | None = None,
        point: OperatingPoint = NEUTRAL,
    ):
        self._mixture = mixture
        self._least_likely = np.maximum(AS_OFTEN * mixture.mean(mixture.present), RELATED).astype(np.float32)
        self._network = network
        self._point = point
        self._closure = Closure(vocabulary)
        self._settled_by = settled_by(vocabulary)  # [E, W]
        settles: np.ndarray = np.zeros((2 * len(vocabulary) + 1, len(vocabulary)), np.float32)
        settles[self._settled_by.T, np.arange(len(vocabulary))] = 1
        for code, others in signs.not_asked.items():
            who = [status for status, follows in vocabulary.relations.implied.items() if (code, True) in follows]
            kinds = (kind for other in others for kind, _ in vocabulary.relations.following((other, False)))
            cells = [vocabulary.index(each) for each in (*others, *kinds)]
            settles[np.ix_(literals([(code, True), *who], vocabulary), cells)] = 1
        self._settling = np.flatnonzero(settles[:-1].sum(axis=1) > 1)  # [S], literals that settle more than their code
        self._settles = settles[self._settling]  # [S, E]
        self._groups = padded([list(cells) for cells in vocabulary.openings.values()], len(vocabulary))  # [G, W]
        self._members = np.eye(len(vocabulary) + 1, dtype=np.float32)[self._groups].sum(axis=1)[:, :-1]  # [G, E]
        self._above = more_general(vocabulary)  # [E, W]
        below = [np.flatnonzero((self._above == cell).any(axis=1)).tolist() for cell in range(len(vocabulary))]
        self._below = padded(below, len(vocabulary))  # [E, W]
        self._red_flags = OpenRedFlags(rules, vocabulary)
        self._complaints, self._signs = _by_group(signs, vocabulary)
        self._most = min(MOST_QUESTIONS, len(vocabulary))

    def __call__(self, states: tf.Tensor, not_to_ask: tf.Tensor) -> Questions:
        """Returns the questions for states `[B, E]` float32, except for those `not_to_ask`, bool `[B, E]`."""
        ranked = self._ranked(states, not_to_ask)
        later = tf.reduce_any(tf.one_hot(ranked.group[:, 1:], states.shape[1], True, False), axis=1)
        best, cells = tf.math.top_k(tf.where(later, _NEVER, ranked.ranks), self._most)
        askable = best > _NEVER / 2

        def chosen(values: tf.Tensor) -> tf.Tensor:
            return tf.where(askable, tf.gather(values, cells, batch_dims=1), tf.zeros_like(values[:, : self._most]))

        worth_asking = askable & (self._asks(states)[:, tf.newaxis] | chosen(ranked.signs | ranked.opens))
        return Questions(
            tf.where(askable, cells, -1),
            chosen(ranked.gains),
            chosen(ranked.likely),
            chosen(ranked.signs),
            worth_asking,
            ranked.group,
        )

    def asks(self, states: tf.Tensor, not_to_ask: tf.Tensor) -> tf.Tensor:
        """Returns the codes of the best question, int32 `[B, T]`, -1 behind the last, and where nothing is asked."""
        ranked = self._ranked(states, not_to_ask)
        first = tf.argmax(ranked.ranks, axis=1, output_type=tf.int32)
        first = tf.where(tf.reduce_max(ranked.ranks, axis=1) > _NEVER / 2, first, -1)[:, tf.newaxis]
        alone = tf.pad(first, [[0, 0], [0, ranked.group.shape[1] - 1]], constant_values=-1)
        return tf.where(ranked.group[:, :1] >= 0, ranked.group, alone)

    def open_signs(self, states: tf.Tensor, not_to_ask: tf.Tensor) -> tf.Tensor:
        """Returns the danger signs that keep an interview going, bool `[B, E]`: those that may be asked about."""
        withheld = tf.cast(self._withheld(not_to_ask), tf.float32)
        unknown = self.may_ask(states)
        open_codes = unknown & ~not_to_ask & ~(tf.matmul(withheld, self._members) > 0)
        return self._sign_ranks(states, unknown, open_codes) > 0

    def _asks(self, states: tf.Tensor) -> tf.Tensor:
        """Returns whether the network would ask, bool `[B]`, as it also does where nothing is known."""
        known = anything_known(states)
        if self._network is None:
            return tf.ones_like(known)
        return decide(self._network(states)["q"], tf.zeros_like(known), known, self._point) == Action.ASK

    def _ranked(self, states: tf.Tensor, not_to_ask: tf.Tensor) -> _Ranked:
        classes = self.classes(states)
        gains, likely = self.values(classes)
        unknown = self.may_ask(states)
        chosen, others = self._opening(states, likely, not_to_ask)
        open_codes = unknown & ~not_to_ask & ~others
        signs = self._sign_ranks(states, unknown, open_codes)
        first = tf.where(chosen, _OPENING, signs)
        # Who cannot tell whether there is heartburn cannot tell when; of danger signs even that is asked.
        waits = self._waits(open_codes) | (self._waits(unknown) & (first <= 0))
        may_ask = open_codes & ((likely >= self._least_likely) | (first > 0)) & ~waits
        ranks = tf.where(may_ask, gains + first, tf.fill(tf.shape(gains), _NEVER))
        group = self._group(
            tf.where((signs > 0) & ~chosen, ranks, tf.fill(tf.shape(gains), _NEVER)), tf.reduce_any(chosen, axis=1)
        )
        return _Ranked(ranks, gains, likely, may_ask & (signs > 0), chosen, group)

    def _sign_ranks(self, states: tf.Tensor, unknown: tf.Tensor, open_codes: tf.Tensor) -> tf.Tensor:
        """Returns the rank of each danger sign among `open_codes`, those of `unknown` that may be asked about.

        All are `[B, E]`; ranks are float32, 0 for no sign.

        Those of rules that have begun come first, then those of complaints. Each part is in the order of the lists of
        the complaints, and what no list names comes last in it. In place of a special kind whose parent is open comes
        the parent: whether the chest hurts, and only then how.
        """
        present = tf.nn.relu(self._closure(states))
        listed = tf.zeros_like(states)
        for place, (complaints, signs) in enumerate(zip(self._complaints, self._signs, strict=True)):
            named = tf.cast(tf.gather(present, complaints, axis=1), tf.float32)  # [B, N]
            rank = _SIGN + 2 * (len(self._signs) - place)  # a group comes before the next one, whatever a sign says
            listed = tf.maximum(listed, rank * tf.cast(product(named, signs) > 0.5, tf.float32))
        ranks = tf.where(self._red_flags.open(states, unknown), _RULE + listed, listed)
        ranks = tf.where(open_codes, ranks, tf.zeros_like(ranks))
        waiting = tf.where(self._waits(open_codes), ranks, tf.zeros_like(ranks))
        above = tf.concat([waiting, tf.zeros_like(waiting[:, :1])], axis=1)
        return tf.maximum(ranks - waiting, self._to_parents(above) * tf.cast(open_codes, tf.float32))

    def _to_parents(self, ranks: tf.Tensor) -> tf.Tensor:
        """Returns the highest of `ranks` `[B, E + 1]` among the special kinds of each code, float32 `[B, E]`."""
        return tf.reduce_max(tf.gather(ranks, self._below, axis=1), axis=2)

    def _waits(self, open_codes: tf.Tensor) -> tf.Tensor:
        """Returns which codes are special kinds of what is itself one of `open_codes`, bool `[B, E]`."""
        return tf.reduce_any(tf.gather(tf.pad(open_codes, [[0, 0], [0, 1]]), self._above, axis=1), axis=2)

    def _group(self, ranks: tf.Tensor, opening: tf.Tensor) -> tf.Tensor:
        """Returns the codes that make the first question if there are several: int32 `[B, T]`, see `_Ranked.group`.

        What follows from another answer of the group is left for later.

        Args:
            ranks: float32 `[B, E]`, negative but for danger signs.
            opening: bool `[B]`, rows that open with another question.
        """
        best, cells = tf.math.top_k(ranks, min(2 * TOGETHER, ranks.shape[1]))  # [B, C]
        settling = tf.gather(tf.constant(self._settled_by), cells)[:, :, tf.newaxis]  # [B, C, 1, W]
        others = cells[:, tf.newaxis, :, tf.newaxis]
        follows = tf.reduce_any((settling == others) | (settling == others + ranks.shape[1]), axis=3)  # [B, C, C]
        before: np.ndarray = np.tri(cells.shape[1], k=-1, dtype=bool)
        kept = (best > 0) & ~tf.reduce_any(follows & before, axis=2)
        places = tf.cast(tf.range(cells.shape[1], 0, -1), tf.float32) * tf.cast(kept, tf.float32)
        chosen, order = tf.math.top_k(places, min(TOGETHER, cells.shape[1]))
        several = (tf.reduce_sum(tf.cast(kept, tf.int32), axis=1) > 1) & ~opening
        return tf.where((chosen > 0) & several[:, tf.newaxis], tf.gather(cells, order, batch_dims=1), -1)

    def may_ask(self, states: tf.Tensor) -> tf.Tensor:
        """Returns which codes are open in states `[B, E]`: neither known nor settled; bool `[B, E]`."""
        unknown = states == 0
        if not len(self._settling):
            return unknown
        known = tf.concat([states > 0, states < 0], axis=1)  # [B, 2 E], which literals hold
        settling = tf.cast(tf.gather(known, self._settling, axis=1), tf.float32)
        return unknown & (product(settling, self._settles) < 0.5)

    @property
    def opening_size(self) -> int:
        """G, the number of groups that an interview opens with."""
        return len(self._groups)

    def opening(self, states: tf.Tensor, answers: tf.Tensor) -> tf.Tensor:
        """Returns what the opening of interviews makes known: signed codes int32 `[B, G]`, 0 where it asks nothing.

        An interview opens with the age and sex of a patient, in one turn, where nothing is known of them.

        Args:
            states: float32 `[B, E]`.
            answers: of the patients, `[B, E]` in {-1, 0, 1}.
        """
        has = tf.gather(tf.pad(answers, [[0, 0], [0, 1]]), self._groups, axis=1) > 0  # [B, G, W]
        members = tf.reduce_max(tf.where(has, self._groups + 1, 0), axis=2)  # [B, G]
        return tf.where(self._unknown(states), members, 0)

    def _opening(self, states: tf.Tensor, likely: tf.Tensor, not_to_ask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns which codes stand for a group in the opening, and which are not asked for that; bool `[B, E]` both.

        The most likely member stands for a group of which nothing is known. The others are not asked, and no member is
        if one of them is in `not_to_ask`: who cannot tell an age band cannot tell another one.
        """
        if not len(self._groups):
            nothing = tf.zeros_like(states, tf.bool)
            return nothing, nothing
        withheld = self._withheld(not_to_ask)
        opens = self._unknown(states) & ~withheld  # [B, G]
        odds = tf.gather(tf.pad(likely, [[0, 0], [0, 1]], constant_values=-1.0), self._groups, axis=1)
        member = tf.one_hot(tf.argmax(odds, axis=2), self._groups.shape[1], True, False)  # [B, G, W]
        member = tf.reduce_max(tf.where(member, self._groups, -1), axis=2)  # [B, G]
        chosen = tf.reduce_any(tf.one_hot(tf.where(opens, member, -1), states.shape[1], True, False), axis=1)
        members = tf.matmul(tf.cast(opens | withheld, tf.float32), self._members) > 0
        return chosen, members & ~chosen

    def _withheld(self, not_to_ask: tf.Tensor) -> tf.Tensor:
        """Returns which groups have a member among `not_to_ask`, bool `[B, E]`: bool `[B, G]`."""
        return tf.reduce_any(tf.gather(tf.pad(not_to_ask, [[0, 0], [0, 1]]), self._groups, axis=1), axis=2)

    def _unknown(self, states: tf.Tensor) -> tf.Tensor:
        """Returns of which groups nothing is known, bool `[B, G]`."""
        known = tf.gather(tf.pad(self._closure(states), [[0, 0], [0, 1]]), self._groups, axis=1) != 0  # [B, G, W]
        return ~tf.reduce_any(known, axis=2)

    def values(self, classes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the value of each code in bits, and the probability that it is present, float32 `[B, E]` both.

        Args:
            classes: float32 `[B, K]`, see `classes`.
        """
        likely = product(classes, self._mixture.present)
        yes = tf.maximum(likely, _LEAST)[:, tf.newaxis]
        no = tf.maximum(1 - likely, _LEAST)[:, tf.newaxis]
        truths = self._mixture.truths  # [K, 8]
        now = product(classes, truths)[..., tf.newaxis]  # [B, 8, 1]
        apart = classes[:, tf.newaxis] * (truths.T - now)  # [B, 8, K]
        covariance = product(tf.reshape(apart, [-1, apart.shape[2]]), self._mixture.present)
        # Of each answer and each truth, [B, 8, E].
        covariance = tf.reshape(covariance, [-1, 2 * NUM_DECISIONS, covariance.shape[1]])
        covariance -= likely[:, tf.newaxis] * tf.reduce_sum(apart, axis=2, keepdims=True)  # 0 but for rounding
        after = yes * _entropy(now + covariance / yes) + no * _entropy(now - covariance / no)
        little = tf.square(covariance) / (2 * now * (1 - now) * yes * no)
        gains = tf.where(little < _LITTLE, little, _entropy(now) - after)  # [B, 8, E]
        return tf.maximum(tf.reduce_mean(gains, axis=1) / np.log(2), 0.0), likely

    def patients_like(
        self, states: tf.Tensor, generator: tf.random.Generator, least_urgent: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Returns patients who answer everything, each drawn from those in its state `[B, E]`; float32 `[B, E]`.

        A patient has what the state says, and what follows from it.

        Args:
            states: float32 `[B, E]`.
            generator: of the patients.
            least_urgent: int `[B]`, the least urgent decision that clinicians gave each patient, so that what is made
                up agrees with it; None if unknown. Otherwise answers beyond a card would seem to say nothing.
        """
        states = self._closure(states)
        classes = self.classes(states)  # [B, K]
        if least_urgent is not None:
            classes *= tf.gather(tf.constant(self._mixture.least_urgent.T), least_urgent)
            classes /= tf.reduce_sum(classes, axis=1, keepdims=True)
        drawn = generator.uniform([tf.shape(states)[0], 1])
        chosen = tf.minimum(
            tf.reduce_sum(tf.cast(tf.cumsum(classes, axis=1) < drawn, tf.int32), axis=1), classes.shape[1] - 1
        )
        present = tf.gather(tf.constant(self._mixture.present), chosen)  # [B, E]
        patients = tf.where(generator.uniform(tf.shape(present)) < present, 1.0, -1.0)
        for group in self._groups:  # exactly one member each, that of the state if it has one
            cells = group[group < patients.shape[1]]
            known = tf.gather(states, cells, axis=1)  # [B, W]
            odds = tf.where(known < 0, _LEAST, tf.gather(present, cells, axis=1)) + tf.nn.relu(known) / _LEAST
            shares = tf.cumsum(odds / tf.reduce_sum(odds, axis=1, keepdims=True), axis=1)
            below = shares[:, :-1] <= generator.uniform([tf.shape(states)[0], 1])
            member = tf.one_hot(tf.reduce_sum(tf.cast(below, tf.int32), axis=1), len(cells))  # [B, W]
            places = tf.one_hot(cells, patients.shape[1])  # [W, E]
            patients = tf.where(tf.reduce_any(places > 0, axis=0), 2 * tf.matmul(member, places) - 1, patients)
        return tf.where(states != 0, states, patients)

    def likely_on_card(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the probability that each code is present if a vignette lists it at all, float32 `[B, E]`."""
        classes = self.classes(states)
        likely = product(classes, self._mixture.present)
        return likely / (likely + product(classes, self._mixture.denied))

    def classes(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the probability of each class in states `[B, E]`, float32 `[B, K]`."""
        return classes_given(self._mixture, self._closure(states))


def _by_group(signs: DangerSigns, vocabulary: Vocabulary) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns for the first group of all complaints, the second and so on: their cells `[N]`, and signs `[N, E]`."""
    cells, members = [], []
    for place in range(max(map(len, signs.groups.values()), default=0)):
        named = {complaint: groups[place] for complaint, groups in signs.groups.items() if len(groups) > place}
        rows: np.ndarray = np.zeros((len(named), len(vocabulary)), np.float32)
        for row, codes in enumerate(named.values()):
            rows[row, [vocabulary.index(code) for code in codes]] = 1
        cells.append(np.array([vocabulary.index(complaint) for complaint in named], np.int32))
        members.append(rows)
    return cells, members


def _entropy(shares: tf.Tensor) -> tf.Tensor:
    """Returns the entropy in nats of statements that are true with probabilities `shares`."""
    shares = tf.clip_by_value(shares, _LEAST, 1 - _LEAST)
    return -(shares * tf.math.log(shares) + (1 - shares) * tf.math.log(1 - shares))
