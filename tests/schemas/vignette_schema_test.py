"""The two descriptions of a vignette, of its tf.Example and of its JSON line, held against the code."""

import importlib.resources
import json

import pytest
from google.protobuf import text_format
from jsonschema import Draft202012Validator
from tensorflow_metadata.proto.v0 import schema_pb2

from schemas import directories, features
from schemas.triage import DECISION_LABELS, Action
from trainer.data.tfrecord import encode_example
from trainer.data.vignette import KEYS, MAX_NAME_LENGTH, MAX_SAME_DECISIONS, REQUIRED_KEYS, Vignette

FILES = importlib.resources.files("schemas")
FULL = Vignette("v1", ("a", "b"), ("c",), (Action.RED, Action.RED, Action.BLUE), tags=("t", "u"))
SPARSE = Vignette("v2", (), ("c",), (Action.GREEN,))


@pytest.fixture(scope="module")
def tfmd_schema():
    text = FILES.joinpath("vignette.pbtxt").read_text(encoding="utf-8")
    return text_format.Parse(text, schema_pb2.Schema())


@pytest.fixture(scope="module")
def json_schema():
    return json.loads(FILES.joinpath("vignette.schema.json").read_text(encoding="utf-8"))


def test_metadata_schema_names_the_features_and_decisions_of_the_code(tfmd_schema):
    assert [feature.name for feature in tfmd_schema.feature] == [
        features.VIGNETTE_ID,
        features.PRESENT,
        features.ABSENT,
        features.DECISIONS,
        features.TAGS,
    ]
    assert {feature.type for feature in tfmd_schema.feature} == {schema_pb2.BYTES}
    [domain] = tfmd_schema.string_domain
    assert [feature.domain for feature in tfmd_schema.feature] == ["", "", "", domain.name, ""]
    assert tuple(domain.value) == DECISION_LABELS  # in the order of urgency


@pytest.mark.parametrize("vignette", [FULL, SPARSE])
def test_an_encoded_vignette_conforms_to_the_metadata_schema(tfmd_schema, vignette):
    import tensorflow as tf

    encoded = tf.train.Example.FromString(encode_example(vignette)).features.feature
    described = {feature.name: feature for feature in tfmd_schema.feature}

    assert set(encoded) <= set(described)
    for name, feature in described.items():
        if feature.presence.min_fraction == 1.0:
            assert name in encoded
        if name not in encoded:
            continue
        assert encoded[name].WhichOneof("kind") == "bytes_list"
        values = encoded[name].bytes_list.value
        if feature.HasField("shape"):
            assert [len(values)] == [dim.size for dim in feature.shape.dim]
        else:
            assert len(values) >= feature.value_count.min
        if feature.domain:
            assert {value.decode() for value in values} <= set(tfmd_schema.string_domain[0].value)


def test_json_schema_is_a_schema_and_states_the_keys_and_limits_of_the_code(json_schema):
    Draft202012Validator.check_schema(json_schema)

    properties = json_schema["properties"]
    assert tuple(properties) == KEYS
    assert tuple(json_schema["required"]) == REQUIRED_KEYS
    assert json_schema["additionalProperties"] is False
    assert tuple(properties["decisions"]["items"]["enum"]) == DECISION_LABELS
    assert tuple(properties["split"]["enum"]) == (*directories.SPLITS, None)
    assert json_schema["$defs"]["name"]["maxLength"] == MAX_NAME_LENGTH
    limits = {part["contains"]["const"]: part["maxContains"] for part in properties["decisions"]["allOf"]}
    assert limits == dict.fromkeys(DECISION_LABELS, MAX_SAME_DECISIONS)
