import pytest

from schemas.directories import shard_name, shard_parts


def test_shard_names_are_those_of_tensorflow_datasets():
    assert shard_name("train", 0, 1, compressed=False) == "train-00000-of-00001.tfrecord"
    assert shard_name("test", 12, 345, compressed=True) == "test-00012-of-00345.tfrecord.gz"


@pytest.mark.parametrize("parts", [("train", 0, 1, False), ("test", 99_998, 99_999, True)])
def test_a_shard_name_tells_its_parts(parts):
    assert shard_parts(shard_name(*parts)) == parts


@pytest.mark.parametrize(
    "name",
    [
        "stats.json",
        "dev-00000-of-00001.tfrecord",
        "train-0-of-1.tfrecord",
        "train-00000-of-00001.tfrecord.zip",
        "old-train-00000-of-00001.tfrecord",
        "train-00000-of-00001.tfrecord\n",
    ],
)
def test_other_names_are_no_shards(name):
    assert shard_parts(name) is None
