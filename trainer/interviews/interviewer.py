"""Interviews in training: patients who answer, and the agent's own questions to them."""

import functools

import keras
import numpy as np
import tensorflow as tf

from schemas.evidence import Vocabulary
from schemas.triage import NUM_DECISIONS
from trainer.dyqn.environment import Imagine
from trainer.dyqn.network import members_of
from trainer.graph.decide import NEUTRAL, has_probabilities
from trainer.graph.mixture import Mixture
from trainer.graph.questions import TOGETHER, QuestionGraph
from trainer.interviews.patients import interviewed
from trainer.interviews.play import learned_policy, play
from trainer.vignettes import state
from trainer.vignettes.state import Vignettes

SHORTLIST = 8
"""Questions of which the network judges both answers in training: fewer than when it is used, for speed."""
_SEED = 2_023  # of what held-out patients answer; unlike the seeds of training


class PatientInterviews:
    """Interviews that an agent leads while it is trained, and with held-out patients.

    Args:
        mixture: of the patients that the networks learn from.
        vocabulary: of their evidence.
        whole: whether vignettes list everything that a patient has.
        questions: number put to a held-out patient.
    """

    def __init__(self, mixture: Mixture, vocabulary: Vocabulary, whole: bool, questions: int):
        self._mixture = mixture
        self._vocabulary = vocabulary
        self.whole = whole
        self._questions = questions

    def begin(
        self, vignettes: Vignettes, network: keras.Model, generator: tf.random.Generator
    ) -> "TrainingInterviewer":
        """Returns the interviewer of a training run, whose questions follow `network` as it learns.

        One network of several, drawn anew each time, chooses a question: that of the average takes five times as long.
        Without probabilities it cannot judge questions, which the mixture alone chooses then.
        """
        members = members_of(network)

        def one(states: tf.Tensor) -> tf.Tensor:
            number = generator.uniform([], maxval=len(members), dtype=tf.int32)
            return tf.sigmoid(tf.switch_case(number, [functools.partial(each, states) for each in members]))

        judge = one if _judges(network) else None
        graph = QuestionGraph(self._mixture, self._vocabulary, (), NEUTRAL, judge, SHORTLIST)
        return TrainingInterviewer(vignettes, self.whole, self._mixture, graph, self._vocabulary, generator)

    @property
    def card_starts(self) -> float:
        """See `trainer.dyqn.environment.Interviews`; that of a whole patient just lists what is present."""
        return 0.1 if self.whole else 0.5

    @property
    def card_reading(self) -> float:
        """See `trainer.dyqn.environment.Interviews`; that of a whole patient is no card."""
        return 0.0 if self.whole else 0.25

    def interview_states(self, network: keras.Model | None, vignettes: Vignettes) -> np.ndarray:
        """See `trainer.dyqn.environment.Interviews`."""
        graph = QuestionGraph(self._mixture, self._vocabulary, (), NEUTRAL, network if _judges(network) else None)
        generator = tf.random.Generator.from_seed(_SEED, alg="philox")
        like = None if self.whole else functools.partial(graph.patients_like, generator=generator)
        patients = interviewed(vignettes, len(self._vocabulary), like).at_home(self._vocabulary)
        model = _no_outputs if network is None else tf.function(network, autograph=False)
        interviews = play(
            patients,
            model,
            graph.may_ask,
            learned_policy(graph),
            self._questions,
            NEUTRAL,
            opening=graph.opening,
        )
        return interviews.states(patients).transpose(1, 0, 2)


def _judges(network: keras.Model | None) -> bool:
    return network is not None and has_probabilities(network.output)


def _no_outputs(states: tf.Tensor) -> tf.Tensor:
    return tf.zeros([states.shape[0], 1])


