"""`tensorflow.serving.ModelService`: the states of the versions, and reloads of the configuration."""

import pathlib

import grpc
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2,
    model_service_pb2_grpc,
)
from tensorflow_serving.config import model_server_config_pb2

from schemas.errors import InputError
from serving.errors import NotFoundError, PreconditionError
from serving.models.version_policy import VersionPolicy, Wanted
from serving.models.versions import Versions, VersionStatus
from serving.models.watcher import Watcher
from serving.tf_serving.prediction_service import chosen_version

SERVICE = model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name


# The method names are those of the .proto file, not snake case (N802).
class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """Reports the states of a model's versions, and changes which are served."""

    def __init__(self, watcher: Watcher):
        self._watcher = watcher
        self._versions = watcher.versions

    def GetModelStatus(  # noqa: N802
        self, request: get_model_status_pb2.GetModelStatusRequest, context: grpc.ServicerContext
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Returns the state of one version, or of all, with the reason if a version could not be loaded."""
        if not request.HasField("model_spec"):
            raise InputError("Missing ModelSpec")
        spec = request.model_spec
        known = self._versions.statuses() if spec.name == self._versions.model_name else []
        number = spec.version.value if spec.WhichOneof("version_choice") == "version" else None
        if spec.WhichOneof("version_choice") == "version_label":
            number = chosen_version(spec, self._versions)
        wanted = [status for status in known if number is None or status.version == number]
        if not wanted and number is not None:
            raise NotFoundError(f"Could not find version {number} of model {spec.name}")
        if not wanted:
            raise NotFoundError(f"Could not find any versions of model {spec.name}")
        return get_model_status_pb2.GetModelStatusResponse(model_version_status=[_entry(status) for status in wanted])

    def HandleReloadConfigRequest(  # noqa: N802
        self, request: model_management_pb2.ReloadConfigRequest, context: grpc.ServicerContext
    ) -> model_management_pb2.ReloadConfigResponse:
        """Applies a new configuration, and answers once it is in effect."""
        self._watcher.reload(read_config(request.config, self._versions))
        response = model_management_pb2.ReloadConfigResponse()
        response.status.SetInParent()
        return response


def _entry(status: VersionStatus) -> get_model_status_pb2.ModelVersionStatus:
    entry = get_model_status_pb2.ModelVersionStatus(version=status.version, state=status.state.value)
    if status.error:
        entry.status.error_code = grpc.StatusCode.INVALID_ARGUMENT.value[0]
        entry.status.error_message = status.error
    else:
        entry.status.SetInParent()
    return entry


PLATFORM = "tensorflow"


def read_config(config: model_server_config_pb2.ModelServerConfig, versions: Versions) -> Wanted:
    """Returns what `config` asks the server to serve.

    Raises:
        InputError: it is not a list of exactly the served model, or a field is not supported.
        PreconditionError: a label names a version that is not loaded now.
    """
    if config.WhichOneof("config") != "model_config_list":
        raise InputError(
            "ServerModelConfig type not supported by HandleReloadConfigRequest. "
            "Only ModelConfigList is currently supported"
        )
    models = config.model_config_list.config
    names = [model.name for model in models]
    if names != [versions.model_name]:
        raise InputError(f"this server serves one model: expected one config, for {versions.model_name}, got {names}")
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
            raise InputError(f"model {model.name}: the policy 'specific' has no versions")
        return VersionPolicy(numbers=frozenset(numbers))
    return VersionPolicy(count=model.model_version_policy.latest.num_versions or 1)
