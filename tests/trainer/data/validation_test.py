"""A data directory may come from another program, may have been copied in part, or may repeat itself."""

import json

import pytest
import tensorflow as tf

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from schemas.triage import Action
from tests.builders import data_directory_of, symptoms
from trainer.data.validation import EXAMPLES, Place, validate
from trainer.data.validation import AnomalyKind as Kind
from trainer.data.vignette import Vignette

TEMPERATURE = Evidence("i", "symptom", "Fever", "Fever?", band="temperature >=38 <45 °C")
VOCABULARY = Vocabulary([*symptoms(*"abcdefgh"), TEMPERATURE])
DECISIONS = (Action.RED, Action.GREEN)
TRAIN = [Vignette("v1", ("a", "b", "c", "d"), ("e",), DECISIONS), Vignette("v2", ("f", "g"), ("h",), DECISIONS)]
TEST = [Vignette("v3", ("a", "h"), (), DECISIONS)]
SHARD = "train-00000-of-00001.tfrecord"


def write(path, train, test, shard_size=2):
    return data_directory_of(path, VOCABULARY, train, test, shard_size)


@pytest.fixture
def directory(tmp_path):
    return write(tmp_path / "data", TRAIN, TEST)


def anomalies_of(path):
    """The anomalies by their kind, but for the size of such small splits."""
    return {each.kind: each for each in validate(path).anomalies if each.kind is not Kind.WEAK_SPLIT}


def example(vignette_id=(b"v9",), present=(b"a",), absent=(b"b",), decisions=(b"Red", b"Green"), **others):
    """The bytes of a tf.Example; None is a feature without any list."""
    given = {"vignette_id": vignette_id, "present": present, "absent": absent, "decisions": decisions, **others}
    result = tf.train.Example()
    for name, values in given.items():
        feature = result.features.feature[name]
        if values is not None:
            numbers = bool(values) and isinstance(values[0], int)
            (feature.int64_list if numbers else feature.bytes_list).value.extend(values)
    return result.SerializeToString()


def faults_of(directory, *records):
    """The kinds, numbers and details of what is wrong with these records beside two good ones."""
    path = directory / SHARD
    before = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in (*before, *records):
            writer.write(record)
    anomalies = anomalies_of(directory)
    anomalies.pop(Kind.WRONG_NUMBER)
    return {kind: (each.count, [detail for _, detail in each.examples]) for kind, each in anomalies.items()}


def test_a_sound_directory_is_only_warned_about_its_size(directory):
    report = validate(directory)
    assert [(each.kind, each.count) for each in report.anomalies] == [(Kind.WEAK_SPLIT, 5)]  # few; no Yellow, no Blue
    assert report.vignettes == {"train": 2, "test": 1}
    assert [report.count(severity) for severity in ("error", "warning")] == [0, 1]


@pytest.mark.parametrize(
    "more", [{"tags": (b"heart",)}, {"tags": ()}, {"age": (40,)}, {"absent": (b"a", b"b"), "present": ()}]
)
def test_what_triage_prepare_writes_fits_the_schema(directory, more):
    assert faults_of(directory, example(**more)) == {}


@pytest.mark.parametrize(
    ("change", "kind", "details"),
    [
        ({"present": (7,)}, Kind.SCHEMA, ["present", "int64_list", "bytes_list"]),
        ({"absent": None}, Kind.SCHEMA, ["absent", "missing"]),
        ({"vignette_id": (b"v1", b"v2")}, Kind.SCHEMA, ["vignette_id", "2"]),
        ({"vignette_id": ()}, Kind.SCHEMA, ["vignette_id", "0"]),
        ({"decisions": ()}, Kind.NO_VIGNETTE, ["decisions"]),
        ({"decisions": (b"Red", b"red")}, Kind.NO_VIGNETTE, ["'red'"]),
        ({"decisions": (b"Red",) * 256}, Kind.NO_VIGNETTE, ["decisions", "256"]),
        ({"present": (), "absent": ()}, Kind.NO_VIGNETTE, ["no evidence"]),
        ({"present": (b"a", b"c"), "absent": (b"c",)}, Kind.NO_VIGNETTE, ["'c'", "present and absent"]),
        ({"present": (b"a", b"a")}, Kind.NO_VIGNETTE, ["present", "'a'", "2"]),
        ({"absent": (b"rash",)}, Kind.NO_VIGNETTE, ["'rash'"]),
        ({"absent": (b"\xff",)}, Kind.NO_VIGNETTE, [r"\\xff"]),
        ({"present": (b"temperature=39",)}, Kind.NO_VIGNETTE, ["'temperature'"]),  # only vignette files have these
        ({"vignette_id": (b"v1",)}, Kind.DUPLICATE_ID, [f"{SHARD} record 1"]),
        ({"vignette_id": (b"v3",)}, Kind.DUPLICATE_ID, ["test-00000-of-00001.tfrecord record 1"]),
    ],
)
def test_each_fault_of_a_record(directory, change, kind, details):
    [(found, (count, [text]))] = faults_of(directory, example(**change)).items()
    assert (found, count) == (kind, 1)
    assert [detail for detail in details if detail not in text] == []


