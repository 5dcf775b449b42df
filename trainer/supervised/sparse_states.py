"""Vignettes as a sparse matrix, for scikit-learn."""

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse

if TYPE_CHECKING:  # a script that only brings arrays needs no TensorFlow
    from trainer.vignettes.arrays import VignetteArrays


def sparse_states(arrays: "VignetteArrays", codes: int) -> scipy.sparse.csr_matrix:
    """Returns the state of each vignette's whole evidence, see `trainer.state`.

    Args:
        arrays: V vignettes; one without evidence is a row of zeros.
        codes: E, the number of codes of the vocabulary.

    Returns:
        float32 `[V, E]` in {-1, 0, 1}; zeros are not stored, columns ascend within a row.
    """
    cells = np.abs(arrays.signed_codes.astype(np.int32)) - 1
    signs = np.sign(arrays.signed_codes).astype(np.float32)
    states = scipy.sparse.csr_matrix((signs, cells, arrays.offsets), shape=(len(arrays.offsets) - 1, codes))
    states.sort_indices()
    return states