class TrainingInterviewer:
    """Puts the questions of an agent that is being trained to the patients of its vignettes.

    A patient answers as the vignette says. What it leaves open, a whole patient lacks; the patient of a card answers it
    like a patient of the mixture who has such a card and was triaged so, so that nothing is learned from somebody
    having thought of denying a finding.

    Args:
        vignettes: V of them.
        whole: whether they list everything that a patient has.
        mixture: of patients, over E pieces of evidence.
        graph: chooses the questions.
        vocabulary: of the E pieces; some take an instrument, which no patient has at home.
        generator: of the answers, and of the questions drawn at random.
    """

    def __init__(
        self,
        vignettes: Vignettes,
        whole: bool,
        mixture: Mixture,
        graph: QuestionGraph,
        vocabulary: Vocabulary,
        generator: tf.random.Generator,
    ):
        self._offsets = tf.constant(vignettes.offsets, tf.int64)
        self._codes = tf.constant(vignettes.signed_codes)
        given = np.asarray(vignettes.decision_counts) > 0
        self._least_urgent = tf.constant(NUM_DECISIONS - 1 - given[:, ::-1].argmax(axis=1))  # [V]
        self._width = int(np.diff(vignettes.offsets).max())
        self._whole = whole
        self._mixture = mixture
        self._graph = graph
        self._measured = tf.constant(vocabulary.takes_instrument)  # [E]
        self._flagged = tf.constant(vocabulary.red_flags)  # [E]
        self._generator = generator
        self._common = tf.constant(np.sqrt(np.exp(mixture.log_prior) @ mixture.present), tf.float32)  # [E]

    def patients(self, vignettes: tf.Tensor) -> tf.Tensor:
        """See `trainer.dyqn.environment.Interviewer`."""
        starts = tf.gather(self._offsets, vignettes)
        sizes = tf.gather(self._offsets, vignettes + 1) - starts
        within = tf.sequence_mask(sizes, self._width)
        places = tf.where(within, starts[:, tf.newaxis] + tf.range(self._width, dtype=tf.int64), 0)
        codes = tf.where(within, tf.cast(tf.gather(self._codes, places), tf.int32), 0)
        cards = state.from_signed_codes(codes, self._common.shape[0])
        if self._whole:
            return tf.where(cards > 0, tf.ones_like(cards, tf.int8), -1)
        like = self._graph.patients_like(cards, self._generator, tf.gather(self._least_urgent, vignettes))
        return tf.cast(tf.where(cards == 0, like, cards), tf.int8)

    @property
    def most_answers(self) -> int:
        """See `trainer.dyqn.environment.Interviewer`."""
        return max(self._graph.opening_size, TOGETHER)

    def answers(self, states: tf.Tensor, patients: tf.Tensor, explored: tf.Tensor) -> tf.Tensor:
        """See `trainer.dyqn.environment.Interviewer`."""
        withheld = tf.broadcast_to(self._measured, tf.shape(states))
        best = self._graph.asks(states, withheld, explored < 1)  # [B, T]
        uniform = self._generator.uniform(tf.shape(states))
        drawn = tf.where(self._graph.may_ask(states) & ~withheld, uniform * self._common, -1.0)
        random = (self._generator.uniform(tf.shape(explored)) < explored)[:, tf.newaxis]
        one = tf.where(tf.reduce_max(drawn, axis=1) >= 0, tf.argmax(drawn, axis=1, output_type=tf.int32), -1)
        alone = tf.pad(one[:, tf.newaxis], [[0, 0], [0, best.shape[1] - 1]], constant_values=-1)
        if not self._whole:
            # Rare red flags are denied together, whatever else is known, so that a denial says no more than it should.
            keys, flags = tf.math.top_k(tf.where(self._flagged & (drawn >= 0), uniform, -1.0), best.shape[1])
            several = (self._generator.uniform([tf.shape(states)[0], 1]) < 0.5) & (keys[:, :1] >= 0)
            alone = tf.where(several, tf.where(keys >= 0, flags, -1), alone)
        cells = tf.where(random, alone, best)
        signs = tf.cast(tf.gather(patients, tf.maximum(cells, 0), batch_dims=1), tf.int32)
        answers = self._padded(tf.where(cells >= 0, signs * (cells + 1), 0))
        if not self._graph.opening_size:
            return answers
        opening = tf.where(random, 0, self._graph.opening(states, patients))
        opens = tf.reduce_any(opening != 0, axis=1, keepdims=True)
        return tf.where(opens, self._padded(opening), answers)

    @property
    def imagine(self) -> Imagine | None:
        """See `trainer.dyqn.environment.Interviewer`; it made agents of complete patients worse."""
        if self._whole or not self._graph.judges:
            return None
        return functools.partial(self._graph.imagined, generator=self._generator)

    def _padded(self, codes: tf.Tensor) -> tf.Tensor:
        return tf.pad(codes, [[0, 0], [0, self.most_answers - codes.shape[1]]])
