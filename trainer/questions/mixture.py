"""What is probably present, and what that would say about the decision: a mixture of K classes of patients.

Each class has a probability of each piece of evidence, and, for each decision, the share of its patients for whom it is
appropriate, and safe. Pieces are independent within a class, so that all of it follows from what is known in closed
form. The classes come from expectation maximisation over training vignettes, in which what is not listed counts as
absent: exact for whole patients; of vignettes that somebody wrote down, the probabilities are those of being written
down, which are lower than those of being present.
"""

import pathlib
from typing import NamedTuple

import numpy as np
import scipy.special

from schemas.errors import InputError, first_line
from schemas.triage import NUM_DECISIONS
from trainer import arrays_file
from trainer.dyqn import rewards
from trainer.dyqn.environment import Vignettes
from trainer.state import sparse_states

MINIMUM_VIGNETTES = 100
"""Fewer give no classes worth the name."""
MOST_CLASSES, VIGNETTES_PER_CLASS = 400, 25
"""One class for so many vignettes. With fewer classes, questions about rare conditions are too vague."""
_STEPS = 30
_SMOOTHING = 2.0  # patients' worth of the overall frequencies in each class
_LEAST, _MOST = 1e-4, 1 - 2**-11  # probabilities; the latter is the largest below 1 in half precision
_MAX_VIGNETTES = 50_000
NUM_TRUTHS = 2 * NUM_DECISIONS
"""For each decision whether it is appropriate, then for each whether it is safe."""


class Mixture(NamedTuple):
    """K classes of patients over E pieces of evidence."""

    log_prior: np.ndarray  # float32 [K]
    present: np.ndarray  # float32 [K, E] in (0, 1)
    truths: np.ndarray  # float32 [K, 8] in (0, 1), see `NUM_TRUTHS`
    written: np.ndarray  # float32 [K, E] in (0, 1): that a piece is present where it is written down at all

    @property
    def log_literals(self) -> np.ndarray:
        """float32 `[2 E, K]`: the logarithm of the probability that a piece is present, then that it is absent."""
        return np.log(np.concatenate([self.present, 1 - self.present], axis=1)).T


def fit(vignettes: Vignettes, evidence_count: int, seed: int) -> Mixture | None:
    """Returns the mixture of training vignettes, None where there are too few.

    Args:
        vignettes: V of them; of more than 50,000 as many are drawn.
        evidence_count: E.
        seed: of the start, and of what is drawn.
    """
    if len(vignettes.decision_counts) < MINIMUM_VIGNETTES:
        return None
    generator = np.random.default_rng(seed)
    chosen = np.sort(generator.permutation(len(vignettes.decision_counts))[:_MAX_VIGNETTES])
    states = sparse_states(vignettes, evidence_count)[chosen]
    present, absent = ((states == sign).astype(np.float64) for sign in (1, -1))
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
    told, denied = (np.asarray(part.sum(axis=0)).ravel() for part in (present, absent))
    usual = (told + 0.5) / (told + denied + 1)
    yes, no = ((part.T @ shares).T for part in (present, absent))  # [K, E]
    written = np.clip((yes + _SMOOTHING * usual) / (yes + no + _SMOOTHING), _LEAST, _MOST)
    truths = np.concatenate([rewards.appropriate(counts).numpy(), rewards.safe(counts).numpy()], axis=1)
    smoothed = shares.T @ truths + _SMOOTHING * truths.mean(axis=0)
    truths = np.clip(smoothed / (shares.sum(axis=0)[:, np.newaxis] + _SMOOTHING), _LEAST, _MOST)
    return Mixture(*(_halved(part) for part in (log_prior, table, truths, written)))


def _halved(values: np.ndarray) -> np.ndarray:
    """Returns float32 values that half precision can hold: what a float16 file for phones keeps is all there is."""
    return np.asarray(values, np.float16).astype(np.float32)


def save(mixture: Mixture, path: pathlib.Path) -> None:
    """Writes the file that `load` reads, so that a kill leaves none or a whole one.

    Raises:
        OSError: it cannot be written.
    """
    arrays_file.write(path, mixture._asdict())


def load(path: pathlib.Path, evidence_count: int) -> Mixture | None:
    """Reads what `save` wrote; None where there is no file.

    Raises:
        InputError: it cannot be read, is no such file, or is of another vocabulary.
    """
    if not path.exists():
        return None
    try:
        arrays = arrays_file.read(path)
        mixture = Mixture(*(arrays[name] for name in Mixture._fields))
        classes = mixture.log_prior.size
        shapes = ((classes,), (classes, evidence_count), (classes, NUM_TRUTHS), (classes, evidence_count))
        if not all(
            part.shape == shape and np.isfinite(part).all() for part, shape in zip(mixture, shapes, strict=True)
        ):
            raise ValueError("arrays of other shapes, or not finite")
    except arrays_file.DAMAGE as error:
        raise InputError(
            f"{path}: not what training wrote ({first_line(error)}): delete the file, and give the triage train "
            "command of this job again, which makes it anew"
        ) from error
    return mixture
