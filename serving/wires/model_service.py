"""`tensorflow.serving.ModelService`: the states of the versions, and reloads of the configuration."""

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
from serving.engine.model_config import ModelConfig, read_message
from serving.engine.served_models import ServedModels
from serving.engine.versions import VersionStatus
from serving.errors import NotFoundError, PreconditionError
from serving.wires.signatures import spec_of
from triage_runtime.storage import locations

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
        spec = spec_of(request)
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
        if not wanted:
            what = "any versions" if number is None else f"version {number}"
            raise NotFoundError(f"Could not find {what} of model {spec.name}")
        return get_model_status_pb2.GetModelStatusResponse(model_version_status=[_entry(status) for status in wanted])

    def HandleReloadConfigRequest(  # noqa: N802
        self, request: model_management_pb2.ReloadConfigRequest, context: Any
    ) -> model_management_pb2.ReloadConfigResponse:
        """Applies a new configuration, and answers once it is in effect."""
        self._models.change(read_config(request.config, self._models))
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


def read_config(config: model_server_config_pb2.ModelServerConfig, models: ServedModels) -> list[ModelConfig]:
    """Returns the models that `config` asks the server to serve.

    Raises:
        InputError: it is not a list of models, or a field is missing or not supported.
        PreconditionError: a label names a version that is not loaded now.
    """
    served = {model.versions.model_name: model for model in models}
    entries = read_message(config)
    for entry in entries:
        model = served.get(entry.name)
        if locations.is_remote(entry.base_path) and (model is None or model.config.base_path != entry.base_path):
            raise InputError(
                f"model {entry.name}: base_path {entry.base_path}: expected a path on the server's machine"
            )
        for version in entry.labels.values():
            if model is None or version not in model.versions.loaded:
                raise PreconditionError(
                    f"Request to assign label to version {version} of model {entry.name}, which is not currently "
                    "available for inference"
                )
    return entries
