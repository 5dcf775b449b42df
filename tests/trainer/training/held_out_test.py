"""What a run leaves behind of held-out vignettes, read back."""

import numpy as np
import pytest

from schemas.errors import InputError
from trainer.graph.decide import NEUTRAL, OperatingPoint
from trainer.graph.operating_point import HeldOutOutputs
from trainer.training import held_out

OUTPUTS = HeldOutOutputs(
    np.linspace(0, 1, 93, dtype=np.float32).reshape(3, 31), np.array([2, 1]), np.array([[1, 0, 0, 0]] * 2, np.uint8)
)


@pytest.mark.parametrize("point", [OperatingPoint(2.5, 0.9), OperatingPoint(0.0, None, 0.008)])
def test_what_is_written_is_read_back(tmp_path, point):
    held_out.write(tmp_path, OUTPUTS, point)
    assert held_out.read_operating_point(tmp_path) == point
    for array, wanted in zip(held_out.read(tmp_path), OUTPUTS, strict=True):
        assert array.dtype == wanted.dtype
        np.testing.assert_array_equal(array, wanted)


def test_without_files_there_are_no_outputs_and_the_operating_point_is_neutral(tmp_path):
    held_out.remove(tmp_path)  # nothing to remove is no error
    assert held_out.read(tmp_path) is None
    assert held_out.read_operating_point(tmp_path) == NEUTRAL
    held_out.write(tmp_path, OUTPUTS, OperatingPoint(1.0))
    held_out.remove(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"PK", b"nothing"])
def test_damaged_outputs_are_named(tmp_path, content):
    (tmp_path / held_out.FILE).write_bytes(content)
    with pytest.raises(InputError, match=r"held_out\.npz: damaged: train again"):
        held_out.read(tmp_path)


@pytest.mark.parametrize(("content", "message"), [("{", "not valid JSON"), ('{"weight": 1}', "expected safety_weight")])
def test_a_damaged_operating_point_is_named(tmp_path, content, message):
    (tmp_path / held_out.OPERATING_POINT).write_text(content)
    with pytest.raises(InputError, match=rf"operating_point\.json: {message}"):
        held_out.read_operating_point(tmp_path)
