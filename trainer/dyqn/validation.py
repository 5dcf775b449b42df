"""Held-out vignettes, from which no network learns: for early stopping, calibration and the operating point.

Of vignettes with the same evidence, networks learn from all or hold out all. But those set apart for promises are drawn
one by one, whatever their evidence, as patients come: a promise counts independent patients.
"""

from typing import NamedTuple, Protocol

import keras
import numpy as np
import tensorflow as tf
from sklearn.linear_model import LogisticRegression

from schemas.errors import InputError
from schemas.triage import NUM_ACTIONS, NUM_DECISIONS
from trainer.config import TrainConfig, ValidationConfig
from trainer.dyqn import targets
from trainer.dyqn.agent import DyqnAgent
from trainer.dyqn.environment import Interviews
from trainer.dyqn.network import AVERAGE, LEARNED_OUTPUTS, NUM_PROBABILITIES, WITH_PROBABILITIES, logits_of
from trainer.dyqn.rollout import Slice
from trainer.graph import rewards
from trainer.graph.operating_point import HeldOutOutputs, choose, stops
from trainer.vignettes import state
from trainer.vignettes.state import Vignettes

MOST_SET_APART = 2_000
"""Number of vignettes that are set apart for promises: each is interviewed at several operating points."""
LEAST_HELD_OUT, MOST_HELD_OUT = 100, 1_000
"""Number of vignettes that are held out for calibration: each is interviewed."""
STATES_PER_VIGNETTE = 3
"""Number of states of each vignette, with different amounts of evidence, that the loss is computed on."""
_ROWS = 8_192
_ROUNDS_OF_ASKING = 4
_ALIKE = 4.0
"""The shift of a decision differs from that of all by a normal distribution of SD 1 before any patient is seen, where
16 states (4 squared) count as one, as those of a patient are alike: without Red among few patients P(Red) is not 0."""
_FREE = 100.0  # a scale of the logits at which the same distribution does not bind it
_STATES_OF_ASKING = 4_096  # enough for a scale and a shift; all of them would take a tenth of the time of training


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
        vignettes: of the split.
        config: the shares.
        seed: of the division.
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
    fitting = order[new[order] & (sizes[order] <= wanted)]
    held_out = np.isin(groups, fitting[np.cumsum(sizes[fitting]) <= wanted]) & ~apart
    learned = ~apart & ~held_out
    return Division(
        vignettes if learned.all() else _part(vignettes, learned),
        _part(vignettes, held_out) if held_out.any() else None,
        _part(vignettes, apart) if apart.any() else None,
    )


def _require_new(new: int, least: int, count: int) -> None:
    if new < least:
        raise InputError(
            f"--start-from: only {new:,} of the {count:,} training vignettes are new to that agent, which has learned "
            f"from the others or from some just like them, and {least:,} have to be held out for calibration: give "
            "--data with the new ones alone, or add new ones, or train without --start-from"
        )


class Validates(Protocol):
    """Measures and calibrates networks on vignettes that they do not learn from."""

    def loss(self, network: keras.Model) -> float:
        """Returns the validation loss, see `validation_loss`."""

    led: np.ndarray | None
    """The states of interviews that the settled network led, int8 `[M, Q + 1, E]`; None where it led none."""

    def settle(self, network: keras.Model) -> HeldOutOutputs:
        """Calibrates `network`, and returns its outputs."""


def build_validator(
    division: Division, evidence_count: int, max_questions: int, seed: int, interviewing: Interviews | None = None
) -> Validates | None:
    """Returns the validator of a run, for early stopping, calibration and the operating point; None without vignettes.

    Args:
        division: of the training split.
        evidence_count: E.
        max_questions: after which an agent must decide.
        seed: of the evidence orders.
        interviewing: if the agent learns in interviews, by which it is validated then.
    """
    if division.held_out is None:
        return None
    if interviewing is not None:
        card = None if interviewing.whole else Validator(division.held_out, evidence_count, max_questions, seed)
        return InterviewValidator(interviewing, division.held_out, card)
    return Validator(division.held_out, evidence_count, max_questions, seed)


