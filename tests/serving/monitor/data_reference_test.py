"""A data directory's training split as what served cases are compared with."""

import pytest
import tensorflow as tf

from schemas import directories
from schemas.errors import InputError
from serving.monitor.data_reference import read_reference


def example(present, absent):
    values = {"present": present, "absent": absent, "decisions": ["Red"], "vignette_id": ["v"]}
    feature = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode() for text in texts]))
        for name, texts in values.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write(path, *records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


def test_every_training_vignette_counts_and_no_other(tmp_path):
    write(tmp_path / directories.shard_name("train", 0, 2), example(["fever", "rash"], ["cough"]))
    records = example(["fever"], []), example([], ["rash"])
    write(tmp_path / directories.shard_name("train", 1, 2), *records)
    write(tmp_path / directories.shard_name("test", 0, 1), example(["gout"], []))
    reference = read_reference(tmp_path)
    assert reference.cases == 3
    assert reference.present == {"fever": 2, "rash": 1}
    assert reference.absent == {"cough": 1, "rash": 1}
    assert (reference.urgencies, reference.pieces) == ({}, {})


def test_what_is_not_a_data_directory_is_reported(tmp_path):
    with pytest.raises(InputError, match="no training shards"):
        read_reference(tmp_path)
    with pytest.raises(InputError, match="cannot read"):
        read_reference(tmp_path / "missing")
    name = directories.shard_name("train", 0, 1)
    write(tmp_path / name)
    with pytest.raises(InputError, match="no vignettes"):
        read_reference(tmp_path)
    (tmp_path / name).write_bytes(b"damaged beyond repair")
    with pytest.raises(InputError, match=f"{name}: not a shard of vignettes"):
        read_reference(tmp_path)
