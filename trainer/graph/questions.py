"""The agent's choice of questions as TensorFlow operations, so that all users of an exported model ask the same ones.

The value of a question is the information, in bits, that its answer is expected to give about whether each decision is
appropriate and, weighted by the agent's safety weight, whether it is safe. So the larger that weight, the more valuable
are questions that may uncover under-triage. A mixture of patients says how likely a yes is, and values all questions at
once. Of the best of them, the network that decides judges both answers: what counts is how they change its decision.

Red flags come first, several of them in one question, those first that set urgent patients like this one apart, and
those of urgent patients in general last. A finding is asked about before its special kinds. Nothing is asked that
vignettes like these do not mention.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from schemas.evidence import Vocabulary
from schemas.features import MOST_QUESTIONS
from schemas.safety_rules import SafetyRule
from schemas.triage import NUM_DECISIONS, Action
from trainer.graph.closure import Closure
from trainer.graph.decide import OperatingPoint, anything_known, appropriate, decide, safe
from trainer.graph.mixture import Mixture
from trainer.graph.relations import more_general, padded, settled_by
from trainer.graph.rules import OpenRedFlags, RedFlags

RED_FLAG_LIKELY, RED_FLAG_RELATED = 0.001, 4.0
"""Minimum probability with which a red flag by itself is asked about before anything else: absolute, and as a factor.

The factor is that of its probability where nothing is known; more than even odds are always enough. Of age and sex, the
absolute one alone counts. An interview also goes on for such a red flag although the agent would decide. A rule of
which something else holds already, or of a special kind of what the patient has, names the patients in whom its red
flags matter, however rare they are.
"""
RELATED = 0.01
"""Share of vignettes of such patients that must mention what is asked, and of these that must have it.

Vignettes mention what their authors thought of, also by denying it; those of complete patients mention everything.
"""
TOGETHER = 6
"""Red flags in one question, at most. No interview ends before as many of them are known, unless with Red."""
OPENING = 1_000.0
"""What the age and the sex of a patient are worth where nothing is known of them: more than a red flag."""
RED_FLAG = 100.0
"""What a question that may fire a rule for Red is worth at least, by its rank."""
FLAGGED = 20.0
"""What a distinctive red flag of the vocabulary is worth at least, by its rank: more than any information."""
GENERAL, GENERAL_AFTER = 15.0, 3
"""What a general danger sign is worth at least, and the number of denied red flags after which they are asked about.

They are the red flags that set urgent patients apart whatever they come with, such as confusion or fast breathing.
Those of the complaint come first.
"""
DISTINCTIVE = 0.02
"""By how much, in nats, a red flag must set urgent patients apart to be asked about before anything else.

With red flags that everybody may have, interviews name a third more findings and decide no better.
"""
OF_CARDS = 2 * TOGETHER
"""Denied red flags after which an agent of cards asks about other things as well.

It knows from imagined answers alone what a denial means that no card has; with more of them, it finds fewer of the Red
cases.
"""
SHORTLIST = 12
"""Questions of which the network judges both answers."""
_SHORTLISTED = 10.0  # above any information, below red flags
_NEVER = -1.0  # below any information
_LEAST = 1e-6
_LITTLE = 1e-5
"""In nats; less than that is the second-order term of the information, as rounding changes a difference of entropies.

