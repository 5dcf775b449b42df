import json

import pytest

import trainer.importing.validation
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.triage import Action
from tests.builders import data_directory_of, symptoms
from trainer.importing.anomalies import Kind, Severity
from trainer.importing.validation import validate
from trainer.vignettes.vignette import Vignette

VOCABULARY = symptoms(*"abcdefgh")
RED, GREEN = Action.RED, Action.GREEN
DECISIONS = (RED, GREEN)
TRAIN = [Vignette("v1", ("a", "b", "c", "d"), ("e",), DECISIONS), Vignette("v2", ("f", "g"), ("h",), DECISIONS)]
TEST = [Vignette("v3", ("a", "h"), (), DECISIONS)]


def write(path, train, test, shard_size=2):
    return data_directory_of(path, VOCABULARY, train, test, shard_size)


@pytest.fixture
def directory(tmp_path):
    return write(tmp_path / "data", TRAIN, TEST)


# What each of these directories is warned about: a test vignette or two, without Yellow and Blue.
SMALL = {Kind.FEW_TEST_VIGNETTES, Kind.ONE_COLOUR, Kind.MISSING_COLOUR, Kind.SINGLE_DECISIONS}


def anomalies_of(path):
    return {anomaly.kind: anomaly for anomaly in validate(path).anomalies if anomaly.kind not in SMALL}


def test_a_sound_directory_has_no_anomalies_but_its_size(directory):
    report = validate(directory)
    assert {anomaly.kind: anomaly.count for anomaly in report.anomalies} == {
        Kind.FEW_TEST_VIGNETTES: 1,
        Kind.MISSING_COLOUR: 4,  # Yellow and Blue, in both splits
    }
    assert report.vignettes == {"train": 2, "test": 1}
    assert [report.count(severity) for severity in Severity] == [0, 2, 0]


@pytest.mark.parametrize(
    ("vignette", "kind"),
    [
        (Vignette("t", ("a", "b", "c", "d"), ("e",), DECISIONS), Kind.SAME_EVIDENCE),
        (Vignette("t", ("g", "f"), ("h",), DECISIONS), Kind.SAME_EVIDENCE),  # short, in another order
        (Vignette("t", ("a", "b", "c", "d"), (), DECISIONS), Kind.NEAR_DUPLICATE),
        (Vignette("t", ("a", "b", "c", "d", "e"), (), DECISIONS), Kind.NEAR_DUPLICATE),
        (Vignette("t", ("a", "b", "c", "d"), ("e", "f"), DECISIONS), Kind.NEAR_DUPLICATE),
        (Vignette("t", ("a", "b", "c"), (), DECISIONS), None),
        (Vignette("t", ("f", "g"), (), DECISIONS), None),  # one apart, but short
    ],
)
def test_near_duplicates_across_the_splits(tmp_path, vignette, kind):
    anomalies = anomalies_of(write(tmp_path / "data", TRAIN, [*TEST, vignette]))
    assert set(anomalies) == ({kind} if kind else set())
    if kind:
        [(place, detail)] = anomalies[kind].examples
        assert str(place) == "test-00000-of-00001.tfrecord record 2 (t)"
        assert detail.startswith("like train-00000-of-00001.tfrecord record")
        assert anomalies[kind].share == 0.5  # of the test vignettes


def test_near_duplicates_within_a_split_are_no_anomaly(tmp_path):
    again = Vignette("v9", TRAIN[0].present, TRAIN[0].absent, DECISIONS)
    assert anomalies_of(write(tmp_path / "data", [*TRAIN, again], TEST)) == {}


def test_near_duplicates_are_found_in_whichever_part_they_stand(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer.importing.validation, "_STATES_AT_ONCE", 2)
    train = [*TRAIN, Vignette("v5", ("b",), (), DECISIONS), Vignette("v6", ("c",), (), DECISIONS)]
    train.append(Vignette("v7", TEST[0].present, TEST[0].absent, DECISIONS))
    [(_, detail)] = anomalies_of(write(tmp_path / "data", train, TEST))[Kind.SAME_EVIDENCE].examples
    assert detail == "like train-00002-of-00003.tfrecord record 1 (v7)"


