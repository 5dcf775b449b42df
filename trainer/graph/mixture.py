"""A mixture of K classes of patients: predicts which evidence is present, and which decisions are right.

Each class has a probability of each piece of evidence and, for each decision, the share of its patients for whom it is
appropriate, and safe. Pieces are independent within a class, so all predictions have a closed form. The classes are
fitted to training vignettes by expectation maximisation. Evidence that a vignette does not list counts as absent. This
is exact for complete patients; for cards, the mixture estimates how often a finding is recorded, which is less often
than it is present. Age and sex, which everybody has, are counted only over the vignettes that list them.
"""

import pathlib
from typing import NamedTuple

import numpy as np
import scipy.special
import tensorflow as tf

from schemas.evidence import Vocabulary
from schemas.triage import NUM_DECISIONS
from trainer.data.state import Vignettes, sparse_states
from trainer.graph import rewards
from trainer.graph.closure import Closure
from triage_runtime.storage import arrays_file

FEWEST_LEARNED = 75
"""With fewer vignettes to learn from, classes would be meaningless. Of 100 for training, a quarter is held out."""
WRITTEN_AGAIN = "delete the file, and repeat the triage train command of this job, which writes it again"
"""What to do about a damaged file of statistics."""
MOST_CLASSES, VIGNETTES_PER_CLASS = 400, 25
"""Vignettes for each class. With fewer classes, questions about rare conditions would be too vague."""
_STEPS = 30
_SMOOTHING = 2.0  # weight of the overall frequencies in each class, in patients
_GROUP_SMOOTHING = 10.0  # the same of age and sex, of which few vignettes of a class say something
_LEAST, _MOST = 1e-4, 1 - 2**-11  # probabilities; the latter is the largest below 1 in half precision
_LEAST_URGENT = 0.01  # a class is never ruled out by one vignette's decisions
_MAX_VIGNETTES = 50_000


