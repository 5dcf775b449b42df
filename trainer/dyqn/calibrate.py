"""Held-out vignettes, from which no network learns: for calibration.

Of vignettes with the same evidence, networks learn from all or hold out all. But those set apart for promises are drawn
one by one, regardless of their evidence, because a promise counts independent patients.
"""

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from sklearn.linear_model import LogisticRegression

from schemas.errors import InputError
from schemas.triage import NUM_DECISIONS
from trainer.config import ValidationConfig
from trainer.data import state
from trainer.data.state import Vignettes, sparse_states
from trainer.dyqn import targets
from trainer.dyqn.agent import DyqnAgent
from trainer.dyqn.network import HEADS, NUM_CUMULATIVE, bound_denials, log_odds, logits_of
from trainer.dyqn.rollout import Slice
from trainer.graph.operating_point import HeldOutOutputs
from trainer.graph.rewards import counterfactual_reward

MOST_SET_APART = 2_000
"""Number of vignettes that are set apart for promises: each is interviewed at several operating points."""
LEAST_HELD_OUT, MOST_HELD_OUT = 100, 1_000
"""Number of vignettes that are held out for calibration: each is interviewed."""
_ROWS = 8_192
_ROUNDS_OF_ASKING = 12
_ALIKE = 4.0
"""The prior of a logit's shift is normal around the common shift with SD 1, and 16 states (4 squared) count as one,
because states of one patient are alike: P(Red) does not become 0 where few patients include no Red."""
_FREE = 100.0  # what logits are multiplied by, so that the same prior hardly binds their scale
_WORTHLESS = -100.0  # a logit
_STATES_OF_ASKING = 8_192  # enough for three numbers; all of them would take a tenth of the time of training


class Division(NamedTuple):
    """A divided training split."""

    learned: Vignettes  # V vignettes from which networks learn
    held_out: Slice | None  # vignettes from which no network learns, for calibration; None if there are none
    apart: Slice | None  # vignettes that are for promises alone; None if there are none


def divide(
    vignettes: Vignettes, config: ValidationConfig, seed: int, learned_before: np.ndarray | None = None
) -> Division:
    """Divides a training split into vignettes that networks learn from and others.

    Of few vignettes, at least 100 are held out, though at most a quarter: fewer could not calibrate anything.

    Args:
        vignettes: V of them.
        config: the shares.
        seed: decides who is held out and who is set apart.
        learned_before: bool `[V]`, from which the agent to start from has learned, which are not held out; None if
            there is no such agent.

    Raises:
        InputError: that agent has learned from so many that too few can be held out.
    """
    _, groups, sizes = np.unique(_evidence_keys(vignettes), return_inverse=True, return_counts=True)
    count = len(groups)
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    order = generator.permutation(len(sizes))
    apart = generator.permutation(count) < min(round(config.set_apart * count), MOST_SET_APART)
    sizes = np.bincount(groups[~apart], minlength=len(sizes))
    least = min(LEAST_HELD_OUT, count // 4) if config.held_out_share else 0
    wanted = min(max(round(config.held_out_share * count), least), MOST_HELD_OUT)
    new: np.ndarray = np.ones(len(sizes), bool)
    if learned_before is not None:
        new[groups[learned_before]] = False
        _require_new(int(sizes[new].sum()), least, int(sizes.sum()))
    held_out = np.isin(groups, _filling(order[new[order]], sizes, wanted)) & ~apart
    learned = ~apart & ~held_out
    return Division(
        vignettes if learned.all() else _part(vignettes, learned),
        _part(vignettes, held_out) if held_out.any() else None,
        _part(vignettes, apart) if apart.any() else None,
    )


def _filling(order: np.ndarray, sizes: np.ndarray, wanted: int) -> list[int]:
    """Returns the groups in their order, each if it still fits, that together have at most `wanted` vignettes."""
    chosen, left = [], wanted
    for group in order:
        if sizes[group] <= left:
            chosen.append(int(group))
            left -= int(sizes[group])
    return chosen


def _require_new(new: int, least: int, count: int) -> None:
    if new < least:
        raise InputError(
            f"--start-from: only {new:,} of the {count:,} training vignettes are new to that agent, which has learned "
            f"from the others or from some just like them, and {least:,} have to be held out for calibration: give "
            "--data with the new ones alone, or add new ones, or train without --start-from"
        )


def _evidence_keys(vignettes: Vignettes) -> np.ndarray:
    """Returns a key of each vignette's evidence, int64 `[V]`, whatever its order."""
    codes: np.ndarray = vignettes.signed_codes.astype(np.int64)
    weights = np.random.default_rng(0).integers(1, 2**62, 2 * int(np.abs(codes).max()) + 1)
    return np.add.reduceat(weights[codes], vignettes.offsets[:-1])


class HeldOut(NamedTuple):
    """States of M held-out patients in which an agent decides, one patient after the other."""

    states: np.ndarray  # int8 [R, E]
    sizes: np.ndarray  # int64 [M], number of states of each patient
    decision_counts: np.ndarray  # [M, 4]

    @property
    def truths(self) -> np.ndarray:
        """float32 `[R, 6]`: the truth of each cumulative logit."""
        truths = targets.cumulative_truths(counterfactual_reward(self.decision_counts)).numpy()
        return np.repeat(truths, self.sizes, axis=0)


def prefixes(vignettes: Vignettes, evidence_count: int, max_questions: int, seed: int) -> HeldOut:
    """Returns vignettes read in a random order: the states with 1, 2, ... pieces, as far as questions can reach."""
    orders = _orders(vignettes, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,))))  # [M, W]
    sizes = np.minimum(np.diff(vignettes.offsets), max_questions + 1)
    rows: np.ndarray = np.repeat(np.arange(len(sizes)), sizes)
    known = np.concatenate([np.arange(1, size + 1) for size in sizes])
    codes = np.where(np.arange(orders.shape[1]) < known[:, np.newaxis], orders[rows], 0)
    states = state.from_signed_codes(codes, evidence_count).numpy().astype(np.int8)
    return HeldOut(states, sizes, vignettes.decision_counts)


