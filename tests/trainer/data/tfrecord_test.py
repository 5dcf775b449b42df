import re
import struct

import numpy as np
import pytest

from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.triage import Action
from tests.builders import data_directory_of
from tests.trainer.data.arrays_test import VIGNETTES as TRAIN
from tests.trainer.data.arrays_test import VOCABULARY
from trainer.data.arrays import ShardReader
from trainer.data.tfrecord import DataDirectory
from trainer.data.vignette import Vignette

TEST = [Vignette("v4", ("b",), (), (Action.GREEN,))]


@pytest.fixture
def directory(tmp_path):
    return data_directory_of(tmp_path / "data", VOCABULARY, TRAIN, TEST)


def error_of_reading(path):
    with pytest.raises(InputError) as raised:
        DataDirectory.open(path).read("train")
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_what_is_written_is_read_back(directory):
    for split, vignettes in (("train", TRAIN), ("test", TEST)):
        read = DataDirectory.open(directory).read(split)
        assert [read.vignette(row, VOCABULARY) for row in range(len(vignettes))] == vignettes


def test_shards_are_full_but_the_last_and_hold_the_records_in_order(directory):
    assert sorted(path.name for path in directory.glob("*.tfrecord")) == [
        "test-00000-of-00001.tfrecord",
        "train-00000-of-00002.tfrecord",
        "train-00001-of-00002.tfrecord",
    ]
    shards = (directory / f"train-0000{number}-of-00002.tfrecord" for number in range(2))
    ids = [ShardReader(VOCABULARY).read([shard]).vignette_ids.tolist() for shard in shards]
    assert ids == [["v1", "v2"], ["été"]]


def test_a_data_directory_gives_its_splits_vocabulary_and_fingerprint(directory):
    data = DataDirectory.open(directory)

    whole, nameless = data.read("train"), data.read("train", names=False)
    assert whole.vignette_ids.tolist() == ["v1", "v2", "été"]
    assert nameless.vignette_ids.tolist() == [""] * 3
    assert nameless.tags == ((),) * 3
    for column in ("offsets", "signed_codes", "decision_counts"):
        np.testing.assert_array_equal(getattr(nameless, column), getattr(whole, column))
    assert data.read("test").signed_codes.tolist() == [2]  # b is cell 1
    assert data.vocabulary == VOCABULARY
    assert data.data_fingerprint == "sha256:0"


def test_an_empty_split_has_no_shard_and_reads_as_empty_arrays(tmp_path):
    path = data_directory_of(tmp_path / "data", VOCABULARY, TRAIN, [])

    arrays = DataDirectory.open(path).read("test")

    assert not list(path.glob("test-*"))
    assert arrays.offsets.tolist() == [0]
    assert arrays.signed_codes.shape == (0,)
    assert arrays.decision_counts.shape == (0, 4)
    assert arrays.tags == ()


@pytest.mark.parametrize(
    "stats", ["", "[]", "{}", '{"splits": {"train": {"vignettes": "3"}}}', "[" * 100_000, '{"splits": 3}']
)
def test_other_stats_are_refused(directory, stats):
    (directory / "stats.json").write_text(stats)

    assert f"{directory / 'stats.json'}: " in error_of_reading(directory)


def end_between_two_records(shard):
    # A record is an 8-byte length, a 4-byte checksum, the data and another checksum.
    content = shard.read_bytes()
    shard.write_bytes(content[: struct.unpack("<Q", content[:8])[0] + 16])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda folder: folder.rename(folder.with_name("moved")), "data: .*triage prepare"),
        (lambda folder: (folder / "vocabulary.csv").unlink(), "vocabulary.csv .*triage prepare"),
        (lambda folder: (folder / "stats.json").unlink(), "stats.json .*triage prepare"),
        (
            lambda folder: Vocabulary([*VOCABULARY][::-1]).save(folder / "vocabulary.csv"),
            "vocabulary.csv: .*stats",
        ),
        (lambda folder: (folder / "train-00001-of-00002.tfrecord").unlink(), "1 of 2 .*train-00001-of-00002.tfrecord"),
        (lambda folder: (folder / "test-00000-of-00001.tfrecord").unlink(), "no shards .*test"),
        (lambda folder: (folder / "train-00000-of-00003.tfrecord").touch(), "different sets .*train"),
        (
            lambda folder: end_between_two_records(folder / "train-00000-of-00002.tfrecord"),
            "train .*2 .*stats.* 3",
        ),
    ],
)
def test_a_directory_that_is_not_whole_is_refused(directory, change, named):
    change(directory)

    assert re.search(named, error_of_reading(directory))
