"""One optimisation of Algorithm 1 (paper, algo:dyqn) on a batch of signed codes, in two mathematically equal engines.

`PlainLearner` is the reference: dense states, automatic differentiation, one pass for s and one for s'. `FusedLearner`
sends s and s' through the network in one pass, sums kernel rows instead of computing the first layer's dense product,
and computes the gradient explicitly, so that there is none for s' and XLA fuses all work between the matrix products.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import keras
import tensorflow as tf

from schemas.errors import InputError
from schemas.triage import NUM_ACTIONS
from trainer import state
from trainer.config import TrainConfig
from trainer.dyqn import targets
from trainer.dyqn.agent import DyqnAgent, LossExtra
from trainer.dyqn.network import ACTIVATIONS, Average, Stack
from trainer.dyqn.targets import Transition
from trainer.dyqn.workers import ALONE, Workers


class Learner(Protocol):
    """What the training loop needs."""

    def prepare(self) -> None:
        """Reads the current weights; called before the first step of each compiled call."""

    def q_values(self, signed_codes: tf.Tensor) -> tf.Tensor:
        """Returns Q(s, .) float32 `[N, A]` of signed codes int32 `[N, W]`."""

    def learn(self, batch: Transition) -> LossExtra:
        """Performs one optimisation on a batch whose states are signed codes, and counts it if it is finite."""


def build_learner(agent: DyqnAgent, config: TrainConfig, workers: Workers = ALONE) -> Learner:
    """Returns the learner of the configured engine; `workers` are those of the agent."""
    if config.learner.engine == "fused":
        return FusedLearner(agent, config, workers)
    return PlainLearner(agent)


class PlainLearner:
    """The agent's own `train`, on dense states."""

    def __init__(self, agent: DyqnAgent):
        self._agent = agent
        self._evidence_count = agent.network.input_shape[-1]

    def prepare(self) -> None:
        """Does nothing: the weights are read when they are needed."""

    def q_values(self, signed_codes: tf.Tensor) -> tf.Tensor:
        """See `Learner`."""
        return self._agent.network(state.from_signed_codes(signed_codes, self._evidence_count))

    def learn(self, batch: Transition) -> LossExtra:
        """See `Learner`."""
        s_tm1, s_t = (state.from_signed_codes(codes, self._evidence_count) for codes in (batch.s_tm1, batch.s_t))
        return self._agent.train(batch._replace(s_tm1=s_tm1, s_t=s_t)).extra


class Activation(NamedTuple):
    """A hidden layer's output: rows for s, then for s'; with dropout, rows for s with dropout come before both."""

    exact: tf.Tensor  # float32 [2 B, H], with dropout [3 B, H]
    rounded: tf.Tensor  # the same in the precision of the next matrix product
    slope: tf.Tensor  # float32 [B, H], derivative of the activation in the first B rows
    size: tf.Tensor  # float32 scalar, sum of absolute values of the first B rows


class Delta(NamedTuple):
    """The gradient of the loss with respect to the inputs of a hidden layer's activation, for s."""

    exact: tf.Tensor  # float32 [B, H]
    rounded: tf.Tensor
    size: tf.Tensor  # float32 scalar, sum of absolute values


