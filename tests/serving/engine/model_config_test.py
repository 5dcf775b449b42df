"""The configuration of several models: what is read, and where a fault is."""

import pytest
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from schemas.errors import InputError
from serving.engine.model_config import ModelConfig, VersionPolicy, read_file, read_message

MODEL = 'name: "triage" base_path: "/models" model_platform: "tensorflow"'


def message(*models):
    text = "\n".join(f"config {{ {model} }}" for model in models)
    return text_format.Parse(f"model_config_list {{ {text} }}", model_server_config_pb2.ModelServerConfig())


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("", VersionPolicy(1)),
        ("model_version_policy { latest {} }", VersionPolicy(1)),
        ("model_version_policy { latest { num_versions: 2 } }", VersionPolicy(2)),
        ("model_version_policy { all {} }", VersionPolicy(None)),
        ("model_version_policy { specific { versions: 3 versions: 5 } }", VersionPolicy(numbers=frozenset([3, 5]))),
    ],
)
def test_each_policy_is_read(policy, expected):
    assert read_message(message(f"{MODEL} {policy}")) == [ModelConfig("triage", "/models", expected)]


def test_an_address_in_an_object_store_is_the_same_with_a_slash_behind():
    model = MODEL.replace("/models", "gs://bucket/models/")
    assert read_message(message(model)) == [ModelConfig("triage", "gs://bucket/models")]


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (model_server_config_pb2.ModelServerConfig(), "only a model_config_list"),
        (message(), "model_config_list has no"),
        (message('base_path: "/m"'), "without a name"),
        (message(MODEL, MODEL), "model triage: .*twice"),
        (message('name: "triage" base_path: "/m"'), "platform ''"),
        (message('name: "triage" base_path: "/m" model_platform: "other"'), "platform 'other'"),
        (message('name: "triage" base_path: "m" model_platform: "tensorflow"'), "absolute path"),
        (message(f"{MODEL} model_version_policy {{ specific {{}} }}"), "no versions"),
    ],
)
def test_what_does_not_fit_is_reported(config, complaint):
    with pytest.raises(InputError, match=complaint):
        read_message(config)


FILE = """# model_config_list { config {
model_config_list {
  config {
    name: "adults"  # config {
    base_path: '/srv/adults #1 config {'
    model_platform: "tensorflow"
    version_labels { key: "stable" value: 3 }
  }
  config: <
    name: "children"
    base_path: "/srv/children"
    model_platform: "tensorflow"
    model_version_policy { specific { versions: 5 } }
  >
}
"""


def test_the_models_of_a_file_are_read_in_their_order(tmp_path):
    path = tmp_path / "models.config"
    path.write_text(FILE)
    assert read_file(path) == [
        ModelConfig("adults", "/srv/adults #1 config {", labels={"stable": 3}),
        ModelConfig("children", "/srv/children", VersionPolicy(numbers=frozenset([5]))),
    ]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('name: "children"', 'nam: "children"', ":10:5 .*nam"),
        ('base_path: "/srv/children"', 'base_path: "children"', ": .*model children .*absolute"),
        ('name: "adults"', "", ": .*without a name"),
    ],
)
def test_a_fault_in_a_file_has_its_line_or_its_model(tmp_path, old, new, complaint):
    path = tmp_path / "models.config"
    assert old in FILE
    path.write_text(FILE.replace(old, new))
    with pytest.raises(InputError, match=f"models.config{complaint}"):
        read_file(path)
