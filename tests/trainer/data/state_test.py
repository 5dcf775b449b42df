"""Evidence to state vectors: codes, signed codes, padding, and codes that cannot be placed."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf

from tests.builders import arrays_of, symptoms
from trainer.data import state

VOCABULARY = symptoms("cough", "fever", "rash", "pain")
STATES = st.lists(st.lists(st.sampled_from((-1, 0, 1)), min_size=4, max_size=4).map(tuple), min_size=1, max_size=5).map(
    lambda rows: np.array(rows, np.float32)
)
QUICK = hypothesis.settings(max_examples=40, deadline=None)


@pytest.fixture(scope="module")
def lookup():
    cells = tf.lookup.KeyValueTensorInitializer(tf.constant(VOCABULARY.codes), tf.range(4, dtype=tf.int64))
    return tf.lookup.StaticHashTable(cells, default_value=-1).lookup


def encode(present, absent, lookup):
    encoded = state.from_codes(tf.constant(present, tf.string), tf.constant(absent, tf.string), lookup, 4)
    return (
        encoded.states.numpy().tolist(),
        [[code.decode() for code in row] for row in encoded.unknown_codes.numpy()],
        [[code.decode() for code in row] for row in encoded.conflicting_codes.numpy()],
    )


def sparse(rows, evidence_count):
    return state.sparse_states(arrays_of([[1, 0, 0, 0]] * len(rows), rows), evidence_count)


def test_signed_codes_are_cells_from_one_with_the_sign_of_the_evidence():
    signed_codes = tf.constant([[4, -1, 0], [0, 0, 0], [0, -3, 0]])
    expected = [[-1, 0, 0, 1], [0, 0, 0, 0], [0, 0, -1, 0]]
    assert state.from_signed_codes(signed_codes, 4).numpy().tolist() == expected


@QUICK
@hypothesis.given(states=STATES, order=st.permutations(range(4)))
def test_codes_in_any_order_lead_to_the_state_they_describe(lookup, states, order):
    present = [[VOCABULARY.codes[cell] if row[cell] > 0 else "" for cell in order] for row in states]
    absent = [[VOCABULARY.codes[cell] if row[cell] < 0 else "" for cell in order] for row in states]
    encoded, unknown, conflicting = encode(present, absent, lookup)
    np.testing.assert_array_equal(encoded, states)
    assert unknown == conflicting == [[]] * len(states)


@pytest.mark.parametrize(
    ("present", "absent", "states", "unknown", "conflicting"),
    [
        ([["cough", ""]], [["pain", ""]], [[1, 0, 0, -1]], [[]], [[]]),
        ([["cough", "cough"]], [["", ""]], [[1, 0, 0, 0]], [[]], [[]]),
        ([["gout", "cough"]], [["lupus"]], [[1, 0, 0, 0]], [["gout", "lupus"]], [[]]),
        ([["rash", "fever"]], [["fever"]], [[0, 0, 1, 0]], [[]], [["fever"]]),
        ([["gout"]], [["gout"]], [[0, 0, 0, 0]], [["gout", "gout"]], [[]]),
        ([[], []], [[], []], [[0] * 4] * 2, [[], []], [[], []]),
        ([["gout"], ["rash"]], [[""], [""]], [[0] * 4, [0, 0, 1, 0]], [["gout"], [""]], [[], []]),
    ],
    ids=["known", "repeated", "unknown", "conflict", "unknown twice", "nothing", "padded reports"],
)
def test_codes_without_a_place_leave_their_cell_zero_and_are_listed(
    present, absent, states, unknown, conflicting, lookup
):
    assert encode(present, absent, lookup) == (states, unknown, conflicting)


def test_an_empty_batch_has_no_states(lookup):
    nothing = tf.zeros([0, 3], tf.string)
    assert state.from_codes(nothing, nothing, lookup, 4).states.shape == (0, 4)


def test_sparse_states_hold_the_sign_of_their_evidence_and_an_empty_set_is_a_row_of_zeros():
    states = sparse([[3, -1], [], [-4]], 5)

    assert scipy.sparse.isspmatrix_csr(states)
    # Code 3 is cell 2, code -1 is cell 0, code -4 is cell 3.
    assert states.toarray().tolist() == [[-1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, -1, 0]]
    assert states.nnz == 3


def test_sparse_states_have_the_types_that_every_classifier_takes():
    states = sparse([[3, -1], []], 5)

    assert states.dtype == np.float32
    # Some of scikit-learn's solvers refuse 64-bit indices.
    assert (states.indices.dtype, states.indptr.dtype) == (np.int32, np.int32)
    assert states.has_sorted_indices


def test_the_last_code_of_a_large_vocabulary_keeps_its_cell():
    rows = arrays_of([[1, 0, 0, 0]], [[-1]])._replace(signed_codes=np.array([-40_000]))
    assert state.sparse_states(rows, 40_000)[0, 39_999] == -1


def test_codes_become_signed_codes():
    assert state.signed_codes(("rash",), ("pain", "cough"), VOCABULARY) == [3, -4, -1]
