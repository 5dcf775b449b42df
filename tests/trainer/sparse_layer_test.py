"""The sparse first layer against the dense product that it stands for."""

import numpy as np
import tensorflow as tf

from trainer import sparse_layer, state

EVIDENCE_COUNT, WIDTH, UNITS = 12, 5, 3


def _codes(rows, seed=0):
    """Random signed codes, 0 to WIDTH a row, padding in between as well as behind."""
    generator = np.random.default_rng(seed)
    codes = np.zeros([rows, WIDTH], np.int32)
    for row in codes:
        count = generator.integers(0, WIDTH + 1)
        places = generator.permutation(WIDTH)[:count]
        row[places] = (generator.permutation(EVIDENCE_COUNT)[:count] + 1) * generator.choice([-1, 1], count)
    return tf.constant(codes)


def test_product_is_that_of_the_dense_states():
    kernel = tf.Variable(np.random.default_rng(1).normal(size=(EVIDENCE_COUNT, UNITS)).astype(np.float32))
    codes = _codes(40)
    dense = tf.matmul(state.from_signed_codes(codes, EVIDENCE_COUNT), kernel)
    np.testing.assert_allclose(sparse_layer.product(codes, kernel), dense, atol=1e-6)


def test_product_of_a_state_worked_out_by_hand():
    kernel = tf.Variable([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
    # Evidence 2 present, evidence 0 absent: 4 - 1 and 40 - 10.
    np.testing.assert_array_equal(sparse_layer.product(tf.constant([[3, 0, -1], [0, 0, 0]]), kernel), [[3, 30], [0, 0]])


def test_kernel_gradient_is_that_of_the_dense_product():
    codes = _codes(40)
    deltas = tf.constant(np.random.default_rng(2).normal(size=(40, UNITS)).astype(np.float32))
    rows = sparse_layer.kernel_gradient(codes, tf.concat([deltas, -deltas], axis=0))
    assert len(set(rows.indices.numpy().tolist())) == len(rows.indices)
    found = np.zeros([EVIDENCE_COUNT, UNITS], np.float32)
    found[rows.indices.numpy()] = rows.values
    expected = tf.matmul(state.from_signed_codes(codes, EVIDENCE_COUNT), deltas, transpose_a=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_kernel_gradient_leaves_rows_out_that_no_state_touches():
    deltas = tf.constant([[1.0], [2.0], [-1.0], [-2.0]])
    rows = sparse_layer.kernel_gradient(tf.constant([[4, 0], [-4, 2]]), deltas)
    # Evidence 3 is present in row 0 and absent in row 1: 1 - 2; evidence 1 is present in row 1: 2.
    assert dict(zip(rows.indices.numpy().tolist(), rows.values.numpy()[:, 0].tolist(), strict=True)) == {3: -1, 1: 2}


def test_kernel_gradient_of_empty_states_is_empty():
    rows = sparse_layer.kernel_gradient(tf.zeros([2, 4], tf.int32), tf.ones([4, UNITS]))
    assert rows.values.shape == [0, UNITS]
