"""The Q-network: a Keras 3 model from states to the Q-value of every action, and optionally to probabilities.

A network with probabilities has six cumulative logits, those of S_a, that decision a is safe, for a from Yellow to Blue
(Red always is), and of H_a, that all clinicians were less urgent than a, for a from Red to Green. A decision is
appropriate if it is safe and not all clinicians were less urgent, so P(appropriate) = P(S_a) - P(H_a). The Q-value of a
decision is its expected utility, (P(appropriate) + w P(safe)) / (1 + w), and Q(ask) is a seventh logit.

Denied red flags add one number, 0 or more, to all six (`DeniedRedFlags`). So whatever the weights, another denied red
flag never makes the best decision more urgent. The logits start from those of a mixture of patients, and the network
learns the difference.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from schemas.evidence import Vocabulary
from schemas.triage import NUM_ACTIONS, NUM_DECISIONS, Action
from trainer.config import NetworkConfig, TargetConfig
from trainer.graph.closure import Closure
from trainer.graph.decide import Heads
from trainer.graph.mixture import Mixture, classes_given, unquantised

NUM_CUMULATIVE = 2 * (NUM_DECISIONS - 1)
"""Number of cumulative logits: those of S from Yellow to Blue, then those of H from Red to Green."""
NUM_LOGITS = NUM_CUMULATIVE + 1
"""L of a network with probabilities; that of Q(ask) is the last one. A network without has A, one for each action."""
LOGITS, HEADS, OUTPUT_LAYER, INPUTS, DENIED = "logits", "outputs", "q_values", "inputs", "denied_red_flags"
NEUTRAL = TargetConfig()
UNBOUNDED = 1e9
"""Bound on the weight of denials in training; `bound_denials` sets it afterwards."""

_INITIALIZERS = {"selu": keras.initializers.LecunNormal, "relu": keras.initializers.HeNormal}
_LEAST = 0.005  # of a share with log-odds: of a probability of the mixture, so that the network can still correct it


def build_network(
    vocabulary: Vocabulary | int,
    config: NetworkConfig,
    seed: int,
    patients: Mixture | None = None,
    target: TargetConfig = NEUTRAL,
) -> keras.Model:
    """Returns Q_theta (paper, section "The Agent").

    Fully connected layers, then a sigmoid for each output, so that Q-values can be read as probabilities. SELU layers
    have LeCun-normal kernels, which self-normalisation requires, ReLU layers He-normal ones. The logits of several
    networks are averaged.

    Args:
        vocabulary: of E pieces of evidence, or E alone if nothing is known of them.
        config: layers, dropout, number of networks and outputs; the paper's is one network of two SELU layers of 1024.
        seed: of the initial kernels and dropout.
        patients: from which a network with probabilities starts; None for a start from zero.
        target: the weight of P(safe) in the Q-values of decisions, and the price of a question.

    Returns:
        A model from states `[B, E]` float32 to heads in [0, 1], see `trainer.graph.decide.Heads`.
    """
    known = None if isinstance(vocabulary, int) else vocabulary
    seeds = keras.random.SeedGenerator(seed)
    states = keras.Input((vocabulary if isinstance(vocabulary, int) else len(vocabulary),), name="states")
    inputs = states
    if config.inputs == "two":
        inputs = PresentAndAbsent(known, name=INPUTS)(states)
    width = NUM_ACTIONS if config.outputs == "q_values" else NUM_LOGITS
    members = [_member(inputs, width, config, number, seed, seeds) for number in range(1, config.networks + 1)]
    logits = Stack(name="members")(members)
    if width == NUM_ACTIONS:
        logits = keras.layers.Identity(name=LOGITS)(logits)
        return keras.Model(states, AverageQ(name=HEADS)(logits), name="q_network")
    offsets = []
    if known is not None and patients is not None:
        offsets = [DeniedRedFlags(known, patients, name=DENIED)(states)]
    logits = Shifted(name=LOGITS)([logits, *offsets])
    return keras.Model(states, Utilities(target, name=HEADS)(logits), name="q_network")


def _member(
    inputs: keras.KerasTensor,
    width: int,
    config: NetworkConfig,
    number: int,
    seed: int,
    seeds: keras.random.SeedGenerator,
) -> keras.KerasTensor:
    """Returns the logits `[B, L]` of one network."""
    suffix = f"_of_{number}" if config.networks > 1 else ""
    hidden = inputs
    for layer, size in enumerate(config.hidden_sizes, start=1):
        hidden = keras.layers.Dense(
            size,
            activation=config.activation,
            kernel_initializer=_INITIALIZERS[config.activation](seed=seeds),
            name=f"hidden_{layer}{suffix}",
        )(hidden)
        if config.dropout:
            name = f"dropout_{layer}{suffix}"
            hidden = keras.layers.Dropout(config.dropout, seed=seed + 100 * number + layer, name=name)(hidden)
    return keras.layers.Dense(
        width, kernel_initializer=keras.initializers.LecunNormal(seed=seeds), name=f"{OUTPUT_LAYER}{suffix}"
    )(hidden)


class PresentAndAbsent(keras.layers.Layer):
    """From a state `[B, E]` to `[B, 2 E]`: 1 where a code is known to be present, then 1 where it is absent.

    The absence of a finding does not mean the opposite of its presence. Implied findings are left out, so that states
    with the same meaning are equal. `DeniedRedFlags` handles denied red flags and the denials that follow from them:
    the denial of a burning chest pain must not vanish when chest pain is denied. Other denials together weigh no more
    than `most` of them, because twenty would outweigh any finding.
    """

    def __init__(self, vocabulary: Vocabulary | None, **kwargs: Any):
        super().__init__(**kwargs)
        self._closure = None if vocabulary is None else Closure(vocabulary)
        self._counts: np.ndarray | None = None  # [E]
        if vocabulary is not None:
            self._counts = (~_with_red_flags(vocabulary)).astype(np.float32)

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Makes the bound."""
        self.most = self.add_weight((), keras.initializers.Constant(UNBOUNDED), trainable=False, name="most_denials")

    def call(self, states: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the inputs."""
        shortest = states if self._closure is None else self._closure.reduced(states)
        denied = ops.relu(-shortest) if self._counts is None else ops.relu(-shortest) * self._counts
        share = ops.minimum(1.0, self.most / ops.maximum(ops.sum(denied, axis=1, keepdims=True), 1.0))
        return ops.concatenate([ops.relu(shortest), denied * share], axis=-1)


class DeniedRedFlags(keras.layers.Layer):
    """From a state `[B, E]` to what is added to its cumulative logits, `[B, 6]`, by a mixture of patients.

    The mixture assesses what is known apart from denied red flags. Its classes k also give the danger that remains when
    the flags D are denied: P(k) P(Green would be unsafe | k) shrinks by the product over d in D of (1 - P(d | k)). The
    negative logarithm of the remaining share is 0 or more and never falls with another flag. It is capped at `most`,
    multiplied by a learned factor, and added to all six logits.
    """

    def __init__(self, vocabulary: Vocabulary, patients: Mixture, **kwargs: Any):
        super().__init__(**kwargs)
        self._closure = Closure(vocabulary)
        self._patients = patients
        self._flags: np.ndarray = vocabulary.red_flags.astype(np.float32)  # [E]
        self._left_out = _with_red_flags(vocabulary)  # [E]
        truths = patients.truths  # [K, 8]
        safe, appropriate = truths[:, NUM_DECISIONS + 1 :], truths[:, : NUM_DECISIONS - 1]  # Yellow on, up to Green
        less_urgent = np.clip(truths[:, NUM_DECISIONS:-1] - appropriate, _LEAST, safe)
        self._truths = np.concatenate([safe, less_urgent], axis=1).astype(np.float32)  # [K, 6]
        self._feared: np.ndarray = 1 - truths[:, NUM_DECISIONS + Action.GREEN]  # [K]
        self._missed = np.log1p(-patients.present).T.astype(np.float32)  # [E, K]

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Makes the factor and the bound."""
        self.factor = self.add_weight((), keras.initializers.Constant(0.0), name="factor")
        self.most = self.add_weight((), keras.initializers.Constant(UNBOUNDED), trainable=False, name="most_relief")

    def call(self, states: keras.KerasTensor) -> keras.KerasTensor:
        """Returns what is added."""
        classes = self._classes(states)
        shares = ops.matmul(classes, unquantised(self._truths, classes))
        relief = ops.minimum(self.relief(states, classes), self.most) * ops.softplus(self.factor)
        return log_odds(shares) + relief[:, None]

    def relief(self, states: keras.KerasTensor, classes: keras.KerasTensor | None = None) -> keras.KerasTensor:
        """Returns the negative logarithm of the share of the danger that remains, `[B]`."""
        classes = self._classes(states) if classes is None else classes
        denied = ops.cast(self._closure(states) < 0, "float32") * self._flags
        feared = classes * self._feared
        remaining = ops.sum(feared * ops.exp(ops.matmul(denied, self._missed)), axis=1) / ops.sum(feared, axis=1)
        return -ops.log(ops.maximum(remaining, 1e-6))

    def _classes(self, states: keras.KerasTensor) -> keras.KerasTensor:
        left = ops.where((states < 0) & self._left_out, ops.zeros_like(states), states)
        return classes_given(self._patients, self._closure(left))


def _with_red_flags(vocabulary: Vocabulary) -> np.ndarray:
    """Returns bool `[E]`: red flags, and codes that are denied where a red flag is."""
    denied = Closure(vocabulary)(-vocabulary.red_flags[np.newaxis].astype(np.float32))
    return np.asarray(denied)[0] < 0


class Stack(keras.layers.Layer):
    """Stacks the logits `[B, L]` of N networks to `[B, N, L]`."""

    def call(self, members: list[keras.KerasTensor]) -> keras.KerasTensor:
        """Returns the stack."""
        return ops.stack(members, axis=1)


class Shifted(keras.layers.Layer):
    """Adds offsets `[B, 6]`, if any, to the cumulative logits among `[B, N, 7]`."""

    def call(self, parts: list[keras.KerasTensor]) -> keras.KerasTensor:
        """Returns the logits."""
        logits, *offsets = parts
        for offset in offsets:
            logits = logits + ops.pad(offset, [[0, 0], [0, 1]])[:, None]
        return logits


class AverageQ(keras.layers.Layer):
    """From the logits `[B, N, A]` of N networks to the Q-values."""

    def call(self, logits: keras.KerasTensor) -> Heads:
        """Returns the Q-values."""
        return {"q": ops.sigmoid(ops.mean(logits, axis=1))}


class Utilities(keras.layers.Layer):
    """From the logits `[B, N, 7]` of N networks to the Q-values and probabilities.

    The calibration scales all cumulative logits by one factor and shifts each, so that denied red flags still add the
    same to all. Q(ask) has its own scale and shift, and adds a share of the log-odds of the best decision, by which it
    can be told for new patients. Initially none of them changes anything.
    """

    def __init__(self, target: TargetConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self._weight = target.safety_weight
        self.price = target.price

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Makes the calibration: a scale and six shifts, those of Q(ask), and its share of the best decision."""
        self.scale = self.add_weight((NUM_LOGITS,), "ones", trainable=False, name="calibration_scale")
        self.shift = self.add_weight((NUM_LOGITS,), "zeros", trainable=False, name="calibration_shift")
        self.best = self.add_weight((), "zeros", trainable=False, name="calibration_best")

    def call(self, logits: keras.KerasTensor) -> Heads:
        """Returns the heads."""
        calibrated = ops.mean(logits, axis=1) * self.scale + self.shift
        appropriate, safe = probabilities(calibrated[:, :NUM_CUMULATIVE])
        decisions = utilities(appropriate, safe, self._weight)
        best = log_odds(ops.max(decisions, axis=1, keepdims=True))
        asking = ops.sigmoid(calibrated[:, NUM_CUMULATIVE:] + self.best * best)
        q = ops.concatenate([decisions, asking], axis=1)
        return {"q": q, "appropriate": appropriate, "safe": safe}


def probabilities(cumulative: keras.KerasTensor) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Returns the probabilities that each decision is appropriate, and that it is safe, `[..., 4]` both.

    They are a distribution: P(S) falls with urgency, so does P(H), and who is less urgent than a decision makes the
    next one safe.

    Args:
        cumulative: logits `[..., 6]`, see the module.
    """
    columns = [cumulative[..., place : place + 1] for place in range(NUM_CUMULATIVE)]
    safe, less_urgent = columns[: NUM_DECISIONS - 1], columns[NUM_DECISIONS - 1 :]
    for place in range(1, NUM_DECISIONS - 1):
        safe[place] = ops.minimum(safe[place], safe[place - 1])
    for place in range(NUM_DECISIONS - 1):
        less_urgent[place] = ops.minimum(less_urgent[place], safe[place])
        if place:
            less_urgent[place] = ops.minimum(less_urgent[place], less_urgent[place - 1])
    one = ops.ones_like(columns[0])
    p_safe = ops.concatenate([one, *map(ops.sigmoid, safe)], axis=-1)
    p_less_urgent = ops.concatenate([*map(ops.sigmoid, less_urgent), ops.zeros_like(one)], axis=-1)
    return p_safe - p_less_urgent, p_safe


def utilities(appropriate: Any, safe: Any, safety_weight: float) -> Any:
    """Returns the utility of each decision in [0, 1], in the shape of both arguments: probabilities, or outcomes."""
    return (appropriate + safety_weight * safe) / (1 + safety_weight)


def log_odds(shares: Any) -> Any:
    """Returns the log-odds of shares of any shape, bounded so that they are finite."""
    bounded = ops.clip(shares, _LEAST, 1 - _LEAST)
    return ops.log(bounded / (1 - bounded))


def logits_of(network: keras.Model) -> keras.Model:
    """Returns the model from states `[B, E]` to the logits `[B, N, L]` of each network, with the same weights."""
    return keras.Model(network.input, network.get_layer(LOGITS).output, name="logits")


def bound_denials(network: keras.Model, cards: np.ndarray) -> None:
    """Bounds the weight of denials by their weight on vignettes, which record only denials that somebody thought of.

    Interviews record far more denials, and a network that added all of them up could dismiss an emergency. Training
    itself has no bound, because the network would answer it with larger weights. Denials weigh no more than the mean
    number in a vignette, and those of red flags no more than in all but one vignette of twenty.

    Args:
        network: with two inputs a code; others are left as they are.
        cards: int8 `[M, E]`, the states of whole vignettes.
    """
    names = [layer.name for layer in network.layers]
    states: np.ndarray = cards.astype(np.float32)
    if INPUTS in names:
        network.get_layer(INPUTS).most.assign(max(float((cards < 0).sum(axis=1).mean()), 1.0))
    if DENIED in names:
        layer = network.get_layer(DENIED)
        layer.most.assign(float(np.quantile(layer.relief(states).numpy(), 0.95)))


def start_from(network: keras.Model, other: keras.Model, places: np.ndarray) -> None:
    """Initialises a network with the weights of another one over other codes.

    A code that `other` does not know has no effect at first.

    Args:
        network: over E codes.
        other: of the same layers, over other codes.
        places: int64 `[E]`, see `trainer.training.start.Start`.
    """
    count, first_layers = other.input_shape[-1], _first_layers(other)
    for layer in other.layers:
        weights, target = layer.get_weights(), network.get_layer(layer.name)
        if layer in first_layers:
            # One block of rows for signed inputs, two for present and absent.
            blocks = weights[0].reshape(-1, count, weights[0].shape[1])
            known = np.where((places >= 0)[:, np.newaxis], blocks[:, places], 0.0)
            weights[0] = known.reshape(-1, weights[0].shape[1]).astype(np.float32)
        if weights:
            target.set_weights(weights)
    for layer in network.layers:  # bounds are those of its own vignettes, set when it has learned
        if isinstance(layer, PresentAndAbsent | DeniedRedFlags):
            layer.most.assign(UNBOUNDED)


def _first_layers(network: keras.Model) -> list[keras.layers.Layer]:
    """Returns the layer of each single network whose kernel has a row for each input, whatever its name."""
    inputs = [network.input, *(layer.output for layer in network.layers if layer.name == INPUTS)]
    taken = set(map(id, inputs))
    return [layer for layer in network.layers if isinstance(layer, keras.layers.Dense) and id(layer.input) in taken]


def dropout_states(network: keras.Model) -> list[Any]:
    """Returns the random state of the dropout layers, which a checkpoint of the network does not contain."""
    weights = {id(weight) for weight in network.weights}
    return [variable.value for variable in network.variables if id(variable) not in weights]
