"""Validation vignettes, from which a network does not learn: for early stopping and calibration.

The training split is divided into parts. Network n does not learn from part n and is validated on it, so that every
vignette is used for training, and also for validating networks that have not learned from it. Vignettes with the same
evidence are in the same part.
"""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from sklearn.linear_model import LogisticRegression

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS
from trainer import state
from trainer.config import ValidationConfig
from trainer.dyqn import rewards, targets
from trainer.dyqn.dial import HeldOutOutputs
from trainer.dyqn.environment import Vignettes
from trainer.dyqn.network import AVERAGE, WITH_PROBABILITIES, logits_of
from trainer.dyqn.rollout import Slice

MOST_JUDGED = 2_000
"""Maximum number of vignettes; more would not change the loss noticeably."""
STATES_PER_VIGNETTE = 3
"""Number of states of each vignette, with different amounts of evidence, that the loss is computed on."""
_ROWS = 8_192


class Division(NamedTuple):
    """A divided training split."""

    learned: Vignettes  # V vignettes from which networks learn
    parts: (
        np.ndarray
    )  # int32 [V], see `trainer.dyqn.targets.learned_by`; all -1 if every network learns from everything
    apart: Slice | None  # vignettes from which no network learns, None if there are none


def divide(vignettes: Vignettes, config: ValidationConfig, seed: int) -> Division:
    """Divides a training split into vignettes from which all networks, some networks and no network learn.

    Args:
        vignettes: of the split.
        config: the number of parts, and the share from which no network learns. If there are fewer different vignettes
            than parts, all networks learn from everything.
        seed: of the division.
    """
    _, groups, sizes = np.unique(_evidence_keys(vignettes), return_inverse=True, return_counts=True)
    shuffled = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,))).permutation(len(sizes))
    wanted = min(round(config.bound_share * len(groups)), MOST_JUDGED)
    fitting = shuffled[sizes[shuffled] <= wanted]
    kept_apart = fitting[np.cumsum(sizes[fitting]) <= wanted]
    apart = np.isin(groups, kept_apart)
    places: np.ndarray = np.full(len(sizes), -1)
    rest = shuffled[~np.isin(shuffled, kept_apart)]
    if config.parts and len(rest) >= config.parts:
        places[rest] = np.arange(len(rest)) % config.parts
    parts = places[groups].astype(np.int32)
    if not apart.any():
        return Division(vignettes, parts, None)
    return Division(_part(vignettes, ~apart), parts[~apart], _part(vignettes, apart))


class Validators(NamedTuple):
    """What validates the networks of a run; None without vignettes for it."""

    in_training: "Validator | None"  # on vignettes that some networks learn from and others do not
    when_trained: "Validator | None"  # all networks together, on vignettes that none of them learns from


def build_validators(
    division: Division, config: ValidationConfig, networks: int, evidence_count: int, seed: int
) -> Validators:
    """Returns the validators of N networks.

    Args:
        division: of the training split.
        config: the number of parts.
        networks: N.
        evidence_count: E.
        seed: of the choice of at most `MOST_JUDGED` vignettes, and of their evidence orders.
    """
    in_training = when_trained = None
    judges = division.parts[:, np.newaxis] == np.arange(networks) % max(config.parts, 1)  # [V, N]
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,)))
    places = generator.permutation(np.flatnonzero(judges.any(axis=1)))[:MOST_JUDGED]
    if len(places):
        chosen = np.isin(np.arange(len(judges)), places)
        in_training = Validator(_part(division.learned, chosen), judges[chosen], evidence_count, seed)
    if division.apart is not None:
        everyone: np.ndarray = np.ones([len(division.apart.decision_counts), networks], bool)
        when_trained = Validator(division.apart, everyone, evidence_count, seed)
    return Validators(in_training, when_trained)


def _evidence_keys(vignettes: Vignettes) -> np.ndarray:
    """Returns a key of each vignette's evidence, int64 `[V]`, whatever its order."""
    codes: np.ndarray = vignettes.signed_codes.astype(np.int64)
    weights = np.random.default_rng(0).integers(1, 2**62, 2 * int(np.abs(codes).max()) + 1)
    return np.add.reduceat(weights[codes], vignettes.offsets[:-1])


