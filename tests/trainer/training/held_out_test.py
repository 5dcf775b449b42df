"""What a run leaves behind of held-out vignettes, read back."""

import numpy as np
import pytest

from schemas.errors import InputError
from trainer.graph.operating_point import HeldOutOutputs
from trainer.training import held_out

OUTPUTS = HeldOutOutputs(
    *(np.linspace(0, 1, 3 * width, dtype=np.float32).reshape(3, width) for width in (5, 4)),
    np.array([2, 1]),
    np.array([[1, 0, 0, 0]] * 2, np.uint8),
)


def test_what_is_written_is_read_back(tmp_path):
    held_out.write(tmp_path, OUTPUTS)
    for array, wanted in zip(held_out.read(tmp_path), OUTPUTS, strict=True):
        assert array.dtype == wanted.dtype
        np.testing.assert_array_equal(array, wanted)


def test_without_a_file_there_are_no_outputs(tmp_path):
    held_out.remove(tmp_path)  # nothing to remove is no error
    assert held_out.read(tmp_path) is None
    held_out.write(tmp_path, OUTPUTS)
    held_out.remove(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"PK", b"nothing"])
def test_damaged_outputs_are_named(tmp_path, content):
    (tmp_path / held_out.FILE).write_bytes(content)
    with pytest.raises(InputError, match=r"held_out\.npz: damaged: train again"):
        held_out.read(tmp_path)
