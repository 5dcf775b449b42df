"""`tensorflow.serving.ModelService`: which versions are there, how they are, and which there should be."""

from typing import Any

import grpc
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2,
    model_service_pb2_grpc,
)

from schemas.errors import InputError
from serving.errors import NotFoundError
from serving.prediction_service import chosen_version
from serving.reload_config import read_config
from serving.versions import VersionStatus
from serving.watcher import Watcher

SERVICE = model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name


# ruff would have method names in lower case (N802), but they are the .proto's.
class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """Tells the state of the versions of a model, and changes what is served."""

    def __init__(self, watcher: Watcher[Any]):
        self._watcher = watcher
        self._versions = watcher.versions

    def GetModelStatus(  # noqa: N802
        self, request: get_model_status_pb2.GetModelStatusRequest, context: grpc.ServicerContext
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Tells the state of one version, or of all; of one that could not be loaded also why."""
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
        """Serves what the new configuration says, and answers when it does."""
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