class Mixture(NamedTuple):
    """K classes of patients over E pieces of evidence."""

    log_prior: np.ndarray  # float32 [K]
    present: np.ndarray  # float32 [K, E] in (0, 1)
    truths: np.ndarray  # float32 [K, 8] in (0, 1): each decision is appropriate, then each is safe
    denied: np.ndarray  # float32 [K, E] in (0, 1): that a vignette lists a piece as absent

    @property
    def log_literals(self) -> np.ndarray:
        """float32 `[2 E, K]`: the logarithm of the probability that a piece is present, then that it is absent."""
        return np.log(np.concatenate([self.present, 1 - self.present], axis=1)).T

    @property
    def least_urgent(self) -> np.ndarray:
        """float32 `[K, 4]`: the share of a class's patients of whom each decision is the least urgent one given."""
        safe = np.pad(self.truths[:, NUM_DECISIONS + 1 :], [(0, 0), (1, 1)], constant_values=((0, 0), (1, 0)))
        shares = np.maximum(safe[:, :-1] - safe[:, 1:], _LEAST_URGENT)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Returns the mean over all patients, `[E]`, of values of the classes, `[K, E]`."""
        prior = np.exp(self.log_prior)  # in half precision, the sum is not quite 1
        return np.asarray(prior @ values / prior.sum())


def fit(vignettes: Vignettes, vocabulary: Vocabulary, seed: int) -> Mixture | None:
    """Returns the mixture fitted to training vignettes, None if there are too few.

    Args:
        vignettes: V of them, of which at most 50,000 are used.
        vocabulary: of E pieces of evidence. What follows from a vignette counts as listed.
        seed: of the initial classes and of the choice of vignettes.
    """
    if len(vignettes.decision_counts) < FEWEST_LEARNED:
        return None
    generator = np.random.default_rng(seed)
    chosen = np.sort(generator.permutation(len(vignettes.decision_counts))[:_MAX_VIGNETTES])
    listed = sparse_states(vignettes, len(vocabulary))[chosen]
    present = (Closure(vocabulary).rows(listed) == 1).astype(np.float64)
    absent = (listed == -1).astype(np.float64)  # by somebody who thought of it
    counts = np.asarray(vignettes.decision_counts)[chosen]
    overall = (np.asarray(present.sum(axis=0)).ravel() + 0.5) / (len(chosen) + 1)
    classes = min(-(-len(chosen) // VIGNETTES_PER_CLASS), MOST_CLASSES)
    shares = generator.dirichlet(np.full(classes, 0.3), len(chosen))  # [V, K]
    for _ in range(_STEPS):
        sizes = shares.sum(axis=0)
        log_prior = np.log((sizes + 1) / (sizes.sum() + classes))
        table = ((present.T @ shares).T + _SMOOTHING * overall) / (sizes[:, np.newaxis] + _SMOOTHING)  # [K, E]
        table = np.clip(table, _LEAST, _MOST)
        nobody = np.log1p(-table).sum(axis=1)  # [K]: nothing is present
        shares = scipy.special.softmax(present @ scipy.special.logit(table).T + nobody + log_prior, axis=1)
    sizes = shares.sum(axis=0)[:, np.newaxis]
    listed_absent = (np.asarray(absent.sum(axis=0)).ravel() + 0.5) / (len(chosen) + 1)
    denied = np.clip(((absent.T @ shares).T + _SMOOTHING * listed_absent) / (sizes + _SMOOTHING), _LEAST, _MOST)
    for cells in map(list, vocabulary.openings.values()):
        usual = overall[cells] / overall[cells].sum()
        said = (present[:, cells].T @ shares).T  # [K, W]
        table[:, cells] = said + _GROUP_SMOOTHING * usual
        table[:, cells] /= table[:, cells].sum(axis=1, keepdims=True)
    table = np.clip(table, _LEAST, _MOST)
    truths = np.concatenate([rewards.appropriate(counts).numpy(), rewards.safe(counts).numpy()], axis=1)
    smoothed = shares.T @ truths + _SMOOTHING * truths.mean(axis=0)
    truths = np.clip(smoothed / (sizes + _SMOOTHING), _LEAST, _MOST)
    return Mixture(*(halved(part) for part in (log_prior, table, truths, denied)))


def classes_given(patients: Mixture, states: tf.Tensor) -> tf.Tensor:
    """Returns the probability of each class in states `[B, E]` that hold all that follows, float32 `[B, K]`."""
    literals = tf.concat([tf.nn.relu(states), tf.nn.relu(-states)], axis=1)  # [B, 2 E]
    return tf.nn.softmax(product(literals, patients.log_literals) + patients.log_prior)


def product(rows: tf.Tensor, matrix: np.ndarray) -> tf.Tensor:
    """Returns the product of `rows` `[B, N]` with a constant `[N, M]`, `[B, M]`.

    With the constant in front, LiteRT files of float32 and float16 hold it as it is. Files of eight bits round it, if
    it is not `unquantised`.
    """
    return tf.transpose(tf.matmul(np.ascontiguousarray(matrix.T), rows, transpose_b=True))


def unquantised(values: np.ndarray, rows: tf.Tensor) -> tf.Tensor:
    """Returns a constant in a form that LiteRT files of eight bits do not round, given `rows`, none below -1."""
    return tf.constant(values) * tf.cast(tf.reduce_max(rows[:1]) > -2.0, tf.float32)  # times 1


def halved(values: np.ndarray) -> np.ndarray:
    """Returns the values in half precision, as float32, so that a float16 file for phones loses nothing."""
    return np.asarray(values, np.float16).astype(np.float32)


def load(path: pathlib.Path, evidence_count: int) -> Mixture | None:
    """Reads a file of the arrays of a mixture by their names; returns None if there is none.

    Raises:
        InputError: it cannot be read, is not such a file, or belongs to another vocabulary.
    """
    if not path.exists():
        return None
    with arrays_file.damage_named(path, WRITTEN_AGAIN):
        mixture = Mixture(**arrays_file.read(path))
        if mixture.present.shape != (mixture.log_prior.size, evidence_count):
            raise ValueError("arrays of another vocabulary")
    return mixture
