import pathlib

import pytest
import tensorflow as tf

from tests.builders import symptoms
from trainer.importing.anomalies import Findings, Kind
from trainer.importing.feature_schema import SchemaCheck, load_schema
from trainer.importing.record_check import RecordCheck
from trainer.importing.split_comparison import SplitTally

SCHEMA = pathlib.Path(__file__).resolve().parents[3] / "schemas" / "vignette.pbtxt"
VOCABULARY = symptoms(*"abcdef")


def serialized(vignette_id=b"v1", present=(b"a",), absent=(b"b",), decisions=(b"Red", b"Green")):
    result = tf.train.Example()
    for name, values in zip(
        ("vignette_id", "present", "absent", "decisions"), ([vignette_id], present, absent, decisions), strict=True
    ):
        result.features.feature[name].bytes_list.value.extend(values)
    return result.SerializeToString()


def check(tmp_path, records, name="train-00000-of-00001.tfrecord", cut=0):
    """Returns the anomalies as {kind: (count, first detail)}, the states that were yielded, and the tally."""
    shard = tmp_path / name
    with tf.io.TFRecordWriter(str(shard)) as writer:
        for record in records:
            writer.write(record)
    if cut:
        shard.write_bytes(shard.read_bytes()[:-cut])
    findings, tally = Findings(), SplitTally()
    checker = RecordCheck(VOCABULARY, SchemaCheck(load_schema(SCHEMA), findings), findings)
    states = [checked.state for checked in checker.records([shard], tally, lambda records, shard: records)]
    anomalies = {anomaly.kind: (anomaly.count, anomaly.examples[0][1]) for anomaly in findings.anomalies({})}
    return anomalies, states, tally


def test_a_sound_vignette_has_no_anomaly(tmp_path):
    anomalies, states, tally = check(tmp_path, [serialized(present=(b"f", b"a"), absent=(b"c",))])
    assert anomalies == {}
    assert states == [(-3, 1, 6)]
    assert tally.decisions.tolist() == [1, 0, 1, 0]
    assert set(tally.first_places) == {"a", "c", "f"}


@pytest.mark.parametrize(
    ("fields", "expected", "state"),
    [
        ({"decisions": ()}, {Kind.NO_DECISION: (1, ""), Kind.WRONG_COUNT: (1, "0, expected 1 or more")}, (-2, 1)),
        ({"decisions": (b"Blue",)}, {Kind.ONE_CLINICIAN: (1, "Blue")}, (-2, 1)),
        ({"decisions": (b"Red",) * 256}, {Kind.TOO_MANY_DECISIONS: (1, "256")}, (-2, 1)),
        ({"decisions": (b"Red",) * 255}, {}, (-2, 1)),
        ({"present": (), "absent": ()}, {Kind.NO_EVIDENCE: (1, "")}, None),
        ({"present": (b"a", b"c"), "absent": (b"c",)}, {Kind.CONTRADICTION: (1, "'c'")}, (1,)),
        ({"present": (b"a", b"a")}, {Kind.CODE_TWICE: (1, "'a'")}, (-2, 1)),
        ({"absent": (b"rash", b"b")}, {Kind.UNKNOWN_CODE: (1, "'rash'")}, (-2, 1)),
        ({"absent": (b"\xff", b"b")}, {Kind.UNKNOWN_CODE: (1, "'\\\\xff'")}, (-2, 1)),
    ],
)
def test_each_fault_of_a_vignette(tmp_path, fields, expected, state):
    result, states, _ = check(tmp_path, [serialized(**fields)])
    assert result == expected
    assert states == ([] if state is None else [state])


def test_the_second_vignette_of_an_id_is_the_anomaly(tmp_path):
    records = [serialized(b"v1"), serialized(b"v2"), serialized(b"v1")]
    anomalies, _, tally = check(tmp_path, records)
    assert anomalies == {Kind.DUPLICATE_ID: (1, "first at train-00000-of-00001.tfrecord record 1")}
    assert tally.vignettes == 3


def test_a_record_that_is_not_an_example_is_counted_and_passed_over(tmp_path):
    anomalies, states, tally = check(tmp_path, [b"\xff\xff", serialized()])
    assert anomalies[Kind.NO_EXAMPLE][0] == 1
    assert (len(states), tally.vignettes) == (1, 2)


def test_evidence_and_decisions_of_a_wrong_type_are_that_one_anomaly_each(tmp_path):
    example = tf.train.Example.FromString(serialized())
    for name in ("present", "decisions"):
        example.features.feature[name].int64_list.value.append(3)
    anomalies, states, _ = check(tmp_path, [example.SerializeToString()])
    assert anomalies == {Kind.WRONG_TYPE: (1, "int64_list, expected bytes_list")}  # one for each feature
    assert states == []


def test_a_cut_shard_is_named(tmp_path):
    anomalies, _, _ = check(tmp_path, [serialized(b"v1"), serialized(b"v2")], cut=5)
    count, detail = anomalies.pop(Kind.DAMAGED_SHARD)
    assert count == 1
    assert detail.startswith("record 2 is damaged, or the file ends within it")
    assert detail.endswith("; 1 records read")
    assert anomalies == {}


def test_a_shard_whose_name_is_wrong_about_gzip_is_named(tmp_path):
    anomalies, _, tally = check(tmp_path, [serialized()], name="train-00000-of-00001.tfrecord.gz")
    assert "the name ends in .gz, but the content is not gzip-compressed" in anomalies[Kind.DAMAGED_SHARD][1]
    assert tally.vignettes == 0
