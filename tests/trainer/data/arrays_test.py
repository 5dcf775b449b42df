import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from schemas.triage import Action
from tests.builders import arrays_of, symptoms
from trainer.data import tfrecord
from trainer.data.arrays import ShardReader
from trainer.data.tfrecord import encode_example
from trainer.data.vignette import Vignette

VOCABULARY = symptoms(*"abcdef")
VIGNETTES = [
    Vignette("v1", ("c", "a"), ("f",), (Action.RED, Action.RED, Action.GREEN), tags=("heart",)),
    Vignette("v2", (), ("b",), (Action.BLUE,)),
    Vignette("été", ("d", "e", "f"), (), (Action.YELLOW,) * 255, tags=("heart", "child")),
]


def write_shards(directory, vignettes):
    """Writes shards of two vignettes each, and returns their paths."""
    tfrecord.write_shards(directory, "train", list(map(encode_example, vignettes)), 2)
    return sorted(directory.glob("train-*"))


def write_records(path, *records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return path


def damage(path, change):
    path.write_bytes(change(path.read_bytes()))


def error_of_reading(shards):
    with pytest.raises(InputError) as raised:
        ShardReader(VOCABULARY).read(shards)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_shards_are_read_into_compressed_sparse_rows(tmp_path):
    arrays = ShardReader(VOCABULARY).read(write_shards(tmp_path, VIGNETTES))

    assert arrays.vignette_ids.tolist() == ["v1", "v2", "été"]
    assert arrays.offsets.tolist() == [0, 3, 4, 7]
    assert arrays.offsets.dtype == np.int64
    # a..f are cells 0..5; present c, a = 3, 1 and absent f = -6; absent b = -2; present d, e, f = 4, 5, 6
    assert arrays.signed_codes.tolist() == [3, 1, -6, -2, 4, 5, 6]
    assert arrays.signed_codes.dtype == np.int16
    assert arrays.decision_counts.tolist() == [[2, 0, 1, 0], [0, 0, 0, 1], [0, 255, 0, 0]]
    assert arrays.decision_counts.dtype == np.uint8
    assert arrays.tags == (("heart",), (), ("heart", "child"))


@pytest.mark.parametrize(("codes", "dtype"), [(32_766, np.int16), (32_767, np.int32)])
def test_the_last_code_of_a_large_vocabulary_keeps_its_sign(tmp_path, codes, dtype):
    vocabulary = Vocabulary(Evidence(f"c{i}", "symptom", "n", "q") for i in range(codes))
    vignette = Vignette("v", (f"c{codes - 1}",), (f"c{codes - 2}",), (Action.RED,))

    arrays = ShardReader(vocabulary).read(write_shards(tmp_path, [vignette]))

    assert arrays.signed_codes.dtype == dtype
    assert arrays.signed_codes.tolist() == [codes, -(codes - 1)]


def _flip(content, place):
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize(
    "change",
    # The last byte belongs to the last of 5,000 records, which are two batches.
    [lambda content: content[:-1], lambda content: _flip(content, -6)],
    ids=["cut", "one bit"],
)
def test_a_damaged_record_is_named_by_its_number(tmp_path, change):
    records = [encode_example(dataclasses.replace(VIGNETTES[0], vignette_id=f"v{i}")) for i in range(5000)]
    shard = write_records(tmp_path / "train-00000-of-00001.tfrecord", *records)
    damage(shard, change)

    assert error_of_reading([shard]).startswith(f"{shard}: record 5000 ")


@pytest.mark.parametrize(
    ("vignette", "message"),
    [
        (Vignette("v", ("zzz",), (), (Action.RED,)), "'zzz' "),
        (Vignette("v", (), ("zzz",), (Action.RED,)), "'zzz' "),
        (Vignette("v", (), (), (Action.RED,)), "vignette 'v' .*no evidence"),
        (Vignette("v", ("a",), (), ()), "vignette 'v' .*no decision"),
        (Vignette("v", ("a",), (), (Action.RED,) * 256), "vignette 'v' .*255"),
        (Vignette("v", ("b", "a", "b"), (), (Action.RED,)), "vignette 'v' .*twice"),
        (Vignette("v", ("a",), ("a",), (Action.RED,)), "vignette 'v' .*twice"),
    ],
)
def test_an_example_that_prepare_would_not_write_is_named(tmp_path, vignette, message):
    assert re.search(f"record 2: {message}", error_of_reading(write_shards(tmp_path, [VIGNETTES[0], vignette])))


def _of_another_decision():
    example = tf.train.Example.FromString(encode_example(VIGNETTES[1]))
    example.features.feature["decisions"].bytes_list.value[0] = b"Orange"
    return example.SerializeToString()


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (_of_another_decision(), ": 'Orange' "),
        (b"\xff\xff", " .*tf.Example"),
        (b"text", " .*tf.Example"),
        (tf.train.Example().SerializeToString(), " .*tf.Example"),
    ],
)
def test_a_record_that_is_not_a_vignette_is_named_by_its_number(tmp_path, record, message):
    good = [encode_example(VIGNETTES[0])] * 4150  # the second batch
    shard = write_records(tmp_path / "train-00000-of-00001.tfrecord", *good, record, *good[:50])

    assert re.match(f"{shard}: record 4151{message}", error_of_reading([shard]))


def _arrays(*rows):
    """Vignettes from (signed codes, tags) rows; each has as many Red decisions as pieces of evidence."""
    return arrays_of([[len(codes), 0, 0, 0] for codes, _ in rows], *zip(*rows, strict=True))


def _rows(arrays):
    rows = zip(arrays.offsets[:-1], arrays.offsets[1:], strict=True)
    codes = [arrays.signed_codes[start:end].tolist() for start, end in rows]
    return list(zip(codes, arrays.decision_counts[:, 0].tolist(), arrays.tags, strict=True))


A, B, C = ([1, -2], ("x",)), ([3], ()), ([-4, 5, 6], ("y", "z"))


def test_joined_vignettes_keep_their_own_evidence_and_tags():
    joined = _arrays(A, B).joined(_arrays(C))
    assert _rows(joined) == [([1, -2], 2, ("x",)), ([3], 1, ()), ([-4, 5, 6], 3, ("y", "z"))]
    assert joined.vignette_ids.tolist() == ["v0", "v1", "v0"]


def test_chosen_vignettes_come_in_the_order_asked_for():
    chosen = _arrays(A, B, C).select(np.array([2, 0]))
    assert _rows(chosen) == [([-4, 5, 6], 3, ("y", "z")), ([1, -2], 2, ("x",))]
    assert chosen.vignette_ids.tolist() == ["v2", "v0"]