def test_an_id_in_both_splits_is_a_duplicate(tmp_path):
    anomalies = anomalies_of(write(tmp_path / "data", TRAIN, [*TEST, Vignette("v2", ("a",), (), DECISIONS)]))
    assert set(anomalies) == {Kind.DUPLICATE_ID}


def test_evidence_only_in_test_and_evidence_nowhere(tmp_path):
    anomalies = anomalies_of(write(tmp_path / "data", TRAIN[:1], [Vignette("v3", ("f",), (), DECISIONS)]))
    assert {kind: [detail for _, detail in anomaly.examples] for kind, anomaly in anomalies.items()} == {
        Kind.ONLY_IN_TEST: ["f"],
        Kind.UNUSED_EVIDENCE: ["g", "h"],
    }


def test_classes_that_drift(tmp_path):
    def vignettes(name, red, green):
        colours = [RED] * red + [GREEN] * green
        return [
            Vignette(f"{name}{n}", ("a", "b", *"cdef"[: n % 3]), (name, "g"), (colour, colour))
            for n, colour in enumerate(colours)
        ]

    def anomalies(name, *test):
        return anomalies_of(write(tmp_path / name, vignettes("h", 50, 50), vignettes("f", *test), shard_size=100))

    drifting, steady = anomalies("drifting", 95, 5), anomalies("steady", 50, 50)
    assert set(drifting) - set(steady) == {Kind.CLASS_DRIFT}
    assert drifting[Kind.CLASS_DRIFT].count == 2


@pytest.mark.parametrize(
    ("train", "test", "kinds"),
    [
        (TRAIN, [], {Kind.NO_TEST}),
        ([], TRAIN, {Kind.NOTHING_TO_TRAIN_ON}),
        ([], [], {Kind.NO_TEST, Kind.NOTHING_TO_TRAIN_ON}),
    ],
)
def test_empty_splits(tmp_path, train, test, kinds):
    assert set(anomalies_of(write(tmp_path / "data", train, test))) - {Kind.UNUSED_EVIDENCE} == kinds


def test_a_damaged_shard_does_not_end_the_check(tmp_path):
    bad = Vignette("v9", ("a",), ("a",), DECISIONS)
    path = write(tmp_path / "data", [*TRAIN, bad], TEST)
    shard = path / "train-00000-of-00002.tfrecord"
    shard.write_bytes(shard.read_bytes()[:-3])
    anomalies = anomalies_of(path)
    assert {Kind.DAMAGED_SHARD, Kind.WRONG_NUMBER, Kind.CONTRADICTION} <= set(anomalies)
    assert anomalies[Kind.DAMAGED_SHARD].examples[0][0].file == shard.name


@pytest.mark.parametrize("name", ["train-00001-of-00002.tfrecord", "stats.json"])
def test_a_directory_that_is_not_whole_is_checked_as_far_as_it_goes(tmp_path, name):
    path = write(tmp_path / "data", [*TRAIN, Vignette("v4", ("a",), ("a",), DECISIONS)], TEST, shard_size=2)
    (path / name).unlink()
    anomalies = anomalies_of(path)
    assert name in anomalies[Kind.NOT_OPENED].examples[0][1]
    assert (Kind.CONTRADICTION in anomalies) == (name == "stats.json")


def test_a_vocabulary_that_does_not_belong_to_the_data_is_an_error(directory):
    Vocabulary(list(VOCABULARY)[::-1]).save(directory / "vocabulary.csv")
    assert "not the vocabulary of stats.json" in anomalies_of(directory)[Kind.NOT_OPENED].examples[0][1]


def test_a_shard_with_another_number_of_vignettes_than_stats_says(directory):
    stats = json.loads((directory / "stats.json").read_text())
    stats["splits"]["train"]["vignettes"] = 3
    (directory / "stats.json").write_text(json.dumps(stats))
    assert anomalies_of(directory)[Kind.WRONG_NUMBER].examples[0][1] == "2 vignettes, stats.json says 3"


@pytest.mark.parametrize("name", ["vocabulary.csv", "schema.pbtxt"])
def test_without_vocabulary_or_schema_there_is_no_check(directory, name):
    (directory / name).unlink()
    with pytest.raises(InputError, match=f"{name}: cannot read"):
        validate(directory)


def test_a_directory_that_does_not_exist_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="no such data directory"):
        validate(tmp_path / "nothing")
