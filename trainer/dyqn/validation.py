"""Vignettes held out of the training split: they say when to stop training, and calibrate the probabilities.

No network learns from them. Vignettes with the same evidence are held out together, or not at all.
"""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from sklearn.linear_model import LogisticRegression

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS
from trainer import state
from trainer.dyqn import rewards, targets
from trainer.dyqn.dial import HeldOutOutputs
from trainer.dyqn.environment import Vignettes
from trainer.dyqn.network import AVERAGE, logits_of
from trainer.dyqn.rollout import Slice

MOST_HELD_OUT = 2_000
"""More vignettes would change no digit that matters, and are better learned from."""
LOOKS = 3
"""Amounts of evidence at which each held-out vignette is looked at during training."""
_ROWS = 8_192


def hold_out(vignettes: Vignettes, share: float, seed: int) -> tuple[Vignettes, Slice | None]:
    """Divides a training split into what is learned from and what is held out.

    Args:
        vignettes: V vignettes.
        share: of them to hold out, `MOST_HELD_OUT` at the most; 0 holds out none.
        seed: of the choice.

    Returns:
        The rest, and what is held out; None where nothing is, as where `share` is 0 or all vignettes are alike.
    """
    count = len(vignettes.offsets) - 1
    wanted = min(round(share * count), MOST_HELD_OUT)
    if not wanted:
        return vignettes, None
    codes: np.ndarray = vignettes.signed_codes.astype(np.int64)
    weights = np.random.default_rng(0).integers(1, 2**62, 2 * int(np.abs(codes).max()) + 1)
    keys = np.add.reduceat(weights[codes], vignettes.offsets[:-1])  # the same for any order of the same evidence
    _, groups, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    shuffled = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,))).permutation(len(sizes))
    fitting = shuffled[sizes[shuffled] <= wanted]
    held = np.isin(groups, fitting[np.cumsum(sizes[fitting]) <= wanted])
    if not held.any():
        return vignettes, None
    return _part(vignettes, ~held), _part(vignettes, held)


