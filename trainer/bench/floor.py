"""The speed of this machine, and the least time that a dense training step can take on it: see `step_floor`.

As a contestant (`python -m trainer.bench.floor`) it answers with rates instead of seconds.
"""

import itertools
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from trainer.bench import worker

BYTES = 4  # of a float32
# Gradient and weight are read, the weight is written; Adam also reads and writes two moments.
UPDATE_ACCESSES = {"sgd": 3, "adam": 7}
PRODUCT_SIZE, ARRAY_SIZE = 2048, 1 << 25


class Rates(NamedTuple):
    """The speed of the machine, by the fastest of several libraries."""

    products: float  # floating point operations a second, float32 matrix products of 2,048 cubed
    bandwidth: float  # bytes a second, read or written, in arrays much larger than the caches


class Floor(NamedTuple):
    """The least time that an optimisation with dense layers can take."""

    operations: int  # of the matrix products
    update_bytes: int  # bytes that the update reads and writes
    seconds: float


def dense_operations(sizes: Sequence[int], batch_size: int) -> int:
    """Returns the floating point operations of the matrix products of one optimisation.

    A product of `[B, n]` and `[n, m]` is 2 B n m. Every layer has one for s, one for s' and one for its kernel's
    gradient; all but the first have one more, for the gradient that goes on to the layer below.

    Args:
        sizes: E, the hidden layers, A.
        batch_size: B.
    """
    products = [first * second for first, second in itertools.pairwise(sizes)]
    return 2 * batch_size * (3 * sum(products) + sum(products[1:]))


def update_bytes(sizes: Sequence[int], algorithm: str) -> int:
    """Returns the least number of bytes that the optimiser's update reads and writes."""
    weights = sum((first + 1) * second for first, second in itertools.pairwise(sizes))
    return BYTES * UPDATE_ACCESSES[algorithm] * weights


def step_floor(sizes: Sequence[int], batch_size: int, algorithm: str, rates: Rates) -> Floor:
    """Returns the floor: the time of the matrix products, then of the update's memory traffic, and of nothing else."""
    operations, moved = dense_operations(sizes, batch_size), update_bytes(sizes, algorithm)
    return Floor(operations, moved, operations / rates.products + moved / rates.bandwidth)


def measure() -> Callable[[], Rates]:
    """Returns a function that measures the rates: products in NumPy, TensorFlow and XLA, sums in the latter two."""
    import numpy as np
    import tensorflow as tf

    matrix = np.random.default_rng(0).normal(size=(PRODUCT_SIZE, PRODUCT_SIZE)).astype(np.float32)
    tensor = tf.constant(matrix)
    array, other = tf.Variable(tf.zeros([ARRAY_SIZE])), tf.Variable(tf.ones([ARRAY_SIZE]))

    def add() -> None:
        array.assign_add(other)

    products = [lambda: matrix @ matrix, *_both(lambda: tf.matmul(tensor, tensor))]
    sums = _both(add)

    def rates() -> Rates:
        product, moved = min(_seconds(call) for call in products), min(_seconds(call) for call in sums)
        return Rates(2 * PRODUCT_SIZE**3 / product, 3 * BYTES * ARRAY_SIZE / moved)

    rates()  # compiles
    return rates


def _both(function: Callable[[], Any]) -> list[Callable[[], Any]]:
    import tensorflow as tf

    return [tf.function(function, autograph=False, jit_compile=compiled) for compiled in (False, True)]


def _seconds(call: Callable[[], Any]) -> float:
    """Returns the time of the fastest of three calls."""
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return min(taken)


def main() -> None:
    """Answers until standard input ends."""
    rates = measure()

    def respond(_: Mapping[str, Any]) -> dict[str, Any]:
        return {**rates()._asdict(), "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}

    worker.answer(respond)


if __name__ == "__main__":
    main()
