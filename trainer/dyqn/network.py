"""The Q-network: a Keras 3 model from states to the Q-value of every action, and optionally to probabilities.

Columns of the outputs: the five Q-values in the order of the actions. If the network has probabilities, four columns
follow for the probability that each triage decision is appropriate, then four that it is safe, in urgency order, then
Q(ask) at each operating point of `trainer.graph.decide.ASK_POINTS`, then by how much what is known lowers the
stopping threshold.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS
from trainer.config import NetworkConfig
from trainer.graph.closure import Closure
from trainer.graph.decide import ASK_POINTS, DECLINE

NUM_PROBABILITIES = 2 * NUM_DECISIONS
WITH_PROBABILITIES = NUM_ACTIONS + NUM_PROBABILITIES
"""Number of outputs up to the probabilities."""
LEARNED_OUTPUTS = WITH_PROBABILITIES + len(ASK_POINTS)
"""Number of outputs that are learned: O - 1 of a network that has probabilities; one without has A, all of them."""
WITH_SINGLE_DECISIONS = LEARNED_OUTPUTS + NUM_DECISIONS
"""Number of logits of such a network: after those of the outputs come the logits of each decision for a single
clinician. They are not among the outputs; learning them improves the others."""
LOGITS, AVERAGE, OUTPUT_LAYER, TEXT_FEATURES = "logits", "outputs", "q_values", "text_features"

_OF_MEMBERS = (keras.layers.Dense, keras.layers.Dropout)  # the layers of a single network
_INITIALIZERS = {"selu": keras.initializers.LecunNormal, "relu": keras.initializers.HeNormal}


def build_network(evidence_count: int, config: NetworkConfig, seed: int, closure: Closure | None = None) -> keras.Model:
    """Returns Q_theta (paper, section "The Agent").

    Fully connected layers, then a sigmoid for each output, so that Q-values can be read as probabilities. SELU layers
    have LeCun-normal kernels, which self-normalisation requires, ReLU layers He-normal ones. The logits of several
    networks are averaged.

    Args:
        evidence_count: E, the width of the state.
        config: layers, dropout, number of networks and outputs; the paper's is one network of two SELU layers of 1024.
        seed: of the initial kernels and dropout.
        closure: of the vocabulary, for two inputs a code; None leaves states as they are, and so do signed inputs, as
            in the paper.

    Returns:
        A model from states `[B, E]` float32 to outputs `[B, A]` or `[B, O]` float32 in (0, 1).
    """
    seeds = keras.random.SeedGenerator(seed)
    states = keras.Input((evidence_count,), name="states")
    known = inputs = states
    if config.inputs == "two":
        known = states if closure is None else Shortest(closure, name="shortest")(states)
        inputs = PresentAndAbsent(name="inputs")(known)
    if config.text_features:
        sums = TextFeatureSums(config.text_features, name=TEXT_FEATURES)(inputs)
        inputs = keras.layers.Concatenate(name="with_text_features")([inputs, sums])
    members = [_member(inputs, config, number, seed, seeds) for number in range(1, config.networks + 1)]
    outputs = Average(name=AVERAGE)(Stack(name=LOGITS)(members))
    if config.outputs == "probabilities":
        outputs = keras.layers.Concatenate(name="with_fall")([outputs, ThresholdDecline(name="fall")(known)])
    return keras.Model(states, outputs, name="q_network")


def _member(
    inputs: keras.KerasTensor,
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
        NUM_ACTIONS if config.outputs == "q_values" else WITH_SINGLE_DECISIONS,
        kernel_initializer=keras.initializers.LecunNormal(seed=seeds),
        name=f"{OUTPUT_LAYER}{suffix}",
    )(hidden)


class Shortest(keras.layers.Layer):
    """Leaves out of states `[B, E]` what follows from the rest, so that states which mean the same are the same.

    With all that follows they would be the same, too, but a network then finds fewer of the Red cases.
    """

    def __init__(self, closure: Closure, **kwargs: Any):
        super().__init__(**kwargs)
        self._closure = closure

    def call(self, states: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the shortest states."""
        return self._closure.reduced(states)