Otherwise the order of questions late in an interview would depend on the machine.
"""


class Questions(NamedTuple):
    """The best questions in each state, the best first; at most `MOST_QUESTIONS`.

    Codes that are asked together with the first question are no questions of their own.
    """

    codes: tf.Tensor  # int32 [B, Q], cell of the state; -1 where nothing is left to ask
    gains: tf.Tensor  # float32 [B, Q], in bits; 0 where nothing is left to ask
    likely: tf.Tensor  # float32 [B, Q], probability of a yes
    red_flags: tf.Tensor  # bool [B, Q], whether a yes would raise a red flag
    worth_asking: tf.Tensor  # bool [B, Q], whether going on is worth more than deciding; age, sex and red flags are
    together: tf.Tensor  # int32 [B, T], the codes of the first question, itself first, if it asks several; else -1


class Imagined(NamedTuple):
    """A yes-no question in each state of a batch that nobody was asked, with both answers still open."""

    change: tf.Tensor  # float32 [B, E], what a yes adds to the state, and a no takes from it: one 1, or none
    likely: tf.Tensor  # float32 [B], probability of a yes


class _Valued(NamedTuple):
    """What is known of each of E questions, `[B, E]`."""

    may_ask: tf.Tensor  # bool
    first: tf.Tensor  # float32, added to the bits, so that some come before others
    gains: tf.Tensor  # float32, in bits
    likely: tf.Tensor  # float32, probability of a yes
    flags: tf.Tensor  # bool, open red flags of rules
    group: tf.Tensor  # int32 [B, T], red flags that make one question, -1 behind the last; -1 if the first is alone
    opens: tf.Tensor  # bool, what an interview opens with
    asks: tf.Tensor  # bool [B], whether the agent would ask, as it also does where nothing is known

    @property
    def ranks(self) -> tf.Tensor:
        """float32: the highest comes first; negative if not to be asked."""
        return tf.where(self.may_ask, self.gains + self.first, tf.fill(tf.shape(self.gains), _NEVER))


class _Opening(NamedTuple):
    """What the opening makes of E questions, bool `[B, E]`."""

    chosen: tf.Tensor  # stands for its group
    others: tf.Tensor  # not to be asked
    flags: tf.Tensor  # chosen where a member of its group, whichever it is, would raise a red flag


Network = Callable[[tf.Tensor], tf.Tensor]
"""From states `[B, E]` to outputs `[B, O]`, see `trainer.dyqn.network`."""


class QuestionGraph:
    """Ranks questions for a model.

    Args:
        mixture: of its training vignettes.
        vocabulary: of E pieces of evidence.
        rules: that it obeys; open red flags come first.
        point: its operating point.
        network: that decides, with probabilities; None leaves the choice of questions to the mixture.
        shortlist: number of questions of which the network judges both answers.
    """

    def __init__(
        self,
        mixture: Mixture,
        vocabulary: Vocabulary,
        rules: Sequence[SafetyRule],
        point: OperatingPoint,
        network: Network | None = None,
        shortlist: int = SHORTLIST,
    ):
        self._mixture = mixture
        self._network = network
        self._point = point
        self._shortlist = min(shortlist, len(vocabulary))
        self._closure = Closure(vocabulary)
        self._settled_by = settled_by(vocabulary)  # [E, W]
        settles: np.ndarray = np.zeros((2 * len(vocabulary) + 1, len(vocabulary)), np.float32)
        settles[self._settled_by.T, np.arange(len(vocabulary))] = 1
        self._settling = np.flatnonzero(settles[:-1].sum(axis=1) > 1)  # [S], literals that settle more than their code
        self._settles = settles[self._settling]  # [S, E]
        groups = [list(cells) for cells in vocabulary.openings.values()]
        self._groups = padded(groups, len(vocabulary))  # [G, W], padded with E
        self._above = more_general(vocabulary)  # [E, W]
        parents = sorted({*self._above.ravel()} - {len(vocabulary)})
        self._kinds = padded(
            [np.flatnonzero((self._above == cell).any(axis=1)).tolist() for cell in parents], len(vocabulary)
        )
        self._row_of: np.ndarray = np.full(len(vocabulary), len(parents), np.int32)  # [E], in `_kinds`
        self._row_of[parents] = np.arange(len(parents))
        self.red_flags = OpenRedFlags(rules, vocabulary)
        self._flagged = vocabulary.red_flags  # [E]
        self._most_denied = OF_CARDS if mixture.of_cards else len(vocabulary)
        self._mentioned = mixture.present + mixture.denied  # [K, E]
        prior = np.exp(mixture.log_prior)
        self._usual = prior @ self._mentioned / prior.sum()  # [E]
        usual = prior @ mixture.present / prior.sum()
        self._likely_enough = np.clip(RED_FLAG_RELATED * usual, RED_FLAG_LIKELY, 0.5).astype(np.float32)  # [E]
        urgent = prior * (1 - mixture.truths[:, NUM_DECISIONS + Action.GREEN])
        distinctive = np.asarray(self._divergence(urgent @ self._mentioned / urgent.sum()))
        at_home = [not entry.instrument for entry in vocabulary]
        widest = (self._above == len(vocabulary)).all(axis=1)
        distinctive = np.where(self._flagged & at_home & widest & (distinctive >= DISTINCTIVE), distinctive, 0)
        general = np.argsort(-distinctive, kind="stable")[:TOGETHER]
        self._general: np.ndarray = np.zeros(len(vocabulary), np.float32)  # [E], what asking about each is worth
        self._general[general] = np.where(distinctive[general] > 0, GENERAL + distinctive[general], 0)
        weights: np.ndarray = np.repeat([1.0, point.safety_weight], NUM_DECISIONS)
        # A mean over truths, so that values with different operating points are comparable.
        self._weights = (weights / weights.sum() / np.log(2)).astype(np.float32)  # [8]
        self._most = min(MOST_QUESTIONS, len(vocabulary))

    @property
    def judges(self) -> bool:
        """Whether a network with probabilities judges the questions."""
        return self._network is not None

    def __call__(self, states: tf.Tensor, not_to_ask: tf.Tensor) -> Questions:
        """Returns the questions for states `[B, E]` float32, except for those `not_to_ask`, bool `[B, E]`."""
        valued = self._valued(states, not_to_ask)
        grouped = tf.reduce_any(tf.one_hot(valued.group[:, 1:], states.shape[1], True, False), axis=1)
        best, cells = tf.math.top_k(tf.where(grouped, _NEVER, valued.ranks), self._most)
        askable = best > _NEVER / 2

        def chosen(values: tf.Tensor) -> tf.Tensor:
            return tf.where(askable, tf.gather(values, cells, batch_dims=1), tf.zeros_like(values[:, : self._most]))

        worth_asking = askable & (valued.asks[:, tf.newaxis] | chosen(valued.flags | valued.opens))
        return Questions(
            tf.where(askable, cells, -1),
            chosen(valued.gains),
            chosen(valued.likely),
            chosen(valued.flags),
            worth_asking,
            valued.group,
        )

    def asks(self, states: tf.Tensor, not_to_ask: tf.Tensor, used: tf.Tensor | bool = True) -> tf.Tensor:
        """Returns the codes of the best question, int32 `[B, T]`, -1 behind the last, and where nothing is asked.

        The network judges only where its judgement decides, and only for rows that are `used`, bool `[B]`.
        """
        valued = self._by_mixture(states, not_to_ask)
        ranks = valued.ranks
        if self._network is not None:
            rows = tf.where(used & (tf.reduce_max(ranks, axis=1) < _SHORTLISTED))
            part = _Valued(*(tf.gather_nd(values, rows) for values in valued))
            judged = self._judged(self._network, tf.gather_nd(states, rows), part)
            ranks = tf.tensor_scatter_nd_update(ranks, rows, judged.ranks)
        first = tf.argmax(ranks, axis=1, output_type=tf.int32)
        first = tf.where(tf.reduce_max(ranks, axis=1) > _NEVER / 2, first, -1)[:, tf.newaxis]
        alone = tf.pad(first, [[0, 0], [0, valued.group.shape[1] - 1]], constant_values=-1)
        return tf.where(valued.group[:, :1] >= 0, valued.group, alone)

    def open_red_flags(self, states: tf.Tensor, not_to_ask: tf.Tensor) -> tf.Tensor:
        """Returns the codes that keep an interview going, bool `[B, E]`, see `RED_FLAG_LIKELY`."""
        classes = self.classes(states)
        likely = self._likely(classes)
        red_flags = self.red_flags.open(states)
        opened = self._first_asked(states, likely, red_flags, not_to_ask)
        distinctive_flags = self._distinctive_flags(states, self._distinctiveness(classes))
        flags = self._asked_first(red_flags, likely) | self._first_flags(states, distinctive_flags) | opened.flags
        return flags & self.may_ask(states) & ~not_to_ask & ~opened.others

    def _asked_first(self, red_flags: RedFlags, likely: tf.Tensor) -> tf.Tensor:
        """Returns which open red flags of rules are asked about before anything else, bool `[B, E]`."""
        return red_flags.near & (likely >= self._likely_enough) | red_flags.begun

    def _first_flags(self, states: tf.Tensor, distinctive_flags: tf.Tensor) -> tf.Tensor:
        """Returns which of the distinctive flags `[B, E]` an interview does not end without, bool `[B, E]`."""
        known = tf.math.count_nonzero((states != 0) & self._flagged, axis=1, keepdims=True, dtype=tf.int32)
        return distinctive_flags & (known < TOGETHER)

    def _valued(self, states: tf.Tensor, not_to_ask: tf.Tensor) -> "_Valued":
        valued = self._by_mixture(states, not_to_ask)
        return valued if self._network is None else self._judged(self._network, states, valued)

    def _by_mixture(self, states: tf.Tensor, not_to_ask: tf.Tensor) -> "_Valued":
        """Returns what the mixture makes of all questions; as far as it knows, the agent would always ask."""
        classes = self.classes(states)
        gains, likely = self.values(classes)
        red_flags = self.red_flags.open(states)
        opened = self._first_asked(states, likely, red_flags, not_to_ask)
        flags = self._asked_first(red_flags, likely) | opened.flags
        distinctive = self._distinctiveness(classes)
        distinctive_flags = self._distinctive_flags(states, distinctive)
        first = tf.where(distinctive_flags, FLAGGED + distinctive, tf.zeros_like(gains))
        first = tf.maximum(first, tf.where(self._denied_flags(states) >= GENERAL_AFTER, self._general, 0.0))
        first = tf.where(flags, RED_FLAG + likely, first)
        first = tf.where(opened.chosen, OPENING + first, first)  # a red flag among them is the first
        unknown = self.may_ask(states)
        open_codes = unknown & ~not_to_ask & ~opened.others
        may_ask = open_codes & (self._related(classes, likely) | (first > 0))
        flags |= self._first_flags(states, distinctive_flags)
        # In place of a special kind, what it is a kind of: whether the chest hurts, and only then how.
        flags |= self._most_of_kinds(tf.cast(may_ask & flags, tf.float32)) > 0
        of_kinds = self._most_of_kinds(tf.where(may_ask, first, tf.zeros_like(first)))
        first = tf.maximum(first, of_kinds)
        waits = self._waits(open_codes)
        # Who cannot tell whether there is heartburn cannot tell when; of red flags even that is asked.
        waits |= self._waits(unknown) & (first <= 0)
        may_ask = (may_ask | (open_codes & (of_kinds > 0))) & ~waits
        group = self._group(
            tf.where(may_ask & ~opened.chosen & (first >= GENERAL), gains + first, tf.fill(tf.shape(gains), _NEVER)),
            tf.reduce_any(opened.chosen, axis=1),
        )
        # A question about several is a red flag's if one of them is.
        members = tf.reduce_any(tf.one_hot(group, flags.shape[1], True, False), axis=1)
        flags |= tf.one_hot(group[:, 0], flags.shape[1], True, False) & tf.reduce_any(
            members & flags, axis=1, keepdims=True
        )
        asks = tf.ones_like(states[:, 0], tf.bool)
        return _Valued(may_ask, first, gains, likely, flags, group, opened.chosen, asks)

    def _judged(self, network: Network, states: tf.Tensor, valued: "_Valued") -> "_Valued":
        """Returns what the network makes of the best questions, which come before all others."""
        cells = tf.math.top_k(valued.ranks, self._shortlist).indices  # [B, C]
        now, after = self._before_and_after(network, states, cells)
        known = anything_known(states)
        asks = decide(now, tf.zeros_like(known), known, self._point) == Action.ASK
        judged = self._worth(after, tf.gather(valued.likely, cells, batch_dims=1))
        rows = tf.broadcast_to(tf.range(tf.shape(cells)[0])[:, tf.newaxis], tf.shape(cells))
        places = tf.stack([rows, cells], axis=-1)
        gains = tf.tensor_scatter_nd_update(valued.gains, places, judged)
        first = tf.tensor_scatter_nd_add(valued.first, places, tf.fill(tf.shape(cells), _SHORTLISTED))
        # The first of a group stays the first, whatever the network judges.
        first += _SHORTLISTED * tf.one_hot(valued.group[:, 0], gains.shape[1])
        return valued._replace(first=first, gains=gains, asks=asks)

    def _most_of_kinds(self, values: tf.Tensor) -> tf.Tensor:
        """Returns the highest of `values` `[B, E]`, 0 or more, among the special kinds of each code; 0 without any."""
        most = tf.reduce_max(tf.gather(tf.pad(values, [[0, 0], [0, 1]]), self._kinds, axis=1), axis=2)
        return tf.gather(tf.pad(most, [[0, 0], [0, 1]]), self._row_of, axis=1)

    def _waits(self, open_codes: tf.Tensor) -> tf.Tensor:
        """Returns which codes are special kinds of what is itself one of `open_codes`, bool `[B, E]`."""
        return tf.reduce_any(tf.gather(tf.pad(open_codes, [[0, 0], [0, 1]]), self._above, axis=1), axis=2)

    def _related(self, classes: tf.Tensor, likely: tf.Tensor) -> tf.Tensor:
        """Returns which codes vignettes of such patients mention, and not only to deny them; bool `[B, E]`."""
        mentioned = likely + self._denied(classes)
        return (mentioned >= RELATED) & (likely >= RELATED * mentioned)

    def _distinctiveness(self, classes: tf.Tensor) -> tf.Tensor:
        """Returns by how much mentions of each code set urgent patients of these classes apart, in nats, `[B, E]`.

        It is the code's part of the Kullback-Leibler divergence between what their vignettes mention and what all do.
        Patients are as urgent as Green would be unsafe for them.
        """
        urgent = classes * (1 - self._mixture.truths[:, NUM_DECISIONS + Action.GREEN])  # [B, K]
        urgent /= tf.reduce_sum(urgent, axis=1, keepdims=True)
        return self._divergence(_product(urgent, self._mentioned))

    def _divergence(self, mentioned: tf.Tensor) -> tf.Tensor:
        """Returns the part of each code, in nats, by the shares of urgent patients who mention it, `[..., E]` both."""
        return mentioned * tf.math.log(mentioned / self._usual)

    def _distinctive_flags(self, states: tf.Tensor, distinctive: tf.Tensor) -> tf.Tensor:
        """Returns which red flags of the vocabulary come before other questions, bool `[B, E]`."""
        return self._flagged & (distinctive >= DISTINCTIVE) & (self._denied_flags(states) < self._most_denied)

    def _denied_flags(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the number of red flags that are denied, int32 `[B, 1]`."""
        return tf.math.count_nonzero((states < 0) & self._flagged, axis=1, keepdims=True, dtype=tf.int32)

    def _group(self, ranks: tf.Tensor, opening: tf.Tensor) -> tf.Tensor:
        """Returns the codes that make the first question if there are several: int32 `[B, T]`, see `_Valued.group`.

        What follows from another answer of the group is left for later.

        Args:
            ranks: float32 `[B, E]`, negative but for red flags.
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

    def _before_and_after(self, network: Network, states: tf.Tensor, cells: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns what the network makes of states and of both answers to the questions `cells` `[B, C]`, in one call.

        Returns:
            Its outputs in the states, `[B, O]`; and the probabilities that each decision is appropriate, then safe,
            after a yes and after a no, `[B, C, 2, 8]`.
        """
        count, width = cells.shape[1], states.shape[1]
        change = tf.one_hot(cells, width)[:, :, tf.newaxis] * tf.constant([[1.0], [-1.0]])  # [B, C, 2, E]
        after = states[:, tf.newaxis, tf.newaxis] * (1 - tf.abs(change)) + change
        outputs = network(tf.concat([states, tf.reshape(after, [-1, width])], axis=0))
        rows = tf.shape(states)[0]
        truths = tf.concat([appropriate(outputs), safe(outputs)], axis=1)[rows:]
        return outputs[:rows], tf.reshape(truths, [-1, count, 2, 2 * NUM_DECISIONS])

    def _worth(self, after: tf.Tensor, likely: tf.Tensor) -> tf.Tensor:
        """Returns the bits that questions are worth to the network, `[B, C]`.

        Args:
            after: see `_before_and_after`.
            likely: probability of a yes, `[B, C]`.
        """
        yes, no = after[:, :, 0], after[:, :, 1]  # [B, C, 8]
        likely = likely[:, :, tf.newaxis]
        before = likely * yes + (1 - likely) * no
        gains = _entropy(before) - likely * _entropy(yes) - (1 - likely) * _entropy(no)
        return tf.maximum(tf.linalg.matvec(gains, self._weights), 0.0)

    def may_ask(self, states: tf.Tensor) -> tf.Tensor:
        """Returns which codes are open in states `[B, E]`: neither known nor settled; bool `[B, E]`."""
        unknown = states == 0
        if not len(self._settling):
            return unknown
        literals = tf.concat([states > 0, states < 0], axis=1)  # [B, 2 E]
        settling = tf.cast(tf.gather(literals, self._settling, axis=1), tf.float32)
        return unknown & (_product(settling, self._settles) < 0.5)

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

    def _first_asked(
        self, states: tf.Tensor, likely: tf.Tensor, red_flags: RedFlags, not_to_ask: tf.Tensor
    ) -> "_Opening":
        """Returns which codes stand for a group in the opening.

        The most likely member stands for a group of which nothing is known. The others are not asked, and no member is
        if one of them is in `not_to_ask`: who cannot tell an age band cannot tell another one.
        """
        if not len(self._groups):
            nothing = tf.zeros_like(states, tf.bool)
            return _Opening(nothing, nothing, nothing)
        withheld = tf.gather(tf.pad(not_to_ask, [[0, 0], [0, 1]]), self._groups, axis=1)  # [B, G, W]
        withheld = tf.reduce_any(withheld, axis=2)
        opens = self._unknown(states) & ~withheld  # [B, G]
        odds = tf.gather(tf.pad(likely, [[0, 0], [0, 1]], constant_values=-1.0), self._groups, axis=1)
        member = tf.one_hot(tf.argmax(odds, axis=2), self._groups.shape[1], True, False)  # [B, G, W]
        member = tf.reduce_max(tf.where(member, self._groups, -1), axis=2)  # [B, G]
        chosen = tf.reduce_any(tf.one_hot(tf.where(opens, member, -1), states.shape[1], True, False), axis=1)
        places = np.eye(states.shape[1] + 1, dtype=np.float32)[self._groups].sum(axis=1)[:, :-1]  # [G, E]
        members = tf.matmul(tf.cast(opens | withheld, tf.float32), places) > 0
        odds = tf.nn.relu(odds)
        red = tf.gather(tf.pad(red_flags.near, [[0, 0], [0, 1]]), self._groups, axis=1)
        raised = tf.reduce_sum(tf.where(red, odds, tf.zeros_like(odds)), axis=2)  # exactly one member is present
        raises = raised >= RED_FLAG_LIKELY * tf.maximum(tf.reduce_sum(odds, axis=2), _LEAST)  # [B, G]
        flags = tf.matmul(tf.cast(raises, tf.float32), places) > 0
        return _Opening(chosen, members & ~chosen, flags & chosen)

    def _unknown(self, states: tf.Tensor) -> tf.Tensor:
        """Returns of which groups nothing is known, bool `[B, G]`."""
        known = tf.gather(tf.pad(self._closure(states), [[0, 0], [0, 1]]), self._groups, axis=1) != 0  # [B, G, W]
        return ~tf.reduce_any(known, axis=2)

    def values(self, classes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the value of each code in bits, and the probability that it is present, float32 `[B, E]` both.

        Args:
            classes: float32 `[B, K]`, see `classes`.
        """
        likely = _product(classes, self._mixture.present)
        yes = tf.maximum(likely, _LEAST)[:, tf.newaxis]
        no = tf.maximum(1 - likely, _LEAST)[:, tf.newaxis]
        truths = self._mixture.truths  # [K, 8]
        now = _product(classes, truths)[..., tf.newaxis]  # [B, 8, 1]
        apart = classes[:, tf.newaxis] * (truths.T - now)  # [B, 8, K]
        covariance = _product(tf.reshape(apart, [-1, apart.shape[2]]), self._mixture.present)
        # Of each answer and each truth, [B, 8, E].
        covariance = tf.reshape(covariance, [-1, 2 * NUM_DECISIONS, covariance.shape[1]])
        covariance -= likely[:, tf.newaxis] * tf.reduce_sum(apart, axis=2, keepdims=True)  # 0 but for rounding
        after = yes * _entropy(now + covariance / yes) + no * _entropy(now - covariance / no)
        little = tf.square(covariance) / (2 * now * (1 - now) * yes * no)
        gains = tf.where(little < _LITTLE, little, _entropy(now) - after)  # [B, 8, E]
        return tf.maximum(tf.reduce_sum(gains * self._weights[:, np.newaxis], axis=1), 0.0), likely

    def imagined(self, states: tf.Tensor, generator: tf.random.Generator) -> Imagined:
        """Returns a question in each of `states` `[B, E]`, drawn at random among the related ones; zero without any."""
        classes = self.classes(states)
        likely = self._likely(classes)
        open_codes = self._related(classes, likely) & self.may_ask(states)
        keys = tf.where(open_codes, generator.uniform(tf.shape(states)), -1.0)
        question = tf.one_hot(tf.argmax(keys, axis=1), states.shape[1])
        question *= tf.cast(tf.reduce_any(open_codes, axis=1, keepdims=True), tf.float32)
        return Imagined(question, tf.reduce_sum(question * likely, axis=1))

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

    def _likely(self, classes: tf.Tensor) -> tf.Tensor:
        """Returns the probability that each code is present, float32 `[B, E]`."""
        return _product(classes, self._mixture.present)

    def likely_on_card(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the probability that each code is present if a vignette lists it at all, float32 `[B, E]`."""
        classes = self.classes(states)
        likely = self._likely(classes)
        return likely / (likely + self._denied(classes))

    def _denied(self, classes: tf.Tensor) -> tf.Tensor:
        """Returns the probability that a vignette lists each code as absent, float32 `[B, E]`."""
        return _product(classes, self._mixture.denied)

    def classes(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the probability of each class in states `[B, E]`, float32 `[B, K]`."""
        states = self._closure(states)
        literals = tf.concat([tf.nn.relu(states), tf.nn.relu(-states)], axis=1)  # [B, 2 E]
        return tf.nn.softmax(_product(literals, self._mixture.log_literals) + self._mixture.log_prior)


def _entropy(shares: tf.Tensor) -> tf.Tensor:
    """Returns the entropy in nats of statements that are true with probabilities `shares`."""
    shares = tf.clip_by_value(shares, _LEAST, 1 - _LEAST)
    return -(shares * tf.math.log(shares) + (1 - shares) * tf.math.log(1 - shares))


def _product(rows: tf.Tensor, matrix: np.ndarray) -> tf.Tensor:
    """Returns the product of `rows` `[B, N]` with a constant `[N, M]`, which converters for phones do not round.

    They round constants that stand behind to eight bits.
    """
    return tf.transpose(tf.matmul(np.ascontiguousarray(matrix.T), rows, transpose_b=True))