def test_a_record_that_is_no_example_does_not_end_the_check(directory):
    faults = faults_of(directory, b"\xff\xff", example(absent=(b"rash",)))
    assert {kind: count for kind, (count, _) in faults.items()} == {Kind.NO_EXAMPLE: 1, Kind.NO_VIGNETTE: 1}


def test_all_are_counted_and_the_first_five_keep_their_place(directory):
    faults_of(directory, *[example((b"w%d" % number,), absent=(b"rash",)) for number in range(8)])
    anomaly = anomalies_of(directory)[Kind.NO_VIGNETTE]
    assert anomaly.count == 8
    assert [place for place, _ in anomaly.examples] == [
        Place(SHARD, 3 + number, f"w{number}") for number in range(EXAMPLES)
    ]
    written = json.loads(json.dumps(anomaly.to_dict()))
    assert (written["severity"], written["count"], len(written["examples"])) == ("error", 8, EXAMPLES)
    assert str(anomaly).splitlines()[-2:] == ["    ... and 3 more", f"    -> {Kind.NO_VIGNETTE.advice}"]


def test_an_id_with_control_characters_does_not_reach_the_terminal():
    assert str(Place("f", 1, "a\x1b[2J")) == "f record 1 ('a\\x1b[2J')"


@pytest.mark.parametrize(
    ("present", "absent", "same"),
    [
        (("a", "b", "c", "d"), ("e",), "v1"),
        (("g", "f"), ("h",), "v2"),  # in another order
        (("a", "b", "c", "d"), (), None),  # one piece less
        (("f", "g", "h"), (), None),  # there absent, here present
    ],
)
def test_a_test_vignette_with_the_evidence_of_a_training_vignette(tmp_path, present, absent, same):
    anomalies = anomalies_of(write(tmp_path / "data", TRAIN, [*TEST, Vignette("t", present, absent, DECISIONS)]))
    assert set(anomalies) == ({Kind.SAME_EVIDENCE} if same else set())
    if same:
        [(place, detail)] = anomalies[Kind.SAME_EVIDENCE].examples
        assert (place.vignette_id, f"({same})" in detail) == ("t", True)


def test_equal_evidence_within_a_split_is_no_anomaly(tmp_path):
    again = [Vignette("v9", TRAIN[0].present, TRAIN[0].absent, DECISIONS)]
    assert anomalies_of(write(tmp_path / "data", TRAIN + again, TEST)) == {}


@pytest.mark.parametrize(
    ("train", "test", "kinds"),
    [(TRAIN, [], {Kind.NO_TEST}), ([], TRAIN, {Kind.NO_TRAINING}), ([], [], {Kind.NO_TEST, Kind.NO_TRAINING})],
)
def test_empty_splits(tmp_path, train, test, kinds):
    assert set(anomalies_of(write(tmp_path / "data", train, test))) == kinds


def test_a_damaged_shard_does_not_end_the_check(tmp_path):
    path = write(tmp_path / "data", [*TRAIN, Vignette("v9", ("a",), ("a",), DECISIONS)], TEST)
    shard = path / "train-00000-of-00002.tfrecord"
    shard.write_bytes(shard.read_bytes()[:-3])
    anomalies = anomalies_of(path)
    assert set(anomalies) == {Kind.DAMAGED, Kind.WRONG_NUMBER, Kind.NO_VIGNETTE}
    [(place, detail)] = anomalies[Kind.DAMAGED].examples
    assert (place.file, "record 2" in detail) == (shard.name, True)


@pytest.mark.parametrize("name", ["train-00001-of-00002.tfrecord", "stats.json"])
def test_a_directory_that_is_not_whole_is_checked_as_far_as_it_goes(tmp_path, name):
    path = write(tmp_path / "data", [*TRAIN, Vignette("v4", ("a",), ("a",), DECISIONS)], TEST)
    (path / name).unlink()
    anomalies = anomalies_of(path)
    assert name in anomalies[Kind.INCOMPLETE].examples[0][1]
    assert (Kind.NO_VIGNETTE in anomalies) == (name == "stats.json")


def test_a_vocabulary_that_does_not_belong_to_the_data_is_an_error(directory):
    Vocabulary(list(VOCABULARY)[::-1]).save(directory / "vocabulary.csv")
    assert "vocabulary.csv" in anomalies_of(directory)[Kind.INCOMPLETE].examples[0][1]


def test_a_split_with_another_number_of_vignettes_than_stats_says(directory):
    stats = json.loads((directory / "stats.json").read_text())
    stats["splits"]["train"]["vignettes"] = 3
    (directory / "stats.json").write_text(json.dumps(stats))
    assert anomalies_of(directory)[Kind.WRONG_NUMBER].examples == [(Place("train"), "2 vignettes, stats.json says 3")]


@pytest.mark.parametrize("name", ["vocabulary.csv", ""])
def test_without_vocabulary_or_directory_there_is_no_check(directory, name):
    path = directory / name
    (path.unlink if name else lambda: path.rename(path.with_name("moved")))()
    with pytest.raises(InputError, match=str(path)):
        validate(directory)
