"""Reads the ModelServerConfig of a HandleReloadConfigRequest; the wording follows TensorFlow Serving's."""

import pathlib
from typing import Any

from tensorflow_serving.config import model_server_config_pb2

from schemas.errors import InputError
from serving.errors import PreconditionError
from serving.version_policy import VersionPolicy, Wanted
from serving.versions import Versions

PLATFORM = "tensorflow"


def read_config(config: model_server_config_pb2.ModelServerConfig, versions: Versions[Any]) -> Wanted:
    """Returns what `config` wants served.

    Raises:
        InputError: it is no list of one model, the served one, or its fields do not fit.
        PreconditionError: a label is to name a version that is not loaded now.
    """
    if config.WhichOneof("config") != "model_config_list":
        raise InputError(
            "ServerModelConfig type not supported by HandleReloadConfigRequest. "
            "Only ModelConfigList is currently supported"
        )
    models = config.model_config_list.config
    names = [model.name for model in models]
    if names != [versions.model_name]:
        raise InputError(f"this server serves one model: expected one config, of {versions.model_name}, got {names}")
    (model,) = models
    if model.model_platform != PLATFORM and model.model_type != model_server_config_pb2.TENSORFLOW:
        raise InputError(f"Model {model.name} requests unsupported platform {model.model_platform!r}: use {PLATFORM!r}")
    if not pathlib.PurePath(model.base_path).is_absolute():
        raise InputError(f"Expected model {model.name} to have an absolute path; got base_path()={model.base_path}")
    loaded = versions.loaded
    for version in model.version_labels.values():
        if version not in loaded:
            raise PreconditionError(
                f"Request to assign label to version {version} of model {model.name}, which is not currently available "
                "for inference"
            )
    return Wanted(pathlib.Path(model.base_path), _policy(model), dict(model.version_labels))


def _policy(model: model_server_config_pb2.ModelConfig) -> VersionPolicy:
    kind = model.model_version_policy.WhichOneof("policy_choice")
    if kind == "all":
        return VersionPolicy(count=None)
    if kind == "specific":
        numbers = model.model_version_policy.specific.versions
        if not numbers:
            raise InputError(f"model {model.name}: the policy 'specific' names no version")
        return VersionPolicy(numbers=frozenset(numbers))
    return VersionPolicy(count=model.model_version_policy.latest.num_versions or 1)