class HeldOut:
    """Looks at networks by the vignettes that they do not learn from."""

    def __init__(self, vignettes: Slice, evidence_count: int, seed: int):
        """Chooses an evidence order for each of the vignettes, and states to look at.

        Args:
            vignettes: M of them, as `hold_out` chose them.
            evidence_count: E.
            seed: of the orders.
        """
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
        self._orders = _orders(vignettes, generator)  # [M, W]
        self._sizes = np.diff(vignettes.offsets)
        self._counts = vignettes.decision_counts
        self._evidence_count = evidence_count
        rows: np.ndarray = np.repeat(np.arange(len(self._sizes)), LOOKS)
        shares = (np.tile(np.arange(LOOKS), len(self._sizes)) + generator.random(len(rows))) / LOOKS
        self._looks = rows, 1 + np.floor(shares * self._sizes[rows]).astype(int)

    def loss(self, network: keras.Model) -> float:
        """Returns the mean cross-entropy of the calibrated probabilities in the states looked at during training.

        Uncalibrated it would rise long before decisions stop getting better: a network grows too sure of itself first.
        Where there are no probabilities it is the cross-entropy of the rewards.
        """
        rows, known = self._looks
        logits, wanted = self._logits(network, rows, known), _targets(self._counts[rows])
        if logits.shape[1] == NUM_ACTIONS:
            wanted, judged = wanted[:, :NUM_DECISIONS], logits[:, :NUM_DECISIONS]
        else:
            wanted = wanted[:, NUM_DECISIONS:]
            scale, shift = fit_calibration(logits[:, NUM_ACTIONS:], wanted)
            judged = logits[:, NUM_ACTIONS:] * scale + shift
        losses = tf.nn.sigmoid_cross_entropy_with_logits(wanted, judged)
        return float(tf.reduce_mean(tf.reduce_sum(losses, axis=1)))

    def calibrate(self, network: keras.Model) -> HeldOutOutputs:
        """Calibrates the probabilities of `network`, and returns its outputs for every prefix of the evidence."""
        rows: np.ndarray = np.repeat(np.arange(len(self._sizes)), self._sizes)
        known = np.concatenate([np.arange(1, size + 1) for size in self._sizes])
        logits = self._logits(network, rows, known)
        average = network.get_layer(AVERAGE)
        if logits.shape[1] > NUM_ACTIONS:
            scale, shift = fit_calibration(logits[:, NUM_ACTIONS:], _targets(self._counts[rows])[:, NUM_DECISIONS:])
            average.scale.assign(scale)
            average.shift.assign(shift)
        return HeldOutOutputs(average(logits[:, np.newaxis]).numpy(), self._sizes, self._counts)

    def _logits(self, network: keras.Model, rows: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Returns the networks' mean logits, float32 `[R, O]`, for the first `known` pieces of vignettes `rows`."""
        model = logits_of(network)
        parts = []
        for start in range(0, len(rows), _ROWS):
            here = slice(start, start + _ROWS)
            shown = np.arange(self._orders.shape[1]) < known[here, np.newaxis]
            codes = np.where(shown, self._orders[rows[here]], 0)
            parts.append(tf.reduce_mean(model(state.from_signed_codes(codes, self._evidence_count)), axis=1).numpy())
        return np.concatenate(parts)


class Calibration(NamedTuple):
    """What scales and shifts the logits of the probabilities, see `trainer.dyqn.network.Average`."""

    scale: np.ndarray  # float32 [8]
    shift: np.ndarray  # float32 [8]


def fit_calibration(logits: np.ndarray, truths: np.ndarray) -> Calibration:
    """Returns Platt's calibration: logistic regressions of what is true on the logit.

    One for appropriateness and one for safety, each of all four decisions together, as vignettes may be few. Where
    all truths are the same, or a higher logit does not mean a higher share, logits stay as they are.

    Args:
        logits: `[R, 8]`.
        truths: `[R, 8]`, 0 or 1.
    """
    scale, shift = np.ones(logits.shape[1], np.float32), np.zeros(logits.shape[1], np.float32)
    for columns in (slice(0, NUM_DECISIONS), slice(NUM_DECISIONS, None)):
        truth = truths[:, columns].ravel()
        if truth.min() == truth.max():
            continue
        model = LogisticRegression(C=1e6).fit(logits[:, columns].reshape(-1, 1), truth)
        if model.coef_[0, 0] > 0:
            scale[columns], shift[columns] = model.coef_[0, 0], model.intercept_[0]
    return Calibration(scale, shift)


def _targets(decision_counts: np.ndarray) -> np.ndarray:
    """Returns float32 `[R, 12]`: the rewards, then the truth of each probability."""
    r_t = rewards.counterfactual_reward(decision_counts)
    return tf.concat([r_t, targets.probability_targets(r_t)], axis=1).numpy()


def _part(vignettes: Vignettes, chosen: np.ndarray) -> Slice:
    """Returns the vignettes that `chosen`, bool `[V]`, says."""
    sizes = np.diff(vignettes.offsets)
    codes = vignettes.signed_codes[np.repeat(chosen, sizes)]
    return Slice(np.append(0, np.cumsum(sizes[chosen])), codes, vignettes.decision_counts[chosen])


def _orders(vignettes: Slice, generator: np.random.Generator) -> np.ndarray:
    """Returns int32 `[M, W]`: the evidence of each vignette in a random order, 0 behind."""
    sizes = np.diff(vignettes.offsets)
    within = np.arange(int(sizes.max())) < sizes[:, np.newaxis]
    orders: np.ndarray = np.zeros(within.shape, np.int32)
    orders[within] = vignettes.signed_codes
    keys = np.where(within, generator.random(within.shape), 1.0)
    return np.take_along_axis(orders, keys.argsort(axis=1, kind="stable"), axis=1)