class Validator:
    """Measures and calibrates networks on vignettes that they do not learn from."""

    def __init__(self, vignettes: Vignettes, judges: np.ndarray, evidence_count: int, seed: int):
        """Draws an evidence order for each vignette, and the states of the loss.

        Args:
            vignettes: M of them.
            judges: bool `[M, N]`, whether a network does not learn from a vignette; at least one in each row.
            evidence_count: E.
            seed: of the orders.
        """
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
        self._orders = _orders(vignettes, generator)  # [M, W]
        self._sizes = np.diff(vignettes.offsets)
        self._counts = vignettes.decision_counts
        self._judges = judges
        self._evidence_count = evidence_count
        rows: np.ndarray = np.repeat(np.arange(len(self._sizes)), STATES_PER_VIGNETTE)
        amounts = np.tile(np.arange(STATES_PER_VIGNETTE), len(self._sizes))
        shares = (amounts + generator.random(len(rows))) / STATES_PER_VIGNETTE
        self._states = rows, 1 + np.floor(shares * self._sizes[rows]).astype(int)

    def loss(self, network: keras.Model) -> float:
        """Returns the mean cross-entropy of the calibrated probabilities, or of the rewards without probabilities.

        Without calibration it would rise long before the decisions stop improving, as a network becomes overconfident
        first.
        """
        rows, known = self._states
        logits, truths = self._logits(network, rows, known), _targets(self._counts[rows])
        if logits.shape[1] == NUM_ACTIONS:
            truths, predicted = truths[:, :NUM_DECISIONS], logits[:, :NUM_DECISIONS]
        else:
            truths = truths[:, NUM_DECISIONS:]
            scale, shift = fit_calibration(logits[:, NUM_ACTIONS:], truths)
            predicted = logits[:, NUM_ACTIONS:] * scale + shift
        losses = tf.nn.sigmoid_cross_entropy_with_logits(truths, predicted)
        return float(tf.reduce_mean(tf.reduce_sum(losses, axis=1)))

    def calibrate(self, network: keras.Model) -> None:
        """Calibrates the probabilities of `network` on every prefix of the evidence."""
        rows, known = self._prefixes()
        logits = self._logits(network, rows, known)
        if logits.shape[1] > NUM_ACTIONS:
            average = network.get_layer(AVERAGE)
            scale, shift = fit_calibration(logits[:, NUM_ACTIONS:], _targets(self._counts[rows])[:, NUM_DECISIONS:])
            average.scale.assign(scale)
            average.shift.assign(shift)

    def outputs(self, network: keras.Model) -> HeldOutOutputs:
        """Returns the outputs of `network` for every prefix of the evidence."""
        logits = self._logits(network, *self._prefixes())
        return HeldOutOutputs(network.get_layer(AVERAGE)(logits[:, np.newaxis]).numpy(), self._sizes, self._counts)

    def _prefixes(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the vignette and the number of known pieces of each prefix, int64 `[R]` each."""
        rows: np.ndarray = np.repeat(np.arange(len(self._sizes)), self._sizes)
        return rows, np.concatenate([np.arange(1, size + 1) for size in self._sizes])

    def _logits(self, network: keras.Model, rows: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Returns the logits float32 `[R, A]` or `[R, O]` for the first `known` pieces of the vignettes `rows`.

        They are means over the networks that do not learn from the vignette.
        """
        model = logits_of(network)
        parts = []
        for start in range(0, len(rows), _ROWS):
            here = slice(start, start + _ROWS)
            shown = np.arange(self._orders.shape[1]) < known[here, np.newaxis]
            codes = np.where(shown, self._orders[rows[here]], 0)
            logits = model(state.from_signed_codes(codes, self._evidence_count)).numpy()[:, :, :WITH_PROBABILITIES]
            parts.append(np.mean(logits, axis=1, where=self._judges[rows[here]][:, :, np.newaxis]))
        return np.concatenate(parts)


class Calibration(NamedTuple):
    """Scale and shift of the logits of the probabilities, see `trainer.dyqn.network.Average`."""

    scale: np.ndarray  # float32 [8]
    shift: np.ndarray  # float32 [8]


def fit_calibration(logits: np.ndarray, truths: np.ndarray) -> Calibration:
    """Returns Platt's calibration: logistic regressions of the truth on the logit.

    One for appropriateness and one for safety, each for all four decisions together, as there may be few vignettes.

    Args:
        logits: `[R, 8]`.
        truths: `[R, 8]`, 0 or 1.
    """
    scale, shift = np.ones(logits.shape[1], np.float32), np.zeros(logits.shape[1], np.float32)
    for columns in (slice(0, NUM_DECISIONS), slice(NUM_DECISIONS, None)):
        scale[columns], shift[columns] = _platt(logits[:, columns].ravel(), truths[:, columns].ravel())
    return Calibration(scale, shift)


def _platt(values: np.ndarray, truths: np.ndarray) -> tuple[float, float]:
    """Returns scale and shift of Platt's calibration: a logistic regression of `truths` `[R]` on logits `[R]`.

    They are 1 and 0 if all truths are the same, or if a higher logit does not mean a higher share.
    """
    if not len(truths) or truths.min() == truths.max():
        return 1.0, 0.0
    model = LogisticRegression(C=1e6).fit(values.reshape(-1, 1), truths)
    scale, shift = float(model.coef_[0, 0]), float(model.intercept_[0])
    return (scale, shift) if scale > 0 else (1.0, 0.0)


def _targets(decision_counts: np.ndarray) -> np.ndarray:
    """Returns float32 `[R, 12]`: the rewards, then the truth of each probability."""
    r_t = rewards.counterfactual_reward(decision_counts)
    return tf.concat([r_t, targets.probability_targets(r_t)], axis=1).numpy()


def _part(vignettes: Vignettes, chosen: np.ndarray) -> Slice:
    """Returns the vignettes that are `chosen`, bool `[V]`."""
    sizes = np.diff(vignettes.offsets)
    codes = vignettes.signed_codes[np.repeat(chosen, sizes)]
    return Slice(np.append(0, np.cumsum(sizes[chosen])), codes, vignettes.decision_counts[chosen])


def _orders(vignettes: Vignettes, generator: np.random.Generator) -> np.ndarray:
    """Returns the evidence of each vignette in a random order, padded with 0; int32 `[M, W]`."""
    sizes = np.diff(vignettes.offsets)
    within = np.arange(int(sizes.max())) < sizes[:, np.newaxis]
    orders: np.ndarray = np.zeros(within.shape, np.int32)
    orders[within] = vignettes.signed_codes
    keys = np.where(within, generator.random(within.shape), 1.0)
    return np.take_along_axis(orders, keys.argsort(axis=1, kind="stable"), axis=1)
