"""From a ModelServerConfig to what the watcher wants."""

import pathlib

import pytest
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from schemas.errors import InputError
from serving.errors import PreconditionError
from serving.reload_config import read_config
from serving.version_policy import VersionPolicy, Wanted
from serving.versions import Versions

MODEL = 'name: "triage" base_path: "/models" model_platform: "tensorflow"'


class Info:
    model_version = "3"


class Engine:
    info = Info()


@pytest.fixture
def versions():
    versions = Versions("triage")
    versions.publish(Engine())
    return versions


def config(*models):
    text = "\n".join(f"config {{ {model} }}" for model in models)
    return text_format.Parse(f"model_config_list {{ {text} }}", model_server_config_pb2.ModelServerConfig())


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("", VersionPolicy(1)),
        ("model_version_policy { latest {} }", VersionPolicy(1)),
        ("model_version_policy { latest { num_versions: 2 } }", VersionPolicy(2)),
        ("model_version_policy { all {} }", VersionPolicy(None)),
        (
            "model_version_policy { specific { versions: 3 versions: 5 } }",
            VersionPolicy(numbers=frozenset([3, 5])),
        ),
    ],
)
def test_each_policy_is_read(versions, policy, expected):
    assert read_config(config(f"{MODEL} {policy}"), versions) == Wanted(pathlib.Path("/models"), expected)


def test_labels_of_loaded_versions_are_read(versions):
    labels = 'version_labels { key: "stable" value: 3 }'
    assert read_config(config(f"{MODEL} {labels}"), versions).labels == {"stable": 3}


def test_the_deprecated_type_is_read(versions):
    assert read_config(config('name: "triage" base_path: "/m" model_type: TENSORFLOW'), versions).base.name == "m"


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (model_server_config_pb2.ModelServerConfig(), "Only ModelConfigList is currently supported"),
        (config(), r"expected one config, of triage, got \[\]"),
        (config('name: "other"'), r"got \['other'\]"),
        (config(MODEL, MODEL), r"got \['triage', 'triage'\]"),
        (config('name: "triage" base_path: "/m"'), "requests unsupported platform ''"),
        (config('name: "triage" base_path: "/m" model_platform: "other"'), "requests unsupported platform 'other'"),
        (config('name: "triage" base_path: "m" model_platform: "tensorflow"'), "to have an absolute path"),
        (config(f"{MODEL} model_version_policy {{ specific {{}} }}"), "names no version"),
    ],
)
def test_what_does_not_fit_is_told(versions, message, complaint):
    with pytest.raises(InputError, match=complaint):
        read_config(message, versions)


def test_a_label_needs_a_loaded_version(versions):
    with pytest.raises(PreconditionError, match="Request to assign label to version 4 of model triage, which is not"):
        read_config(config(f'{MODEL} version_labels {{ key: "canary" value: 4 }}'), versions)
