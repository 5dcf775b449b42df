import pathlib

import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from schemas.errors import InputError
from trainer.importing.anomalies import Findings, Kind, Place
from trainer.importing.feature_schema import SchemaCheck, load_schema

OURS = pathlib.Path(__file__).resolve().parents[3] / "schemas" / "vignette.pbtxt"


def example(**lists):
    """Lists of bytes, ints or floats; None is a feature without any list."""
    result = tf.train.Example()
    for name, values in lists.items():
        feature = result.features.feature[name]
        if values is not None and all(isinstance(value, bytes) for value in values):
            feature.bytes_list.value.extend(values)
        elif values and all(isinstance(value, int) for value in values):
            feature.int64_list.value.extend(values)
        elif values is not None:
            feature.float_list.value.extend(values)
    return result


GOOD = {"vignette_id": [b"v1"], "present": [b"fever"], "absent": [], "decisions": [b"Red", b"Red"]}


def anomalies_of(schema, *examples):
    findings = Findings()
    check = SchemaCheck(schema, findings)
    for number, given in enumerate(examples, start=1):
        check.add(given, Place("f", number))
    check.finish()
    return {
        (anomaly.kind, anomaly.subject): (
            anomaly.count,
            [place.record for place, _ in anomaly.examples],
            anomaly.examples[0][1],
        )
        for anomaly in findings.anomalies({})
    }


def schema_of(text):
    return text_format.Parse(text, schema_pb2.Schema())


@pytest.mark.parametrize("more", [{}, {"tags": [b"heart"]}, {"tags": []}, {"absent": [b"a", b"b"], "present": []}])
def test_what_triage_prepare_writes_fits_our_schema(more):
    assert anomalies_of(load_schema(OURS), example(**{**GOOD, **more})) == {}


@pytest.mark.parametrize(
    ("change", "kind", "subject", "detail"),
    [
        ({"age": [40]}, Kind.UNKNOWN_FEATURE, "", "'age'"),
        ({"present": [7]}, Kind.WRONG_TYPE, "present", "int64_list, expected bytes_list"),
        ({"tags": [0.5]}, Kind.WRONG_TYPE, "tags", "float_list, expected bytes_list"),
        ({"absent": None}, Kind.MISSING_FEATURE, "absent", ""),
        ({"vignette_id": [b"v1", b"v2"]}, Kind.WRONG_COUNT, "vignette_id", "2, expected 1"),
        ({"vignette_id": []}, Kind.WRONG_COUNT, "vignette_id", "0, expected 1"),
        ({"decisions": []}, Kind.WRONG_COUNT, "decisions", "0, expected 1 or more"),
        ({"decisions": [b"Red", b"red"]}, Kind.OUTSIDE_DOMAIN, "decisions", "'red'"),
        ({"decisions": [b"\xff"]}, Kind.OUTSIDE_DOMAIN, "decisions", "'\\\\xff'"),
    ],
)
def test_a_record_that_does_not_fit_our_schema(change, kind, subject, detail):
    good, bad = example(**GOOD), example(**{**GOOD, **change})
    assert anomalies_of(load_schema(OURS), good, bad) == {(kind, subject): (1, [2], detail)}


def test_a_feature_may_be_missing_as_often_as_the_schema_allows():
    schema = schema_of('feature { name: "x" type: INT presence { min_fraction: 0.5 min_count: 2 } }')
    have, lack = example(x=[1]), example()
    assert anomalies_of(schema, have, have, lack, lack) == {}
    assert anomalies_of(schema, have, have, lack, lack, lack) == {(Kind.MISSING_FEATURE, "x"): (3, [3, 4, 5], "")}
    assert anomalies_of(schema, have, lack) == {(Kind.MISSING_FEATURE, "x"): (1, [2], "")}  # two at least
    assert anomalies_of(schema, *[lack] * 9) == {(Kind.MISSING_FEATURE, "x"): (9, [1, 2, 3, 4, 5], "")}
    assert anomalies_of(schema_of('feature { name: "x" type: INT }'), lack) == {}


@pytest.mark.parametrize(("values", "fits"), [([1], False), ([1, 2], True), ([1, 2, 3], True), ([1] * 4, False)])
def test_the_number_of_values_has_two_bounds(values, fits):
    result = anomalies_of(schema_of('feature { name: "x" type: INT value_count { min: 2 max: 3 } }'), example(x=values))
    assert result == ({} if fits else {(Kind.WRONG_COUNT, "x"): (1, [1], f"{len(values)}, expected 2 to 3")})


def test_a_domain_may_stand_in_the_feature_itself():
    schema = schema_of('feature { name: "x" type: BYTES string_domain { value: "a" } }')
    assert anomalies_of(schema, example(x=[b"a"]), example(x=[b"b"])) == {(Kind.OUTSIDE_DOMAIN, "x"): (1, [2], "'b'")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("feature {", "not a TensorFlow Metadata schema"),
        ('feature { name: "x" colour: "red" }', "not a TensorFlow Metadata schema"),
        ('feature { name: "x" domain: "y" }', "feature 'x': no string_domain is named 'y'"),
    ],
)
def test_a_schema_that_cannot_be_read_is_an_input_error(tmp_path, text, message):
    (tmp_path / "schema.pbtxt").write_text(text)
    with pytest.raises(InputError, match=message):
        load_schema(tmp_path / "schema.pbtxt")


def test_a_schema_that_does_not_exist_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="cannot read the schema: No such file"):
        load_schema(tmp_path / "schema.pbtxt")