class ThresholdDecline(keras.layers.Layer):
    """From a state `[B, E]` to by how much its known pieces of evidence lower the stopping threshold, `[B, 1]`."""

    def call(self, states: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the decline, at most 1."""
        return ops.minimum(DECLINE * ops.sum(ops.abs(states), axis=-1, keepdims=True), 1.0)


class PresentAndAbsent(keras.layers.Layer):
    """From a state `[B, E]` to `[B, 2 E]`: 1 where a code is known to be present, then 1 where it is absent.

    What a finding means when it is absent is not the opposite of what it means when it is present.
    """

    def call(self, states: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the inputs."""
        return ops.concatenate([ops.relu(states), ops.relu(-states)], axis=-1)


class TextFeatureSums(keras.layers.Layer):
    """From `[B, 2 E]` to `[B, 2 W]`: sums of the text features of the codes that are present, then of those absent.

    The features, `[E, W]`, come from `trainer.dyqn.text_features` and are not trained.
    """

    def __init__(self, size: int, **kwargs: Any):
        super().__init__(**kwargs)
        self._size = size

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Makes the features, zero."""
        self.vectors = self.add_weight(((shape[-1] or 0) // 2, self._size), "zeros", trainable=False, name="vectors")

    def call(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the sums."""
        present, absent = ops.split(inputs, 2, axis=-1)
        return ops.concatenate([ops.matmul(present, self.vectors), ops.matmul(absent, self.vectors)], axis=-1)


class Stack(keras.layers.Layer):
    """Stacks the logits `[B, L]` of N networks to `[B, N, L]`."""

    def call(self, members: list[keras.KerasTensor]) -> keras.KerasTensor:
        """Returns the stack."""
        return ops.stack(members, axis=1)


class Average(keras.layers.Layer):
    """From the logits `[B, N, L]` of N networks to the learned outputs: sigmoids of their calibrated means.

    The calibration scales and shifts the logits that follow the Q-values; initially it changes nothing. As follows from
    their definitions, P(safe) never falls with urgency, and P(appropriate) is never above P(safe).
    """

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Makes the calibration, one scale and one shift for each output that follows the Q-values."""
        if shape[-1] != NUM_ACTIONS:
            size = (LEARNED_OUTPUTS - NUM_ACTIONS,)
            self.scale = self.add_weight(size, "ones", trainable=False, name="calibration_scale")
            self.shift = self.add_weight(size, "zeros", trainable=False, name="calibration_shift")

    def call(self, logits: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the outputs."""
        mean = ops.mean(logits[:, :, :LEARNED_OUTPUTS], axis=1)
        q_values = ops.sigmoid(mean[:, :NUM_ACTIONS])
        if logits.shape[-1] == NUM_ACTIONS:
            return q_values
        calibrated = ops.sigmoid(mean[:, NUM_ACTIONS:] * self.scale + self.shift)
        columns = [calibrated[:, column : column + 1] for column in range(NUM_PROBABILITIES)]
        safe = columns[NUM_DECISIONS:]
        for column in reversed(range(NUM_DECISIONS - 1)):
            safe[column] = ops.maximum(safe[column], safe[column + 1])
        safe[0] = ops.ones_like(safe[0])  # nothing is more urgent than Red
        appropriate = [ops.minimum(*pair) for pair in zip(columns[:NUM_DECISIONS], safe, strict=True)]
        return ops.concatenate([q_values, *appropriate, *safe, calibrated[:, NUM_PROBABILITIES:]], axis=1)


def sum_rows(known: tf.Tensor, matrix: np.ndarray) -> tf.Tensor:
    """Returns the product of `known` `[B, N]`, of 0 and 1, with a matrix `[N, M]`, by adding up rows: `[B, M]`."""
    places = tf.cast(tf.where(known > 0.5), tf.int32)  # not unstacked, as LiteRT refuses that for none
    return tf.math.unsorted_segment_sum(tf.gather(matrix, places[:, 1]), places[:, 0], tf.shape(known)[0])


def logits_of(network: keras.Model) -> keras.Model:
    """Returns the model from states `[B, E]` to the logits `[B, N, L]` of each network, with the same weights.

    L is A, or `WITH_SINGLE_DECISIONS`.
    """
    return keras.Model(network.input, network.get_layer(LOGITS).output, name="logits")


def members_of(network: keras.Model) -> list[keras.Model]:
    """Returns the models from states `[B, E]` to the logits `[B, L]` of each single network, with the same weights."""
    layers = [layer for layer in network.layers if layer.name.startswith(OUTPUT_LAYER)]
    return [keras.Model(network.input, layer.output, name=f"member_{n}") for n, layer in enumerate(layers, start=1)]


def with_sums(network: keras.Model) -> Callable[[tf.Tensor], tf.Tensor] | None:
    """Returns the same function, in which first layers add up the rows of their kernels for the inputs that are 1.

    Of a thousand inputs some twenty are. Returns None for a network whose inputs are not 0 or 1.
    """
    first = _first_layers(network)
    if not any(isinstance(layer, PresentAndAbsent) and layer.output is first[0].input for layer in network.layers):
        return None
    inputs = keras.Model(network.input, first[0].input)
    others = keras.Model([layer.output for layer in first], network.get_layer(AVERAGE).output)
    declines = [
        keras.Model(network.input, layer.output) for layer in network.layers if isinstance(layer, ThresholdDecline)
    ]
    kernel = np.concatenate([layer.kernel.numpy() for layer in first], axis=1)  # [2 E, H of all networks]
    bias = np.concatenate([layer.bias.numpy() for layer in first])

    def outputs(states: tf.Tensor) -> tf.Tensor:
        sums = sum_rows(inputs(states), kernel)
        learned = others(tf.split(first[0].activation(sums + bias), len(first), axis=1))
        return tf.concat([learned, *(decline(states) for decline in declines)], axis=1)

    return outputs


def copy_weights(source: keras.Model, target: keras.Model) -> None:
    """Copies the weights of a network to another one, which may lack the word inputs of `source`.

    Word inputs are sums over known codes. So is the first layer, whose kernel can absorb them.
    """
    first_layers = _first_layers(target)
    for layer in target.layers:
        weights = source.get_layer(layer.name).get_weights()
        if layer in first_layers and weights[0].shape != layer.kernel.shape:
            vectors = source.get_layer(TEXT_FEATURES).get_weights()[0]  # [E, W]
            codes, present, absent = np.split(weights[0], [layer.kernel.shape[0], -vectors.shape[1]])
            weights[0] = codes + np.concatenate([vectors @ present, vectors @ absent])
        layer.set_weights(weights)


def start_from(network: keras.Model, other: keras.Model, places: np.ndarray) -> None:
    """Initialises a network with the weights of another one without word inputs and with other codes.

    A code that `other` does not know has no effect at first.

    Args:
        network: over E codes, with word inputs or without.
        other: of the same layers, over other codes.
        places: int64 `[E]`, see `trainer.training.start.Start`.
    """
    count, first_layers = other.input_shape[-1], _first_layers(other)
    for layer in other.layers:
        weights, target = layer.get_weights(), network.get_layer(layer.name)
        if layer in first_layers:
            # One block of rows for signed inputs, two for present and absent.
            blocks = weights[0].reshape(-1, count, weights[0].shape[1])
            known = np.where((places >= 0)[:, np.newaxis], blocks[:, places], 0.0).reshape(-1, weights[0].shape[1])
            # Rows of text features come last; the others contain them.
            kernel = np.zeros(target.kernel.shape, np.float32)
            kernel[: len(known)] = known
            weights[0] = kernel
        target.set_weights(weights)


def _first_layers(network: keras.Model) -> list[keras.layers.Layer]:
    """Returns the layer of each single network whose kernel has a row for each input, whatever the layer is called."""
    computed = {id(layer.output) for layer in network.layers if isinstance(layer, _OF_MEMBERS)}
    return [
        layer for layer in network.layers if isinstance(layer, keras.layers.Dense) and id(layer.input) not in computed
    ]


def set_output_bias(network: keras.Model, bias: keras.KerasTensor) -> None:
    """Sets the bias `[L]` of the output layer of each network."""
    for layer in network.layers:
        if layer.name.startswith(OUTPUT_LAYER):
            layer.bias.assign(bias)


def dropout_states(network: keras.Model) -> list[Any]:
    """Returns the random state of the dropout layers, which a checkpoint of the network does not contain."""
    weights = {id(weight) for weight in network.weights}
    return [variable.value for variable in network.variables if id(variable) not in weights]
