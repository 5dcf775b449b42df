"""What a server serves: models and their versions, also as TensorFlow Serving's `ModelServerConfig`."""

import dataclasses
import pathlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from google.protobuf import text_format

from schemas.errors import InputError
from schemas.text_file import read_text
from triage_runtime.storage import locations

if TYPE_CHECKING:  # an extra
    from tensorflow_serving.config import model_server_config_pb2

PLATFORM = "tensorflow"
_TENSORFLOW = 1  # tensorflow.serving.ModelType, which says the same in an older way
_EXAMPLE = 'model_config_list { config { name: "triage" base_path: "/srv/models" model_platform: "tensorflow" } }'


@dataclasses.dataclass(frozen=True)
class VersionPolicy:
    """The highest `count` versions, or all if `count` is None; or `numbers` if given."""

    count: int | None = 1
    numbers: frozenset[int] | None = None

    def choose(self, there: Collection[int]) -> frozenset[int]:
        """Returns which of the versions `there` the policy wants."""
        if self.numbers is not None:
            return self.numbers & frozenset(there)
        ordered = sorted(there, reverse=True)
        return frozenset(ordered if self.count is None else ordered[: self.count])


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """A model to serve: the versions of the policy, and those with a label.

    Attributes:
        name: by which requests choose it.
        base_path: directory with a folder for each version, local or, without a slash at the end, in an object store.
        policy: which versions to load.
        labels: the version that each label names.
    """

    name: str
    base_path: str
    policy: VersionPolicy = VersionPolicy()
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if locations.is_remote(self.base_path):
            object.__setattr__(self, "base_path", self.base_path.rstrip("/"))


def read_file(path: pathlib.Path) -> list[ModelConfig]:
    """Returns the models in a file, at least one.

    Raises:
        InputError: the file cannot be read, is no such message, or an entry is faulty; the message names its model.
    """
    from tensorflow_serving.config import model_server_config_pb2

    text = read_text(path, "--model-config-file")
    try:
        return read_message(text_format.Parse(text, model_server_config_pb2.ModelServerConfig()))
    except text_format.ParseError as error:
        fault = str(error).rstrip(".")
        raise InputError(
            f"--model-config-file {path}:{fault}: expected TensorFlow Serving's ModelServerConfig, such as {_EXAMPLE}"
        ) from error
    except InputError as error:
        raise InputError(f"--model-config-file {path}: {error}: expected one such as {_EXAMPLE}") from error


def read_message(config: "model_server_config_pb2.ModelServerConfig") -> list[ModelConfig]:
    """Returns the models in a message, at least one.

    Raises:
        InputError: it is no list, two models have one name, or a field is missing or not supported.
    """
    if config.WhichOneof("config") != "model_config_list":
        raise InputError("only a model_config_list is supported")
    models: list[ModelConfig] = []
    for entry in config.model_config_list.config:
        model = _read_entry(entry)
        if model.name in {other.name for other in models}:
            raise InputError(f"model {model.name}: the name is given twice: each model needs its own")
        models.append(model)
    if not models:
        raise InputError("model_config_list has no config")
    return models


def _read_entry(entry: "model_server_config_pb2.ModelConfig") -> ModelConfig:
    if not entry.name:
        raise InputError('a model without a name: add one, such as name: "triage"')
    if entry.model_platform != PLATFORM and entry.model_type != _TENSORFLOW:
        raise InputError(f"Model {entry.name} requests unsupported platform {entry.model_platform!r}: use {PLATFORM!r}")
    if not (pathlib.PurePath(entry.base_path).is_absolute() or locations.is_remote(entry.base_path)):
        raise InputError(f"Expected model {entry.name} to have an absolute path; got base_path()={entry.base_path}")
    kind = entry.model_version_policy.WhichOneof("policy_choice")
    policy = VersionPolicy(count=entry.model_version_policy.latest.num_versions or 1)
    if kind == "all":
        policy = VersionPolicy(count=None)
    elif kind == "specific":
        policy = VersionPolicy(numbers=frozenset(entry.model_version_policy.specific.versions))
        if not policy.numbers:
            raise InputError(f"model {entry.name}: the policy 'specific' has no versions")
    return ModelConfig(entry.name, entry.base_path, policy, dict(entry.version_labels))
