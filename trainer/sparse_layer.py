"""The first layer on signed codes (`trainer.state`): a state's product with a kernel is a sum of few rows.

The mathematics is that of the dense layer; only the zeros are left out. The cost grows with the known pieces of
evidence, some eight a state, and not with E.
"""

import tensorflow as tf


def product(signed_codes: tf.Tensor, kernel: tf.Variable) -> tf.Tensor:
    """Returns states times kernel, float32 `[N, H]`.

    Meant to be compiled by XLA, which makes one loop of it and reads the variable in place.

    Args:
        signed_codes: int32 `[N, W]`, W known when the graph is built.
        kernel: float32 `[E, H]`; row 0 is finite, or all of the result is not: padding reads it, times 0.
    """
    cells = tf.maximum(tf.abs(signed_codes) - 1, 0)
    signs = tf.cast(tf.sign(signed_codes), tf.float32)
    columns = range(signed_codes.shape[1])
    return tf.add_n([tf.gather(kernel, cells[:, w]) * signs[:, w, tf.newaxis] for w in columns])


def kernel_gradient(signed_codes: tf.Tensor, signed_deltas: tf.Tensor) -> tf.IndexedSlices:
    """Returns the gradient of a loss by the kernel: the rows that are not zero, each once, in no particular order.

    Args:
        signed_codes: int32 `[B, W]`.
        signed_deltas: float32 `[2 B, H]`, the gradient by the layer's output, and below it the same negated.
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
