"""Models that a TensorFlow Serving elsewhere has loaded, and that this machine has a copy of."""

import pathlib

from tensorflow_serving.apis import get_model_status_pb2

from serving import warmup
from serving.connection import Connection
from serving.errors import GoneError, UnavailableError
from serving.model_directory import list_versions
from serving.remote_engine import RemoteEngine

_AVAILABLE = get_model_status_pb2.ModelVersionStatus.AVAILABLE


class RemoteModels:
    """Finds the versions that are available there and have a folder here, for their manifest and vocabulary.

    Args:
        connection: to the TensorFlow Serving.
        model_name: the name of the model there.
    """

    def __init__(self, connection: Connection, model_name: str):
        self._connection = connection
        self._model_name = model_name

    def versions(self, base: pathlib.Path) -> dict[int, pathlib.Path]:
        """Returns the folder of each version that is available there.

        Raises:
            InputError: the base path cannot be read.
            UnavailableError: the TensorFlow Serving cannot tell its versions, or has none that is here.
        """
        here = list_versions(base)
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = self._model_name
        try:
            entries = self._connection.status(request).model_version_status
        except GoneError as error:
            raise UnavailableError(
                f"TensorFlow Serving at {self._connection.address} serves no model {self._model_name!r}: "
                "give its name with --model-name"
            ) from error
        there = {entry.version for entry in entries if entry.state == _AVAILABLE}
        if not there & here.keys():
            raise UnavailableError(
                f"TensorFlow Serving at {self._connection.address} serves the versions {sorted(there)} of "
                f"{self._model_name!r}; {base} has {sorted(here)}: expected a version that both have"
            )
        return {number: folder for number, folder in here.items() if number in there}

    def load(self, folder: pathlib.Path) -> RemoteEngine:
        """Returns the engine of a version, which has answered once.

        Raises:
            InputError: the version here is damaged, or another one than there.
            UnavailableError: and the other errors of `Connection`.
        """
        engine = RemoteEngine(self._connection, self._model_name, folder)
        warmup.warm_up(engine)
        return engine
