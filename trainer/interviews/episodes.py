"""Interviews as episodes: in training, an agent asks the patients of vignettes.

There is no action to choose. Every step asks the next question, because the rewards of all decisions and the state
after the answer are known, and an agent has to learn from all lengths. The questions are those of the exported agent,
chosen by a mixture of patients and the danger signs. Some are drawn at random instead. Some interviews reveal the
vignette piece by piece instead, because the network would otherwise hardly ever see a whole vignette.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from schemas.danger_signs import TOGETHER, DangerSigns
from schemas.evidence import Vocabulary
from schemas.triage import NUM_DECISIONS, Action
from trainer.data import state
from trainer.data.state import Vignettes
from trainer.dyqn.episodes import Collected
from trainer.dyqn.targets import Transition
from trainer.graph.mixture import Mixture
from trainer.graph.questions import QuestionGraph
from trainer.graph.rewards import counterfactual_reward
from trainer.interviews.patients import all_answers
from trainer.interviews.play import reveals

EXPLORED = (0.0, 0.0, 0.15, 0.4)
"""The shares of questions drawn at random; each interview uses one of them."""
MASKED = 0.4
"""Share of the findings of a part of a vignette that are hidden again at random."""


class InterviewEpisodes:
    """Interviews with the patients of vignettes, B of them side by side.

    A patient answers as the vignette says. A complete patient lacks every finding that the vignette leaves open. The
    patient of a card answers such questions like a patient of the mixture with that card and those decisions, so that
    the agent learns nothing from which denials somebody thought to record.

    Args:
        vignettes: V of them, each drawn once before any is drawn again.
        whole: whether they list everything that a patient has.
        patients: the mixture, over E pieces of evidence.
        vocabulary: of the E pieces; some need an instrument, which no patient has at home.
        signs: danger signs.
        rows: B.
        max_questions: limit of an interview, whose drawn length may be shorter.
        generator: of all draws.
    """

    def __init__(
        self,
        vignettes: Vignettes,
        whole: bool,
        patients: Mixture,
        vocabulary: Vocabulary,
        signs: DangerSigns,
        rows: int,
        max_questions: int,
        generator: tf.random.Generator,
    ):
        count = len(vocabulary)
        self._offsets = tf.constant(vignettes.offsets, tf.int64)
        self._codes = tf.constant(vignettes.signed_codes)
        self._width = int(np.diff(vignettes.offsets).max())
        given = np.asarray(vignettes.decision_counts) > 0
        self._least_urgent = tf.constant(NUM_DECISIONS - 1 - given[:, ::-1].argmax(axis=1))  # [V]
        self._rewards = counterfactual_reward(tf.constant(vignettes.decision_counts))  # [V, 4]
        self._whole = whole
        self._from_part, self._reading = (0.1, 0.0) if whole else (0.5, 0.25)
        self._graph = QuestionGraph(patients, vocabulary, (), signs)
        self._asks = tf.function(self._graph.asks, autograph=False, jit_compile=True)  # in half the time
        self._measured = tf.constant(vocabulary.takes_instrument)  # [E]
        self._flagged = tf.constant(vocabulary.red_flags)  # [E]
        self._common = tf.constant(np.sqrt(patients.mean(patients.present)), tf.float32)  # [E]
        self._most = max_questions
        self._generator = generator
        self._epoch_seed = generator.make_seeds(1)[:, 0]  # int64 [2]
        answers = max(self._graph.opening_size, TOGETHER)
        self.known_limit = min(self._width + (max_questions + 1) * answers, count)
        self.finished = tf.Variable(0, dtype=tf.int64, name="episode")
        self._drawn = tf.Variable(0, dtype=tf.int64, name="drawn")
        self._vignette = tf.Variable(tf.zeros([rows], tf.int64), name="vignette")
        self._states = tf.Variable(tf.zeros([rows, count], tf.int8), name="states")
        self._answers = tf.Variable(tf.zeros([rows, count], tf.int8), name="answers")
        self._explored = tf.Variable(tf.zeros([rows]), name="explored")
        self._reads = tf.Variable(tf.zeros([rows], tf.bool), name="reads")
        self._left = tf.Variable(tf.fill([rows], -1), name="left")  # questions; below 0 when the interview has ended

    @property
    def variables(self) -> Mapping[str, Any]:
        """See `trainer.dyqn.episodes.Episodes`."""
        changing = ("drawn", "vignette", "states", "answers", "explored", "reads", "left")
        return {name: getattr(self, f"_{name}") for name in changing}

    def summary(self) -> dict[str, float]:
        """See `trainer.dyqn.episodes.Episodes`."""
        return {}

    def collect(self) -> Collected:
        """See `trainer.dyqn.episodes.Episodes`."""
        ended = self._left < 0
        tf.cond(tf.reduce_any(ended), lambda: self._begin(ended), tf.no_op)
        s_tm1 = tf.cast(self._states, tf.float32)
        cells, own = self._question(s_tm1)
        s_t = tf.where(cells, tf.cast(self._answers, tf.float32), s_tm1)
        says = tf.reduce_any(cells, axis=1)
        self._states.assign(tf.cast(s_t, tf.int8))
        self._left.assign(tf.where(says, self._left - 1, -1))
        self.finished.assign_add(tf.math.count_nonzero(self._left < 0))
        transition = Transition(
            state.to_signed_codes(s_tm1, self.known_limit),
            tf.fill(tf.shape(self._vignette), int(Action.ASK)),
            tf.gather(self._rewards, self._vignette),
            state.to_signed_codes(s_t, self.known_limit),
            own & says,
        )
        return Collected(transition, tf.ones_like(self._explored))

    def _begin(self, rows: tf.Tensor) -> tf.Operation:
        """Starts a new interview in each of `rows`, bool `[B]`.

        It starts with the complaint, or with a part of the vignette. Its length is drawn, so that all are learned.
        """
        self._vignette.assign(tf.where(rows, self._next_vignettes(rows), self._vignette))
        codes = self._listed_codes()
        listed = tf.cast(state.from_signed_codes(codes, self._states.shape[1]), tf.int8)
        count = tf.shape(rows)[0]
        uniform = self._generator.uniform([4, count])
        complaint = tf.one_hot(tf.abs(codes[:, 0]) - 1, listed.shape[1], True, False)
        reads, from_part = uniform[0] < self._reading, uniform[0] < self._from_part
        keys = tf.where(listed != 0, self._generator.uniform(tf.shape(listed)), 2.0)
        size = tf.reduce_sum(tf.cast(listed != 0, tf.float32), axis=1)
        places = tf.argsort(tf.argsort(keys, axis=1), axis=1)  # in a random order
        part = places < 1 + tf.cast(uniform[1] * size, tf.int32)[:, tf.newaxis]
        kept = (self._generator.uniform(tf.shape(listed)) >= MASKED) | (places == 0)
        part &= (kept | reads[:, tf.newaxis]) & (listed != 0)
        known = tf.where(from_part[:, tf.newaxis], part, complaint)
        explored = tf.gather(tf.constant(EXPLORED), tf.cast(uniform[2] * len(EXPLORED), tf.int32))
        left = tf.where(reads, self._most, tf.cast(uniform[3] * (self._most + 1), tf.int32))
        several = rows[:, tf.newaxis]
        least_urgent = tf.gather(self._least_urgent, self._vignette)
        answers = all_answers(listed, self._whole, self._graph, self._generator, least_urgent)
        self._answers.assign(tf.where(several, answers, self._answers))
        self._states.assign(tf.where(several, tf.where(known, listed, tf.zeros_like(listed)), self._states))
        self._explored.assign(tf.where(rows, explored, self._explored))
        self._reads.assign(tf.where(rows, reads, self._reads))
        self._left.assign(tf.where(rows, left, self._left))
        return tf.no_op()

    def _listed_codes(self) -> tf.Tensor:
        """Returns what each row's vignette lists, the complaint first: signed codes int32 `[B, C]`, padded with 0."""
        starts = tf.gather(self._offsets, self._vignette)[:, tf.newaxis]
        within = tf.sequence_mask(tf.gather(self._offsets, self._vignette + 1) - starts[:, 0], self._width)
        places = tf.where(within, starts + tf.range(self._width, dtype=tf.int64), 0)
        return tf.where(within, tf.cast(tf.gather(self._codes, places), tf.int32), 0)

    def _question(self, states: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the codes that become known, bool `[B, E]`, and whether they are the agent's own question, `[B]`."""
        open_codes = self._graph.may_ask(states)
        withheld = tf.broadcast_to(self._measured, tf.shape(states))
        opened = self._graph.opening(states, self._answers)
        revealed = reveals(self._asks(states, withheld), opened, self._answers)
        asked = _marked(tf.abs(revealed) - 1, states.shape[1])
        uniform = self._generator.uniform(tf.shape(states))
        drawn = tf.where(open_codes & ~withheld, uniform * self._common, -1.0)
        alone = _marked(tf.argmax(drawn, axis=1)[:, tf.newaxis], states.shape[1]) & (drawn >= 0)
        if not self._whole:
            # Rare red flags are denied together, whatever else is known, so that a denial says no more than it should.
            open_flags = tf.where(self._flagged & (drawn >= 0), uniform, -1.0)
            keys, flags = tf.math.top_k(open_flags, min(TOGETHER, states.shape[1]))
            several = (self._generator.uniform([tf.shape(states)[0], 1]) < 0.5) & (keys[:, :1] >= 0)
            alone = tf.where(several, _marked(tf.where(keys >= 0, flags, -1), states.shape[1]), alone)
        random = self._generator.uniform(tf.shape(self._explored)) < self._explored
        listed = state.from_signed_codes(self._listed_codes(), states.shape[1])
        on_card = tf.where((listed != 0) & (states == 0), uniform, -1.0)
        piece = _marked(tf.argmax(on_card, axis=1)[:, tf.newaxis], states.shape[1]) & (on_card >= 0)
        asked = tf.where(random[:, tf.newaxis], alone, asked)
        asked = tf.where(self._reads[:, tf.newaxis], piece, asked)
        return asked & (states == 0), ~random & ~self._reads

    def _next_vignettes(self, rows: tf.Tensor) -> tf.Tensor:
        """Returns for each of `rows` the next vignette of the epoch, int64 `[B]`; an epoch has each of V once."""
        count = tf.shape(self._rewards, tf.int64)[0]
        numbers = self._drawn + tf.cumsum(tf.cast(rows, tf.int64), exclusive=True)  # [B], counted over all epochs
        self._drawn.assign_add(tf.math.count_nonzero(rows))
        epochs = (numbers // count)[:, tf.newaxis]
        seeds = tf.concat([tf.tile(self._epoch_seed[tf.newaxis], [tf.shape(rows)[0], 1]), epochs], axis=1)  # [B, 3]
        # tf.random.experimental.index_shuffle takes a single seed, not one for each index.
        return tf.raw_ops.RandomIndexShuffle(
            index=numbers % count, seed=tf.cast(seeds, tf.int32), max_index=count - 1, rounds=4
        )


def _marked(cells: tf.Tensor, width: int) -> tf.Tensor:
    """Returns bool `[B, E]`, true in the cells `[B, T]` of each row; -1 stands for none."""
    return tf.reduce_any(tf.one_hot(cells, width, True, False), axis=1)