class FusedLearner:
    """The same optimisation with explicit gradients.

    With `precision` float32, everything except for the sums over rows of the first kernel is one XLA computation. XLA
    has no fast bfloat16 product on CPUs. With bfloat16, the products of hidden layers are computed by oneDNN, which
    multiplies in bfloat16 and adds in float32, and XLA compiles the operations between them. Weights and their updates
    are always float32.

    With dropout, s passes through the network twice: with dropout for the gradient, and without for the targets. The
    network's own dropout layers draw the masks; their seeds advance with each step and are part of a checkpoint.
    """

    def __init__(self, agent: DyqnAgent, config: TrainConfig, workers: Workers = ALONE):
        """Makes the learner of an agent.

        Raises:
            InputError: it cannot compute this network or loss.
        """
        self._agent = agent
        self._workers = workers
        self._target_config = config.target
        self._rate = config.optimiser.learning_rate
        # Rows that a batch does not touch stay the same only with plain gradient descent and a single worker.
        plain = config.optimiser.algorithm == "sgd" and not config.optimiser.weight_decay
        self._descends = plain and workers.count == 1
        layers = [layer for layer in agent.network.layers if layer.weights]
        self._hidden_activation = ACTIVATIONS[_activation_of(agent.network, layers, config.target.loss)]
        self._dropouts = [layer for layer in agent.network.layers if isinstance(layer, keras.layers.Dropout)]
        self._kernels = [layer.kernel.value for layer in layers]  # of the hidden layers, then of the output
        self._biases = [layer.bias.value for layer in layers]
        self._low = tf.as_dtype(config.learner.precision)
        rounds = self._low != tf.float32
        # Kernels of the hidden layers above the first, in the precision of their products.
        self._factors = dict(enumerate(self._kernels[1:-1], start=1))
        if rounds:
            self._factors = {index: tf.Variable(tf.cast(kernel, self._low)) for index, kernel in self._factors.items()}
        self._q_values = _compiled(self._forward)
        self._gradients = self._differentiate if rounds else _compiled(self._differentiate)
        part: Callable[[Callable[..., Any]], Any] = _compiled if rounds else _unchanged  # the whole is compiled already
        self._first, self._hidden = part(self._first_layer), part(self._activation)
        self._output, self._back, self._signed = part(self._output_layer), part(self._delta), part(self._signed_deltas)
        self._update = _compiled(self._descend if self._descends else self._optimise)

    def prepare(self) -> None:
        """Rounds the kernels again, as a checkpoint or a caller may have set them."""
        for index, factor in self._factors.items():
            if factor is not self._kernels[index]:
                factor.assign(tf.cast(self._kernels[index], self._low))

    def q_values(self, signed_codes: tf.Tensor) -> tf.Tensor:
        """See `Learner`; in float32 whatever the precision."""
        return self._q_values(signed_codes)

    def learn(self, batch: Transition) -> LossExtra:
        """See `Learner`."""
        extra, signed_deltas, gradients = self._gradients(batch)
        rows = kernel_gradient(batch.s_tm1, signed_deltas)
        if self._descends:
            self._kernels[0].scatter_sub(rows)
            self._update(extra.finite, gradients)
        else:
            dense = tf.scatter_nd(rows.indices[:, tf.newaxis], rows.values, self._kernels[0].shape)
            extra, gradients = self._agree(extra, [dense, *gradients])
            self._update(extra.finite, gradients)
        self._agent.train_step_counter.assign_add(tf.cast(extra.finite, tf.int64))
        return extra

    def _agree(self, extra: LossExtra, gradients: list[tf.Tensor]) -> tuple[LossExtra, list[tf.Tensor]]:
        """Returns the means over the batches of all workers, so that every worker makes the same update."""
        if self._workers.count == 1:
            return extra, gradients
        exact = [tf.cast(gradient, tf.float32) for gradient in gradients]
        failed = tf.cast(~extra.finite, tf.float32)
        failed, action_losses, *exact = self._workers.mean([failed, extra.action_losses, *exact])
        finite = (failed == 0) & tf.math.is_finite(tf.linalg.global_norm([action_losses, *exact]))
        return LossExtra(action_losses, finite), exact

    def _forward(self, signed_codes: tf.Tensor) -> tf.Tensor:
        below = product(signed_codes, self._kernels[0]) + self._biases[0]
        for kernel, bias in zip(self._kernels[1:], self._biases[1:], strict=True):
            below = tf.matmul(self._hidden_activation.function(below), kernel) + bias
        return tf.sigmoid(below)

    def _differentiate(self, batch: Transition) -> tuple[LossExtra, tf.Tensor, list[tf.Tensor]]:
        """Returns (losses, signed deltas of the first layer, gradients of all but the first kernel).

        The signed deltas are zero where the step is not finite.
        """
        codes = tf.concat([batch.s_tm1, batch.s_t], axis=0)
        hidden = [self._first(codes)] if len(self._kernels) > 1 else []
        for index in range(1, len(self._kernels) - 1):
            hidden.append(self._hidden(tf.matmul(hidden[-1].rounded, self._factors[index]), index))
        below, slope = (hidden[-1].exact, hidden[-1].slope) if hidden else (codes, None)
        action_losses, delta, gradients = self._output(below, slope, batch)
        rows = tf.shape(batch.a_tm1)[0]
        sizes = [hidden[-1].size] if hidden else []
        for index in range(len(hidden) - 1, 0, -1):
            gradient = tf.matmul(hidden[index - 1].rounded[:rows], delta.rounded, transpose_a=True)
            gradients = [gradient, tf.reduce_sum(delta.exact, axis=0), *gradients]
            sizes.append(hidden[index - 1].size * delta.size)
            below_delta = tf.matmul(delta.rounded, self._factors[index], transpose_b=True)
            delta = self._back(below_delta, hidden[index - 1].slope)
        finite = tf.math.is_finite(tf.add_n([tf.reduce_sum(action_losses), delta.size, *sizes]))
        gradients = [tf.reduce_sum(delta.exact, axis=0), *gradients]
        return LossExtra(action_losses, finite), self._signed(delta.exact, finite), gradients

    def _first_layer(self, signed_codes: tf.Tensor) -> Activation:
        inputs = product(signed_codes, self._kernels[0])
        if self._dropouts:  # s twice: once for dropout, once without
            inputs = tf.concat([inputs[: tf.shape(inputs)[0] // 2], inputs], axis=0)
        return self._activation(inputs, 0)

    def _activation(self, inputs: tf.Tensor, index: int) -> Activation:
        exact = self._hidden_activation.function(tf.cast(inputs, tf.float32) + self._biases[index])
        rows = tf.shape(exact)[0] // (3 if self._dropouts else 2)
        slope = self._hidden_activation.slope(exact[:rows])
        if self._dropouts:
            mask = self._dropouts[index](tf.ones_like(slope), training=True)  # 0, or 1 / (1 - dropout rate)
            exact, slope = tf.concat([exact[:rows] * mask, exact[rows:]], axis=0), slope * mask
        return Activation(exact, tf.cast(exact, self._low), slope, tf.reduce_sum(tf.abs(exact[:rows])))

    def _output_layer(
        self, below: tf.Tensor, slope: tf.Tensor | None, batch: Transition
    ) -> tuple[tf.Tensor, Delta, list[tf.Tensor]]:
        """Returns (action losses [A], delta of the layer below, gradients of the output layer).

        Without hidden layers, `below` are signed codes, the delta is that of the output, and there are no gradients.
        """
        kernel, bias = self._kernels[-1], self._biases[-1]
        logits = (product(below, kernel) if slope is None else tf.matmul(below, kernel)) + bias
        outputs = tf.split(tf.sigmoid(logits), 3 if self._dropouts else 2)  # [B, A] each
        learned, (q_tm1, q_t) = outputs[0], outputs[-2:]  # without dropout, `learned` is `q_tm1`
        target = targets.td_targets(q_tm1, q_t, batch.r_t, self._target_config)
        weights = targets.loss_weights(batch.a_tm1, self._target_config)
        scale = 2.0 / tf.cast(tf.shape(learned)[0], tf.float32)
        delta = scale * weights * (learned - target) * learned * (1.0 - learned)  # [B, A], gradient for the logits
        action_losses = targets.vector_loss(learned, target, weights)
        if slope is None:
            return action_losses, self._sized(delta), []
        known = below[: tf.shape(delta)[0]]
        gradients = [tf.matmul(known, delta, transpose_a=True), tf.reduce_sum(delta, axis=0)]
        return action_losses, self._delta(tf.matmul(delta, kernel, transpose_b=True), slope), gradients

    def _delta(self, gradient: tf.Tensor, slope: tf.Tensor) -> Delta:
        """Propagates the gradient for a hidden layer's output `[B, H]` through its activation."""
        return self._sized(tf.cast(gradient, tf.float32) * slope)

    def _sized(self, delta: tf.Tensor) -> Delta:
        return Delta(delta, tf.cast(delta, self._low), tf.reduce_sum(tf.abs(delta)))

    def _signed_deltas(self, delta: tf.Tensor, finite: tf.Tensor) -> tf.Tensor:
        """Returns float32 `[2 B, H]` for `kernel_gradient`; for gradient descent, times the learning rate."""
        step = tf.where(finite, (self._rate if self._descends else 1.0) * delta, 0.0)
        return tf.concat([step, -step], axis=0)

    def _descend(self, finite: tf.Tensor, gradients: list[tf.Tensor]) -> None:
        """Plain gradient descent on all but the first kernel."""
        variables = self._agent.network.trainable_variables[1:]
        for variable, gradient in zip(variables, gradients, strict=True):
            step = self._rate * tf.cast(gradient, tf.float32)
            variable.value.assign(tf.where(finite, variable.value - step, variable.value))
        iterations = self._agent.optimizer.iterations.value
        iterations.assign_add(tf.cast(finite, iterations.dtype))
        self.prepare()

    def _optimise(self, finite: tf.Tensor, gradients: list[tf.Tensor]) -> None:
        """Applies the agent's optimiser to all variables."""
        exact = [tf.cast(gradient, tf.float32) for gradient in gradients]

        def update() -> tf.Operation:
            self._agent.optimizer.apply(exact, self._agent.network.trainable_variables)
            return tf.no_op()

        tf.cond(finite, update, tf.no_op)
        self.prepare()


def _activation_of(network: keras.Model, layers: Sequence[keras.layers.Layer], loss: str) -> str:
    """Returns the activation of the hidden layers.

    Raises:
        InputError: `FusedLearner` cannot compute the network or the loss.
    """
    names = {layer.activation.__name__ for layer in layers[:-1]} or {"selu"}
    dropouts = [layer for layer in network.layers if isinstance(layer, keras.layers.Dropout)]
    hidden = [keras.layers.Dense, keras.layers.Dropout] if dropouts else [keras.layers.Dense]
    computed = [keras.layers.InputLayer, *hidden * len(layers[:-1]), keras.layers.Dense, Stack, Average]
    fits = [type(layer) for layer in network.layers] == computed and network.output_shape[-1] == NUM_ACTIONS
    if not fits or len(names) > 1 or not names <= ACTIVATIONS.keys() or loss != "squared":
        raise InputError(
            "--engine fused supports one network of SELU or ReLU layers with signed inputs, without probabilities, and "
            "the squared error: choose --engine compiled"
        )
    return names.pop()


def _compiled(function: Callable[..., Any]) -> Any:
    return tf.function(function, jit_compile=True, autograph=False)


def _unchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def product(signed_codes: tf.Tensor, kernel: tf.Variable) -> tf.Tensor:
    """Returns states times kernel, float32 `[N, H]`.

    Meant for XLA, which compiles it to one loop and reads the variable in place.

    Args:
        signed_codes: int32 `[N, W]`, W known when the graph is built.
        kernel: float32 `[E, H]`. Padding reads row 0 times 0, so if that row is not finite, no result is.
    """
    cells = tf.maximum(tf.abs(signed_codes) - 1, 0)
    signs = tf.cast(tf.sign(signed_codes), tf.float32)
    columns = range(signed_codes.shape[1])
    return tf.add_n([tf.gather(kernel, cells[:, w]) * signs[:, w, tf.newaxis] for w in columns])


def kernel_gradient(signed_codes: tf.Tensor, signed_deltas: tf.Tensor) -> tf.IndexedSlices:
    """Returns the gradient for the kernel: the rows that are not zero, each once, in no particular order.

    Args:
        signed_codes: int32 `[B, W]`.
        signed_deltas: float32 `[2 B, H]`, the gradient for the layer's output, then the same negated.
    """
    rows = tf.shape(signed_codes)[0]
    places = tf.where(signed_codes != 0)  # [N, 2]
    codes = tf.gather_nd(signed_codes, places)
    cells = tf.abs(codes) - 1
    ascending = tf.argsort(cells, stable=True)
    touched, segments = tf.unique(tf.gather(cells, ascending))
    sources = tf.gather(tf.cast(places[:, 0], tf.int32) + tf.where(codes < 0, rows, 0), ascending)
    sums = tf.raw_ops.SparseSegmentSum(data=signed_deltas, indices=sources, segment_ids=segments)
    return tf.IndexedSlices(sums, touched)
