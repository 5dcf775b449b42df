"""Novelty: how far a state is from anything seen in training.

The score compares the probability of the evidence in a mixture of K classes of patients with most of the product of the
probabilities of its pieces. So rare evidence alone is not novel, but evidence that does not go together is. Novelty is
the percentile of the score among states with as many pieces of evidence known, of parts of vignettes that the mixture
was not fitted to. Where something is denied it is also that of interviews that the trained agent led, if that is lower:
there most answers are denials, which vignettes seldom list. Only smoothed frequencies by class are stored, no
vignettes.
"""

import pathlib
from typing import NamedTuple

import numpy as np
import scipy.sparse
import scipy.special
import tensorflow as tf

from schemas.evidence import Vocabulary
from trainer.data.state import SignedRows
from trainer.graph.closure import Closure
from trainer.graph.mixture import WRITTEN_AGAIN, halved, unquantised
from triage_runtime.storage import arrays_file

THRESHOLD = 0.99
"""Novelty above which a state is novel: that of 1% of the moments from which the percentiles are computed."""
FEWEST_LEARNED = 100
"""With fewer vignettes to learn from, percentiles would be meaningless, and there is no novelty."""

# Chosen by how well the scores separate moments of held-out interviews from pieces that no patient has together.
CLASSES = 32
_TAKEN_OFF = 0.95  # share of the log probability of each single piece that is subtracted
_SMOOTHING = 1.0  # weight of the overall frequencies in each class, in vignettes
_STEPS = 60
_FITTED = 0.8  # share of the vignettes to fit; the others give the percentiles
_MOMENTS = 16  # states drawn from an interview about each vignette
_QUANTILES = 200
_RANKS = np.arange(_QUANTILES) / _QUANTILES
_APART = 1e-3  # difference of scores; rounding errors are a hundredth of that
_ROUNDING = 1e-4  # a percentile of exactly .99 is not above .99, however a device rounds 198 / 200
_MAX_PIECES = 9  # parts of vignettes with as many pieces or more are compared together
_MOST_LED = 45  # the same of states of interviews
_ENOUGH = 100  # moments needed for the percentiles of a number of pieces; otherwise neighbouring numbers are included
_MAX_VIGNETTES = 50_000
_NONE_LED: np.ndarray = np.zeros([0, _QUANTILES], np.float32)