def interviews(states: np.ndarray, decision_counts: np.ndarray) -> HeldOut:
    """Returns the states int8 `[M, Q + 1, E]` of interviews with M patients, whose decisions are `[M, 4]`."""
    patients, length, width = states.shape
    return HeldOut(states.reshape(-1, width), np.full(patients, length), decision_counts)


class Settling(NamedTuple):
    """The data by which a trained network is calibrated."""

    judged: HeldOut
    """States that clinicians decided on: whole cards, or interviews with complete patients. The findings that an
    interview adds to a card are simulated."""
    asked: HeldOut
    """States one question apart, by which asking is valued."""
    whole: np.ndarray
    """int8 `[M, E]`: all that is known of each patient."""
    interviewed: bool = False
    """Whether the states of `asked` are those of interviews."""

    def settle(self, network: keras.Model) -> HeldOutOutputs:
        """Bounds the weight of denials and calibrates `network`, if it has probabilities.

        Returns:
            Its outputs in the states of `asked`; those of each half of the patients by a calibration on the other half.
        """
        if "safe" not in network.output:
            heads = _applied(network, self.asked.states)
            return HeldOutOutputs(heads["q"], heads["q"][:, :0], self.asked.sizes, self.asked.decision_counts)
        outputs = network.get_layer(HEADS)
        judged = _applied(logits_of(network), self.judged.states)  # before the bound, which few of them reach
        bound_denials(network, self.whole)
        asked = _applied(logits_of(network), self.asked.states)
        half = np.arange(len(self.asked.sizes)) % 2 == 0
        found = []
        for others in (~half, half, half | True):  # the last is the agent's
            self._calibrate(outputs, judged, asked, others)
            found.append(outputs(asked))
        rows: np.ndarray = np.repeat(half, self.asked.sizes)[:, np.newaxis]
        q, appropriate = (np.where(rows, *(each[head] for each in found[:2])) for head in ("q", "appropriate"))
        return HeldOutOutputs(q, appropriate, self.asked.sizes, self.asked.decision_counts)

    def _calibrate(
        self, outputs: keras.layers.Layer, judged: np.ndarray, asked: np.ndarray, patients: np.ndarray
    ) -> None:
        """Calibrates by some of the M patients.

        The cumulative probabilities by Platt's method: one scale for all, and a shift for each. With one shift for all,
        a network that says too little of Red and too much of Green would stay as it is. Q(ask) by a regression of the
        value of the next state less the price on its logit and the best decision's, several times, as that value
        depends on Q(ask) in turn. For patients from whom it has not learned, a network's own Q(ask) is mostly
        noise, and the highest of five Q-values is too high if one of them is noise.

        Args:
            outputs: the layer that is calibrated.
            judged: logits `[R, N, 7]` of the states of `judged`.
            asked: the same of `asked`.
            patients: bool `[M]`.
        """
        rows: np.ndarray = np.repeat(patients, self.judged.sizes)
        logits = judged[rows].mean(axis=1)[:, :NUM_CUMULATIVE]
        _set_calibration(outputs, slice(0, NUM_CUMULATIVE), *_platt(logits, self.judged.truths[rows]))
        _set_calibration(outputs, slice(NUM_CUMULATIVE, None), 1.0, np.zeros(1))  # from any before
        outputs.best.assign(0.0)
        pairs = []
        for states, all_logits in ((self.asked, asked), (self.judged, judged)):
            followed: np.ndarray = np.repeat(patients, states.sizes)
            followed[np.cumsum(states.sizes) - 1] = False
            places = np.flatnonzero(followed)
            pairs.append((all_logits[places], all_logits[places + 1]))
        tm1, t = (np.concatenate(each) for each in zip(*pairs, strict=True))
        few = np.random.default_rng(0).permutation(len(tm1))[:_STATES_OF_ASKING]
        tm1, t = tm1[few], t[few]
        if not len(tm1):
            return
        # Asking is worth nothing at first, and more with each round. From above, a round would take off little more
        # than the price, so that several times as many would be needed.
        _set_calibration(outputs, slice(NUM_CUMULATIVE, None), 0.0, np.full(1, _WORTHLESS))
        best = log_odds(tf.reduce_max(outputs(tm1)["q"][:, :NUM_DECISIONS], axis=1)).numpy()
        inputs = np.column_stack([tm1.mean(axis=1)[:, NUM_CUMULATIVE:], best]).astype(float)
        for _ in range(_ROUNDS_OF_ASKING):
            values = targets.value_target(outputs(t)["q"], outputs.price).numpy()
            (scale, share), shift = _logistic(_FREE * inputs, values)
            _set_calibration(outputs, slice(NUM_CUMULATIVE, None), _FREE * scale, np.array([shift]))
            outputs.best.assign(_FREE * share)


