import numpy as np
import scipy.sparse

from trainer.supervised.sparse_states import sparse_states
from trainer.vignettes.arrays import VignetteArrays


def arrays_of(rows, dtype=np.int16):
    """Returns vignettes from their signed codes."""
    return VignetteArrays(
        vignette_ids=np.array([f"v{number}" for number in range(len(rows))], object),
        offsets=np.cumsum([0] + [len(row) for row in rows], dtype=np.int64),
        signed_codes=np.array([code for row in rows for code in row], dtype),
        decision_counts=np.ones([len(rows), 4], np.uint8),
        tags=((),) * len(rows),
    )


def test_cells_hold_the_sign_of_their_evidence_and_an_empty_set_is_a_row_of_zeros():
    states = sparse_states(arrays_of([[3, -1], [], [-4]]), 5)

    assert scipy.sparse.isspmatrix_csr(states)
    # Code 3 is cell 2, code -1 is cell 0, code -4 is cell 3.
    assert states.toarray().tolist() == [[-1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, -1, 0]]
    assert states.nnz == 3


def test_the_types_are_those_that_every_classifier_takes():
    states = sparse_states(arrays_of([[3, -1], []]), 5)

    assert states.dtype == np.float32
    # Some of scikit-learn's solvers refuse 64-bit indices.
    assert (states.indices.dtype, states.indptr.dtype) == (np.int32, np.int32)
    assert states.has_sorted_indices


def test_the_last_code_of_a_large_vocabulary_keeps_its_cell():
    states = sparse_states(arrays_of([[-40_000]], np.int32), 40_000)

    assert states[0, 39_999] == -1


def test_no_vignettes_are_a_matrix_of_no_rows():
    assert sparse_states(arrays_of([]), 5).shape == (0, 5)


def test_the_vignettes_are_left_as_they_are():
    arrays = arrays_of([[3, -1], [2, 1]])
    sparse_states(arrays, 5)

    assert arrays.signed_codes.tolist() == [3, -1, 2, 1]
