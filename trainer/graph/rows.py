"""Products of a few known cells with a matrix, in less time than of all cells."""

import numpy as np
import tensorflow as tf


def sum_rows(known: tf.Tensor, matrix: np.ndarray) -> tf.Tensor:
    """Returns the product of `known` `[B, N]`, of 0 and 1, with a matrix `[N, M]`, by adding up rows: `[B, M]`."""
    places = tf.cast(tf.where(known > 0.5), tf.int32)  # not unstacked, as LiteRT refuses that for none
    return tf.math.unsorted_segment_sum(tf.gather(matrix, places[:, 1]), places[:, 0], tf.shape(known)[0])
