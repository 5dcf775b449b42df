import pytest

from schemas.directories import shard_name, shard_parts, version_number


@pytest.mark.parametrize("parts", [("train", 0, 1), ("test", 99_998, 99_999)])
def test_a_shard_name_has_its_parts(parts):
    assert shard_parts(shard_name(*parts)) == parts


@pytest.mark.parametrize(
    "name",
    [
        "stats.json",
        "dev-00000-of-00001.tfrecord",
        "train-0-of-1.tfrecord",
        "train-00000-of-00001.tfrecord.gz",
        "old-train-00000-of-00001.tfrecord",
        "train-00000-of-00001.tfrecord\n",
    ],
)
def test_other_names_are_no_shards(name):
    assert shard_parts(name) is None


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("3", 3),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("latest", None),
        ("-1", None),
        ("\u0663", None),  # a digit, but not an ASCII one
    ],
)
def test_a_version_is_a_64_bit_number(name, number):
    assert version_number(name) == number
