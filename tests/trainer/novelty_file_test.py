"""The file novelty.npz: it comes back as it was, and damage of any kind is one line that says what to do."""

import io

import numpy as np
import pytest

from schemas.errors import InputError
from trainer import novelty_file
from trainer.novelty import Novelty

EVIDENCE = 3
NOVELTY = Novelty(
    log_prior=np.log(np.array([0.25, 0.75], np.float32)),
    log_literals=np.arange(18, dtype=np.float32).reshape(6, 3),
    quantiles=np.array([[0, 1, 2], [3, 3, 4]], np.float32),
    moments=16,
)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "novelty.npz"
    novelty_file.save(NOVELTY, path)
    return path


def test_statistics_come_back_from_their_file_which_stands_alone(path):
    loaded = novelty_file.load(path, EVIDENCE)
    assert loaded.moments == 16
    for before, after in zip(NOVELTY, loaded, strict=True):
        np.testing.assert_array_equal(before, after)
    assert [entry.name for entry in path.parent.iterdir()] == ["novelty.npz"]


def array_file():
    content = io.BytesIO()
    np.save(content, np.zeros(3))
    return content.getvalue()


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"log_prior,log_literals\n",
        lambda content: content[: len(content) // 2],
        lambda content: content[:60] + bytes(20) + content[80:],
        lambda content: array_file(),
        lambda content: content.replace(b"quantiles.npy", b"quantilez.npy"),
    ],
    ids=["empty", "text", "cut short", "overwritten", "one array", "without quantiles"],
)
def test_other_bytes_than_were_written_are_one_line(path, damage):
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"novelty\.npz: not the statistics .* delete the file, and give the") as error:
        novelty_file.load(path, EVIDENCE)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"log_prior": np.zeros([2, 1], np.float32)}, r"log_prior has the shape \[2, 1\], not \[2\]"),
        ({"log_literals": np.zeros([8, 3], np.float32)}, r"log_literals has the shape \[8, 3\], not \[6, 3\]"),
        ({"quantiles": np.zeros([0, 3], np.float32)}, r"quantiles has the shape \[0, 3\], not \[N, Q\]"),
        ({"quantiles": np.array([[2, 1]], np.float32)}, "quantiles do not ascend"),
        ({"log_prior": np.array([np.nan, 0], np.float32)}, "log_prior is not float32 throughout, and finite"),
        ({"log_literals": np.zeros([6, 3], np.float64)}, "log_literals is not float32 throughout, and finite"),
        ({"moments": 0}, "moments is not above 0"),
    ],
)
def test_arrays_that_cannot_be_of_this_vocabulary_are_told(path, change, fault):
    novelty_file.save(NOVELTY._replace(**change), path)
    with pytest.raises(InputError, match=fault):
        novelty_file.load(path, EVIDENCE)


def test_any_single_overwritten_byte_is_told_or_harmless(path):
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            loaded = novelty_file.load(path, EVIDENCE)
        except InputError:
            continue
        for before, after in zip(NOVELTY, loaded, strict=True):  # such as a byte of a date
            np.testing.assert_array_equal(before, after)
