"""`tensorflow.serving.ModelService`: the states of the versions, and reloads of the configuration."""

import pathlib
from typing import Any

import grpc
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2,
    model_service_pb2_grpc,
)
from tensorflow_serving.config import model_server_config_pb2

from schemas.errors import InputError
from serving.engine.model_config import read_message
from serving.engine.served_models import ServedModels
from serving.engine.version_policy import Wanted
from serving.engine.versions import VersionStatus
from serving.errors import NotFoundError, PreconditionError

SERVICE = model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name


# The method names are those of the .proto file, not snake case (N802).
class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """Reports the states of the models' versions, and changes which are served."""

    def __init__(self, models: ServedModels):
        self._models = models

    def GetModelStatus(  # noqa: N802
        self, request: get_model_status_pb2.GetModelStatusRequest, context: Any
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Returns the state of one version, or of all, with the reason if a version could not be loaded."""
        if not request.HasField("model_spec"):
            raise InputError("Missing ModelSpec")
        spec = request.model_spec
        if not spec.name:
            raise InputError("ModelSpec has no name specified.")
        number = spec.version.value if spec.WhichOneof("version_choice") == "version" else None
        try:
            versions = self._models.named(spec.name).versions
        except NotFoundError as error:
            what = "any versions" if number is None else f"version {number}"
            raise NotFoundError(f"Could not find {what} of model {spec.name[:80]}: {error}") from None
        if spec.WhichOneof("version_choice") == "version_label":
            number = versions.version_of(spec.version_label)
        known = versions.statuses()
        wanted = [status for status in known if number is None or status.version == number]
        if not wanted and number is not None:
            raise NotFoundError(f"Could not find version {number} of model {spec.name}")
        if not wanted:
            raise NotFoundError(f"Could not find any versions of model {spec.name}")
        return get_model_status_pb2.GetModelStatusResponse(model_version_status=[_entry(status) for status in wanted])

    def HandleReloadConfigRequest(  # noqa: N802
        self, request: model_management_pb2.ReloadConfigRequest, context: Any
    ) -> model_management_pb2.ReloadConfigResponse:
        """Applies a new configuration, and answers once it is in effect."""
        self._models.reload(read_config(request.config, self._models))
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


def read_config(config: model_server_config_pb2.ModelServerConfig, models: ServedModels) -> dict[str, Wanted]:
    """Returns what `config` asks the server to serve, for each of its models by name.

    Raises:
        InputError: it is not a list of exactly the served models, or a field is missing or not supported.
        PreconditionError: a label names a version that is not loaded now.
    """
    if config.WhichOneof("config") != "model_config_list":
        raise InputError(
            "ServerModelConfig type not supported by HandleReloadConfigRequest. "
            "Only ModelConfigList is currently supported"
        )
    entries = {entry.name: entry for entry in read_message(config)}
    if set(entries) != set(models.names):
        raise InputError(
            f"expected one config for each model of this server, {', '.join(models.names)}, got "
            f"{', '.join(entries)}: to add or remove one, start the server again"
        )
    wanted = {}
    for model in models:
        name, loaded = model.versions.model_name, model.versions.loaded
        entry = entries[name]
        if not pathlib.PurePath(entry.base_path).is_absolute():
            raise InputError(f"model {name}: base_path {entry.base_path}: expected a path on the server's machine")
        for version in entry.labels.values():
            if version not in loaded:
                raise PreconditionError(
                    f"Request to assign label to version {version} of model {name}, which is not currently available "
                    "for inference"
                )
        wanted[name] = Wanted(pathlib.Path(entry.base_path), entry.policy, entry.labels)
    return wanted