def settling(
    vignettes: Vignettes, evidence_count: int, max_questions: int, seed: int, led: np.ndarray | None, whole: bool
) -> Settling:
    """Returns what calibrates a network.

    Args:
        vignettes: M of them, from which no network learned.
        evidence_count: E.
        max_questions: after which an agent must decide.
        seed: decides in which orders evidence is read.
        led: states of interviews with their patients, int8 `[M, Q + 1, E]`; None for agents that lead none.
        whole: whether the vignettes list everything that a patient has.
    """
    known = sparse_states(vignettes, evidence_count).astype(np.int8).toarray()
    if whole and led is not None:
        asked = interviews(led, vignettes.decision_counts)
        return Settling(asked, asked, np.where(known > 0, 1, -1).astype(np.int8), True)
    judged = prefixes(vignettes, evidence_count, max_questions, seed)
    if led is None:
        return Settling(judged, judged, known)
    return Settling(judged, interviews(led, vignettes.decision_counts), known, True)


def _set_calibration(outputs: keras.layers.Layer, columns: slice, scale: float, shift: np.ndarray) -> None:
    for weight, value in ((outputs.scale, scale), (outputs.shift, shift)):
        changed = weight.numpy()
        changed[columns] = value
        weight.assign(changed)


def _applied(model: keras.Model, states: np.ndarray) -> Any:
    """Returns the outputs of `model` for states int8 `[R, E]`, float32 `[R, ...]`."""
    parts = [model(states[start : start + _ROWS].astype(np.float32)) for start in range(0, len(states), _ROWS)]
    return tf.nest.map_structure(lambda *each: np.concatenate(each), *parts)


def _platt(logits: np.ndarray, truths: np.ndarray) -> tuple[float, np.ndarray]:
    """Returns the scale and the shifts `[K]` of a logistic regression of `truths` `[R, K]` on logits `[R, K]`.

    Truths are 0, 1, or shares between them. The scale is 1 and the shifts are 0 if all truths are the same, or if a
    higher logit does not mean a higher share.
    """
    rows, columns = logits.shape
    if rows and truths.min() < truths.max():
        inputs = np.column_stack([_FREE * logits.ravel(), np.tile(np.eye(columns) / _ALIKE, (rows, 1))])
        (scale, *shifts), shift = _logistic(inputs, truths.ravel())
        if scale > 0:
            return float(_FREE * scale), shift + np.array(shifts) / _ALIKE
    return 1.0, np.zeros(columns)


def _logistic(inputs: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, float]:
    """Returns the coefficients `[K]` and the intercept of a logistic regression of `shares` `[R]` on `[R, K]`."""
    held: np.ndarray = np.repeat([1, 0], len(shares))
    model = LogisticRegression(C=1.0, solver="newton-cholesky")
    model.fit(np.concatenate([inputs, inputs]), held, sample_weight=np.concatenate([shares, 1 - shares]))
    return model.coef_[0], float(model.intercept_[0])


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


class Selection:
    """The weights that a run keeps: the agent's latest, or their moving average, calibrated when training is done.

    Args:
        agent: that learns.
        chosen: gets its weights; the agent's own network if it keeps no average and is not calibrated.
        settling: what the weights are calibrated by; None where nothing is held out.
    """

    def __init__(self, agent: DyqnAgent, chosen: keras.Model, settling: Settling | None):
        self.chosen = chosen
        self._agent = agent
        self._settling = settling

    @property
    def settles(self) -> bool:
        """Whether the weights are calibrated when training is done."""
        return self._settling is not None

    @property
    def interview_states(self) -> np.ndarray | None:
        """int8 `[R, E]`: states of interviews with held-out patients; None where there are none."""
        return self._settling.asked.states if self._settling is not None and self._settling.interviewed else None

    def choose_latest(self) -> None:
        """Chooses the agent's latest weights."""
        if self.chosen is not self._agent.network:
            self._agent.copy_weights_to(self.chosen)

    def settle(self) -> HeldOutOutputs | None:
        """Calibrates the latest weights; returns their outputs for vignettes that networks do not learn from."""
        self.choose_latest()
        return None if self._settling is None else self._settling.settle(self.chosen)