def _evidence_keys(vignettes: Vignettes) -> np.ndarray:
    """Returns a key of each vignette's evidence, int64 `[V]`, whatever its order."""
    codes: np.ndarray = vignettes.signed_codes.astype(np.int64)
    weights = np.random.default_rng(0).integers(1, 2**62, 2 * int(np.abs(codes).max()) + 1)
    return np.add.reduceat(weights[codes], vignettes.offsets[:-1])


class Validator:
    """Measures and calibrates networks on vignettes that they do not learn from."""

    led = None

    def __init__(self, vignettes: Vignettes, evidence_count: int, max_questions: int, seed: int):
        """Draws an evidence order for each vignette, and the states of the loss.

        Args:
            vignettes: M of them.
            evidence_count: E.
            max_questions: after which an agent must decide: it never sees the pieces that come later.
            seed: of the orders.
        """
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
        self._orders = _orders(vignettes, generator)  # [M, W]
        self._sizes = np.minimum(np.diff(vignettes.offsets), max_questions + 1)
        self._counts = vignettes.decision_counts
        self._evidence_count = evidence_count
        rows: np.ndarray = np.repeat(np.arange(len(self._sizes)), STATES_PER_VIGNETTE)
        amounts = np.tile(np.arange(STATES_PER_VIGNETTE), len(self._sizes))
        shares = (amounts + generator.random(len(rows))) / STATES_PER_VIGNETTE
        self._states = rows, 1 + np.floor(shares * self._sizes[rows]).astype(int)

    def loss(self, network: keras.Model) -> float:
        """Returns the loss of `validation_loss` on a few states of each vignette."""
        rows, known = self._states
        return validation_loss(_means(_applied(logits_of(network), self._shown(rows, known))), self._counts[rows])

    def settle(self, network: keras.Model) -> HeldOutOutputs:
        """Calibrates the probabilities of `network` on every prefix that it may reach; returns its outputs there."""
        states, rows = self.prefixes()
        calibrate(network, _means(_applied(logits_of(network), states)), self._counts[rows])
        return self.outputs(network)

    def outputs(self, network: keras.Model) -> HeldOutOutputs:
        """Returns the outputs of `network` for every prefix that it may reach."""
        return HeldOutOutputs(_applied(network, self.prefixes()[0]), self._sizes, self._counts)

    def prefixes(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the states of all prefixes within reach, int8 `[R, E]`, and their vignettes, int64 `[R]`."""
        rows: np.ndarray = np.repeat(np.arange(len(self._sizes)), self._sizes)
        return self._shown(rows, np.concatenate([np.arange(1, size + 1) for size in self._sizes])), rows

    def _shown(self, rows: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Returns the states int8 `[R, E]` in which the first `known` pieces of the vignettes `rows` are known."""
        shown = np.arange(self._orders.shape[1]) < known[:, np.newaxis]
        codes = np.where(shown, self._orders[rows], 0)
        return state.from_signed_codes(codes, self._evidence_count).numpy().astype(np.int8)


class InterviewValidator:
    """Measures and calibrates networks by interviews with held-out patients.

    Args:
        interviewing: leads them.
        vignettes: M of them, from which networks do not learn.
        card: of the same vignettes, if what is not on them may be asked as well; None for complete patients.
    """

    def __init__(self, interviewing: Interviews, vignettes: Vignettes, card: Validator | None = None):
        self.led: np.ndarray | None = None
        self._card = card
        self._interviewing = interviewing
        self._vignettes = vignettes
        # The loss compares networks, so all of them are judged by the same states.
        states = interviewing.interview_states(None, vignettes)
        chosen = np.linspace(0, states.shape[1] - 1, STATES_PER_VIGNETTE).astype(int)
        self._states = states[:, chosen].reshape(-1, states.shape[2])
        self._counts = np.repeat(vignettes.decision_counts, STATES_PER_VIGNETTE, axis=0)

    def loss(self, network: keras.Model) -> float:
        """Returns the loss of `validation_loss` on a few states of each interview."""
        return validation_loss(_means(_applied(logits_of(network), self._states)), self._counts)

    def settle(self, network: keras.Model) -> HeldOutOutputs:
        """Calibrates `network`, if it has probabilities, by interviews that it leads; returns its outputs there."""
        if network.output_shape[-1] > NUM_ACTIONS:  # calibrated already, it would lead other interviews
            _set_calibration(network, slice(None), Calibration(np.ones(1), np.zeros(1)))
        states = self.led = self._interviewing.interview_states(network, self._vignettes)
        if network.output_shape[-1] == NUM_ACTIONS:
            patients, length, width = states.shape
            outputs = _applied(network, states.reshape(-1, width))
            return HeldOutOutputs(outputs, np.full(patients, length), self._vignettes.decision_counts)
        return calibrated_by_interviews(network, states, self._vignettes.decision_counts, self._card)


def validation_loss(logits: np.ndarray, decision_counts: np.ndarray) -> float:
    """Returns the mean cross-entropy of the calibrated probabilities, or of the rewards without probabilities.

    Without calibration it would rise long before the decisions stop improving, as a network becomes overconfident
    first.

    Args:
        logits: `[R, A]` or `[R, O - 1]`.
        decision_counts: `[R, 4]`.
    """
    truths = _targets(decision_counts)
    if logits.shape[1] == NUM_ACTIONS:
        truths, predicted = truths[:, :NUM_DECISIONS], logits[:, :NUM_DECISIONS]
    else:
        truths, predicted = truths[:, NUM_DECISIONS:], logits[:, NUM_ACTIONS:WITH_PROBABILITIES]
        scale, shift = fit_calibration(predicted, truths)
        predicted = predicted * scale + shift
    losses = tf.nn.sigmoid_cross_entropy_with_logits(truths, predicted)
    return float(tf.reduce_mean(tf.reduce_sum(losses, axis=1)))


def calibrate(network: keras.Model, logits: np.ndarray, decision_counts: np.ndarray) -> None:
    """Calibrates the probabilities of `network`, if any, by its logits `[R, O - 1]` and the decisions `[R, 4]`."""
    if logits.shape[1] > NUM_ACTIONS:
        truths = _targets(decision_counts)[:, NUM_DECISIONS:]
        fitted = fit_calibration(logits[:, NUM_ACTIONS:WITH_PROBABILITIES], truths)
        _set_calibration(network, slice(0, NUM_PROBABILITIES), fitted)


def calibrate_asking(network: keras.Model, logits: np.ndarray) -> None:
    """Calibrates Q(ask) of `network` by its logits `[M, Q + 1, O]` in the states of M interviews, one after the other.

    On average over the states, Q(ask) then is the value of the next state less the price, see
    `trainer.dyqn.targets.ask_point_targets`. As that value depends on Q(ask) in turn, it is done several times.
    """
    before, after = (each.reshape(-1, LEARNED_OUTPUTS) for each in (logits[:, :-1], logits[:, 1:]))
    few = np.random.default_rng(0).permutation(len(before))[:_STATES_OF_ASKING]
    asking, after = before[few, WITH_PROBABILITIES:], after[few, np.newaxis]
    for _ in range(_ROUNDS_OF_ASKING):
        outputs = network.get_layer(AVERAGE)(after)
        values = targets.ask_point_targets(outputs).numpy()  # [M Q, P]
        columns = [_platt(asking[:, [place]], values[:, [place]]) for place in range(values.shape[1])]
        scale, shift = np.array([(each, shifts[0]) for each, shifts in columns], np.float32).T
        _set_calibration(network, slice(NUM_PROBABILITIES, None), Calibration(scale, shift))


def calibrated_by_interviews(
    network: keras.Model,
    states: np.ndarray,
    decision_counts: np.ndarray,
    card: Validator | None = None,
) -> HeldOutOutputs:
    """Calibrates `network` by interviews with patients that it has not learned from, and returns its outputs there.

    What counts are the states in which the agent asks or decides: the longer an interview, the more sure of itself a
    network is. Of cards these are states of what stands on them: that is what the clinicians judged, whereas what an
    interview adds was made up. Where the agent stops depends on the calibration in turn, so it is done twice.

    Args:
        network: with probabilities, averaged as it is served.
        states: int8 `[M, Q + 1, E]`, of M interviews, one after the other.
        decision_counts: `[M, 4]`, of the patients.
        card: of cards, has what stands on them.
    """
    patients, length, _ = states.shape
    flat = states.reshape(patients * length, -1)
    lengths: np.ndarray = np.full(patients, length)
    logits = _means(_applied(logits_of(network), flat))
    judged = logits
    rows: np.ndarray = np.repeat(np.arange(patients), length)
    if card is not None:
        on_cards, rows = card.prefixes()
        judged = _means(_applied(logits_of(network), on_cards))
    reached: np.ndarray = np.ones(len(rows), bool)
    for _ in range(2):
        calibrate(network, judged[reached], decision_counts[rows[reached]])
        calibrate_asking(network, logits.reshape(patients, length, -1))
        held_out = HeldOutOutputs(_applied(network, flat), lengths, decision_counts)
        if card is not None:
            on_card = card.outputs(network)
            held_out = held_out._replace(card_outputs=on_card.outputs, card_sizes=on_card.sizes)
        play = held_out.plays[-1]
        before = np.arange(len(rows)) - np.repeat(np.cumsum(play.sizes) - play.sizes, play.sizes)
        reached = before < np.repeat(stops(play, choose(held_out)), play.sizes)
    return held_out


def _applied(model: keras.Model, states: np.ndarray) -> np.ndarray:
    """Returns what `model` makes of states int8 `[R, E]`, float32 `[R, ...]`."""
    parts = [states[start : start + _ROWS] for start in range(0, len(states), _ROWS)]
    return np.concatenate([model(part.astype(np.float32)).numpy() for part in parts])


def _means(logits: np.ndarray) -> np.ndarray:
    """Returns the means over all networks of their logits `[R, N, L]`, without those of single decisions."""
    return logits[:, :, :LEARNED_OUTPUTS].mean(axis=1)


def _set_calibration(network: keras.Model, columns: slice, fitted: "Calibration") -> None:
    average = network.get_layer(AVERAGE)
    for weight, values in ((average.scale, fitted.scale), (average.shift, fitted.shift)):
        changed = weight.numpy()
        changed[columns] = values
        weight.assign(changed)


class Calibration(NamedTuple):
    """Scale and shift of logits, see `trainer.dyqn.network.Average`."""

    scale: np.ndarray  # float32 [8], or [P]
    shift: np.ndarray


def fit_calibration(logits: np.ndarray, truths: np.ndarray) -> Calibration:
    """Returns Platt's calibration: logistic regressions of the truth on the logit.

    One scale for appropriateness and one for safety, as there may be few vignettes, and a shift for each decision: with
    one shift for all four, a network that says too little of Red and too much of Green would stay as it is.

    Args:
        logits: `[R, 8]`.
        truths: `[R, 8]`, 0 or 1.
    """
    scale, shift = np.ones(logits.shape[1], np.float32), np.zeros(logits.shape[1], np.float32)
    for columns in (slice(0, NUM_DECISIONS), slice(NUM_DECISIONS, None)):
        scale[columns], shift[columns] = _platt(logits[:, columns], truths[:, columns])
    return Calibration(scale, shift)


def _platt(logits: np.ndarray, truths: np.ndarray) -> tuple[float, np.ndarray]:
    """Returns the scale and the shifts `[K]` of a logistic regression of `truths` `[R, K]` on logits `[R, K]`.

    Truths are 0, 1, or shares between them. The scale is 1 and the shifts are 0 if all truths are the same, or if a
    higher logit does not mean a higher share.
    """
    rows, columns = logits.shape
    if rows and truths.min() < truths.max():
        inputs = np.column_stack([_FREE * logits.ravel(), np.tile(np.eye(columns) / _ALIKE, (rows, 1))])
        held: np.ndarray = np.repeat([1, 0], rows * columns)
        weights = np.concatenate([truths.ravel(), 1 - truths.ravel()])
        model = LogisticRegression(C=1.0, solver="newton-cholesky")
        model.fit(np.concatenate([inputs, inputs]), held, sample_weight=weights)
        scale, shifts = _FREE * model.coef_[0, 0], model.intercept_[0] + model.coef_[0, 1:] / _ALIKE
        if scale > 0:
            return float(scale), shifts
    return 1.0, np.zeros(columns)


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


class Selection:
    """Chooses weights of an agent while it trains, and calibrates them when it is done.

    Weights may be chosen after three quarters of the steps. The loss may be lower earlier, but a network that has not
    learned a rare decision such as Red can have a low loss too, and the average of several networks keeps improving
    while the loss of each one rises.
    """

    def __init__(self, agent: DyqnAgent, chosen: keras.Model, validator: Validates | None, config: TrainConfig):
        """Makes the selection.

        Args:
            agent: whose weights are chosen.
            chosen: gets them; the agent's own network if its latest weights are always the ones to keep.
            validator: of vignettes that networks do not learn from; None if there are none.
            config: of the run.
        """
        self.chosen = chosen
        self._agent = agent
        self._validator = validator
        self._interval = config.validation.validation_interval
        self._patience = config.validation.patience
        burn_in, steps = config.loop.burn_in_steps, config.loop.steps
        self._first_step = burn_in + max(steps - burn_in, 0) * 3 // 4
        self._best_loss = tf.Variable(np.inf, dtype=tf.float32, name="best_loss")
        self._best_step = tf.Variable(0, dtype=tf.int64, name="best_step")

    @property
    def validates(self) -> bool:
        """Whether there are vignettes for validation, which may end the training."""
        return self._validator is not None

    @property
    def best_step(self) -> int:
        """The step whose weights had the lowest validation loss, 0 before any are chosen."""
        return int(self._best_step)

    @property
    def led(self) -> np.ndarray | None:
        """See `trainer.dyqn.validation.Validates`."""
        return None if self._validator is None else self._validator.led

    def variables(self) -> dict[str, tf.Variable | keras.Model]:
        """Returns everything that changes, for checkpoints."""
        return {"best_loss": self._best_loss, "best_step": self._best_step, "chosen": self.chosen}

    def forget_early(self) -> None:
        """Forgets weights that were chosen, in a run of fewer steps, before this run may choose any."""
        if self.best_step < self._first_step:
            self._best_loss.assign(np.inf)
            self._best_step.assign(0)

    def exhausted(self, step: int) -> bool:
        """Returns whether the validation loss has not fallen for `patience` validations."""
        waited = step - max(self.best_step, self._first_step)
        return self.validates and waited >= self._patience * self._interval

    def due(self, step: int) -> bool:
        """Returns whether weights of `step` are to be validated, as every `validation_interval` steps."""
        return self.validates and step % self._interval == 0

    def validate(self, step: int) -> float | None:
        """Returns the validation loss after `step` steps, and chooses the weights if it is the lowest one.

        None without vignettes for validation.
        """
        if self._validator is None:
            return None
        best = self.chosen.get_weights()
        self._agent.copy_weights_to(self.chosen)
        loss = self._validator.loss(self.chosen)
        if step >= self._first_step and loss < float(self._best_loss):
            self._best_loss.assign(loss)
            self._best_step.assign(step)
        else:
            self.chosen.set_weights(best)
        return loss

    def choose_latest(self) -> None:
        """Chooses the latest weights if none are chosen yet, as a run may end before that."""
        if self.chosen is not self._agent.network and not self.best_step:
            self._agent.copy_weights_to(self.chosen)

    def settle(self) -> HeldOutOutputs | None:
        """Calibrates the chosen weights, and returns their outputs for vignettes that networks do not learn from."""
        self.choose_latest()
        return None if self._validator is None else self._validator.settle(self.chosen)