class Novelty(NamedTuple):
    """The statistics of the score; a *literal* is a cell that is present (the first E) or absent (the others)."""

    log_prior: np.ndarray  # float32 [K]
    log_literals: np.ndarray  # float32 [2 E, K + 1], in each class, then overall, times `_TAKEN_OFF`
    quantiles: np.ndarray  # float32 [N, Q], ascending: the scores of moments with 1, 2, ... N or more pieces known
    moments: int  # number of moments behind the quantiles
    led: np.ndarray = _NONE_LED  # float32 [L, Q], the same of interviews that the agent led; L is 0 before any

    @property
    def limits(self) -> np.ndarray:
        """The higher ones of `quantiles` and `led`, for states with a denial, float32 `[max(N, L), Q]`.

        The last row of each stands for more pieces.
        """
        rows = np.arange(max(len(self.quantiles), len(self.led)))
        tables = (table[np.minimum(rows, len(table) - 1)] for table in (self.quantiles, self.led) if len(table))
        return np.maximum.reduce(list(tables))

    def scores(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the scores of states `[B, E]` float32 in {-1, 0, 1}, float32 `[B]`; higher is further away.

        They are to be without what follows from the rest, see `trainer.graph.closure.Closure.reduced`.
        """
        literals = tf.concat([tf.nn.relu(states), tf.nn.relu(-states)], axis=1)  # [B, 2 E]
        logs = tf.matmul(literals, unquantised(self.log_literals, literals))  # [B, K + 1]
        together = tf.reduce_logsumexp(logs[:, :-1] + self.log_prior, axis=1)
        return logs[:, -1] - together

    def percentiles(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the novelty of such states `[B, E]`, float32 `[B]` in [0, 1]; 0 if nothing is known."""
        pieces = tf.reduce_sum(tf.cast(states != 0, tf.int32), axis=1)  # [B]
        usual, asked = self.quantiles, self.limits
        row = tf.clip_by_value(pieces - 1, 0, len(usual) - 1)
        row_asked = len(usual) + tf.clip_by_value(pieces - 1, 0, len(asked) - 1)
        rows = tf.where(tf.reduce_any(states < 0, axis=1), row_asked, row)
        limits = tf.gather(unquantised(np.concatenate([usual, asked]), states), rows)  # [B, Q]
        above = self.scores(states)[:, tf.newaxis] > limits
        shares = tf.reduce_mean(tf.cast(above, tf.float32), axis=1)
        return tf.where(pieces > 0, shares, 0.0)

    def is_novel(self, percentiles: tf.Tensor) -> tf.Tensor:
        """Returns which percentiles `[B]` are above `THRESHOLD`, bool `[B]`."""
        return percentiles > THRESHOLD + _ROUNDING


def fit(vignettes: SignedRows, vocabulary: Vocabulary, seed: int) -> Novelty | None:
    """Returns the statistics of training vignettes, None if there are too few.

    Args:
        vignettes: the V of training, each with evidence; of more than 50,000 as many are drawn.
        vocabulary: of their evidence.
        seed: of the start of the mixture, of the vignettes that it is fitted to, and of the moments.
    """
    count, evidence_count = len(vignettes.offsets) - 1, len(vocabulary)
    if count < FEWEST_LEARNED:
        return None
    generator = np.random.default_rng(seed)
    chosen = generator.permutation(count)[:_MAX_VIGNETTES]
    rows = [vignettes.signed_codes[slice(*vignettes.offsets[row : row + 2])] for row in chosen]
    fitted = int(_FITTED * len(rows))  # percentiles of vignettes that the mixture has seen would be too low
    seen = np.unique(np.concatenate(rows))
    others = np.setdiff1d(seen, np.concatenate(rows[:fitted]))  # known, too: each as a patient of this piece alone
    mixture = _mixture(literals([*rows[:fitted], *others[:, np.newaxis]], evidence_count), generator)
    parts = moments(rows[fitted:], generator)
    closure = Closure(vocabulary)
    known = _reduced(parts, closure, evidence_count)
    singles = _reduced([np.array([code]) for code in np.unique(np.concatenate(rows))], closure, evidence_count)
    alone = _scores(singles, *mixture)  # none of the pieces that were seen is novel by itself
    first = _limits(np.quantile(alone, np.where(_RANKS < THRESHOLD, _RANKS, 1.0)))
    later = _quantiles(_scores(known, *mixture), _pieces(known), np.arange(2, _MAX_PIECES + 1))
    return Novelty(*mixture, np.vstack([first, later]), len(parts))


def with_interviews(novelty: Novelty, states: np.ndarray, vocabulary: Vocabulary) -> Novelty:
    """Returns `novelty` with `led` from the states of interviews, int8 `[R, E]`, with held-out patients."""
    denied = states[(states < 0).any(axis=1)]
    if not len(denied):
        return novelty
    known = _literals(Closure(vocabulary).rows(scipy.sparse.csr_matrix(denied), reduced=True))
    scores = _scores(known, novelty.log_prior, novelty.log_literals)
    return novelty._replace(led=_quantiles(scores, _pieces(known), np.arange(1, _MOST_LED + 1)))


def moments(rows: list[np.ndarray], generator: np.random.Generator) -> list[np.ndarray]:
    """Returns random moments of interviews: a few random subsets of each row of signed codes, none of them empty."""
    return [generator.permutation(row)[: generator.integers(1, len(row) + 1)] for row in rows for _ in range(_MOMENTS)]


def literals(rows: list[np.ndarray], evidence_count: int) -> scipy.sparse.csr_matrix:
    """Returns signed codes as a matrix of literals, float64 `[len(rows), 2 E]` of 0 and 1."""
    codes = np.concatenate([row.astype(np.int64) for row in rows])
    columns = np.where(codes > 0, codes - 1, evidence_count - codes - 1)
    starts = np.cumsum([0] + [len(row) for row in rows])
    return scipy.sparse.csr_matrix((np.ones(len(columns)), columns, starts), (len(rows), 2 * evidence_count))


def _reduced(rows: list[np.ndarray], closure: Closure, evidence_count: int) -> scipy.sparse.csr_matrix:
    """Returns the literals of signed codes without those that follow from others, see `Closure.reduced`."""
    known = literals(rows, evidence_count)
    return _literals(closure.rows(known[:, :evidence_count] - known[:, evidence_count:], reduced=True))


def _literals(states: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Returns states `[B, E]` as a matrix of literals, float64 `[B, 2 E]`."""
    return scipy.sparse.hstack([states > 0, states < 0], format="csr", dtype=np.float64)


def _pieces(known: scipy.sparse.csr_matrix) -> np.ndarray:
    """Returns the number of literals of each row, int64 `[B]`."""
    return np.asarray(known.sum(axis=1), np.int64).ravel()


def _mixture(known: scipy.sparse.csr_matrix, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns `log_prior` and `log_literals` of a mixture of multinomials, fitted by expectation maximisation."""
    overall = np.asarray(known.sum(axis=0)).ravel() + 0.1  # [2 E]
    overall /= overall.sum()
    pieces = known.sum() / known.shape[0]
    shares = generator.dirichlet(np.full(CLASSES, 0.3), known.shape[0])  # [V, K]
    for _ in range(_STEPS):
        log_prior = np.log(shares.sum(axis=0) + 1) - np.log(shares.sum() + CLASSES)
        counts = known.T @ shares + _SMOOTHING * CLASSES * pieces * overall[:, np.newaxis]  # [2 E, K]
        log_literals = np.log(counts / counts.sum(axis=0))
        shares = scipy.special.softmax(known @ log_literals + log_prior, axis=1)
    parts = np.column_stack([log_literals, _TAKEN_OFF * np.log(overall)])
    return halved(log_prior), halved(parts)


def _scores(known: scipy.sparse.csr_matrix, log_prior: np.ndarray, log_literals: np.ndarray) -> np.ndarray:
    """Returns the same as `Novelty.scores`, for literals `[B, 2 E]`."""
    logs = known @ log_literals
    together = scipy.special.logsumexp(logs[:, :-1] + log_prior, axis=1)
    return logs[:, -1] - together


def _quantiles(scores: np.ndarray, pieces: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns the quantiles `[len(counts), Q]` of scores `[M]`, of states with so many `pieces` `[M]`, for each count.

    The last count stands for more; where few states have a count, those with nearly as many pieces are included.
    """
    capped, table = np.minimum(pieces, counts[-1]), []
    for count in counts:
        distances = np.abs(capped - count)
        reach = np.sort(distances)[min(_ENOUGH, len(scores)) - 1]
        table.append(np.quantile(scores[distances <= reach], _RANKS))
    return _limits(np.array(table))


def _limits(quantiles: np.ndarray) -> np.ndarray:
    """Returns quantiles slightly higher, so that a state with the score of a moment is below it on every device."""
    return np.nextafter((quantiles + _APART).astype(np.float16), np.float16(np.inf)).astype(np.float32)


def load(path: pathlib.Path, evidence_count: int) -> Novelty | None:
    """Reads a file of the parts of a `Novelty` by their names, which must be of E pieces; None if there is none.

    Raises:
        InputError: it cannot be read, is not such a file, or belongs to another vocabulary.
    """
    if not path.exists():
        return None
    with arrays_file.damage_named(path, WRITTEN_AGAIN):
        arrays = arrays_file.read(path)
        novelty = Novelty(*(arrays[name] for name in Novelty._fields))
        if novelty.log_literals.shape != (2 * evidence_count, novelty.log_prior.size + 1):
            raise ValueError("arrays of another vocabulary")
        return novelty._replace(moments=int(novelty.moments))
