"""Files of named arrays: what training writes is read back, and whatever else lies there is named in one line."""

import io
import zipfile

import numpy as np
import pytest

from schemas.errors import InputError
from tests.trainer.conftest import make_vignettes
from trainer.graph import mixture, novelty
from trainer.graph.operating_point import HeldOutOutputs
from trainer.training import set_apart
from trainer.training.job import HELD_OUT, NOVELTY, QUESTIONS, JobDirectory
from triage_runtime.storage import arrays_file

EVIDENCE = 3
KEPT = {
    QUESTIONS: mixture.Mixture(*(np.full(shape, 0.5, np.float32) for shape in ((2,), (2, 3), (2, 8), (2, 3)))),
    NOVELTY: novelty.Novelty(
        log_prior=np.log(np.array([0.25, 0.75], np.float32)),
        log_literals=np.arange(18, dtype=np.float32).reshape(6, 3),
        quantiles=np.array([[0, 1, 2], [3, 3, 4]], np.float32),
        moments=16,
        led=np.array([[0, 2, 2]], np.float32),
    ),
    HELD_OUT: HeldOutOutputs(
        *(np.linspace(0, 1, 3 * width, dtype=np.float32).reshape(3, width) for width in (5, 4)),
        np.array([2, 1]),
        np.array([[1, 0, 0, 0]] * 2, np.uint8),
    ),
}
READ = {
    QUESTIONS: lambda path: mixture.load(path, EVIDENCE),
    NOVELTY: lambda path: novelty.load(path, EVIDENCE),
    HELD_OUT: lambda path: JobDirectory(path.parent).held_out(),
    set_apart.FILE: lambda path: set_apart.read(path.parent),
}


@pytest.fixture
def path(tmp_path, name):
    if name in KEPT:
        arrays_file.write(tmp_path / name, KEPT[name]._asdict())
    else:
        nobody = set_apart.Seen(*np.zeros([2, 0], np.uint64))
        set_apart.prepare(tmp_path, make_vignettes([([1, -2], [3, 0, 0, 0])]), True, nobody)
    return tmp_path / name


@pytest.mark.parametrize("name", KEPT)
def test_what_is_written_is_read_back(path, name):
    for array, wanted in zip(READ[name](path), KEPT[name], strict=True):
        assert np.asarray(array).dtype == np.asarray(wanted).dtype
        np.testing.assert_array_equal(array, wanted)
    assert [entry.name for entry in path.parent.iterdir()] == [name]


def one_array_alone(_):
    content = io.BytesIO()
    np.save(content, np.arange(3))
    return content.getvalue()


def packed_by_lzma(_):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.npy", b"no array" * 99)
    return content.getvalue()


def damaged_lzma(_):
    content = packed_by_lzma(_)
    return content.replace(content[40:60], b"\xff" * 20)


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"PK",
        lambda content: b"log_prior,log_literals\n",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-30],
        one_array_alone,
        packed_by_lzma,
        damaged_lzma,
    ],
    ids=["empty", "two bytes", "text", "half", "cut short", "one array", "no array", "damaged LZMA"],
)
def test_other_bytes_than_were_written_are_reported_in_one_line(path, name, damage):
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=name) as error:
        READ[name](path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", KEPT)
def test_a_file_that_lacks_an_array_is_reported(path, name):
    _, *others = KEPT[name]._asdict().items()
    arrays_file.write(path, dict(others))
    with pytest.raises(InputError, match=name):
        READ[name](path)


@pytest.mark.parametrize(("name", "load"), [(QUESTIONS, mixture.load), (NOVELTY, novelty.load)])
def test_arrays_of_another_vocabulary_are_reported(path, name, load):
    with pytest.raises(InputError, match=f"{name}: .*another vocabulary"):
        load(path, EVIDENCE + 1)


@pytest.mark.parametrize("name", [NOVELTY])
def test_any_single_overwritten_byte_is_reported_or_harmless(path, name):
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            loaded = READ[name](path)
        except InputError:
            continue
        for before, after in zip(KEPT[name], loaded, strict=True):  # such as a byte of a date
            np.testing.assert_array_equal(before, after)
