"""Versions that a TensorFlow Serving has loaded and of which this machine has a copy, and the connection to it."""

import logging
import pathlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from schemas import features
from schemas.errors import InputError
from schemas.model_directory import list_versions
from serving.call import current
from serving.engine.engine import EncodingEngine, warm_up
from serving.errors import DeadlineError, EngineError, ExhaustedError, GoneError, UnavailableError
from triage.v1 import triage_pb2

_LOGGER = logging.getLogger(__name__)
_Response = TypeVar("_Response")

CONNECT_SECONDS = 0.5
"""How long a call waits for a connection. A request is sent only over an open connection, and only once."""

_OPTIONS = [
    ("grpc.enable_http_proxy", 0),  # an HTTP proxy from the environment would read patients' evidence
    ("grpc.max_receive_message_length", -1),
    # gRPC's own backoff grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
_UNREACHABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


class Connection:
    """Calls the TensorFlow Serving at `HOST:PORT`, from any thread, and reconnects after an interruption.

    Each call raises:
        UnavailableError: the server cannot be reached, or went away during the call.
        DeadlineError: the call took too long.
        GoneError: it does not serve the model or the version.
        ExhaustedError: the request is too large for it.
        EngineError: it failed in another way.
    """

    def __init__(self, address: str, timeout_seconds: float):
        self.address = address
        self._timeout_seconds = timeout_seconds
        self._connected = threading.Event()
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self._channel.subscribe(self._on_change, try_to_connect=True)
        self._prediction = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._model = model_service_pb2_grpc.ModelServiceStub(self._channel)

    def close(self) -> None:
        """Ends the connection."""
        self._channel.unsubscribe(self._on_change)
        self._channel.close()

    def predict(
        self, request: predict_pb2.PredictRequest, timeout_seconds: float | None = None
    ) -> predict_pb2.PredictResponse:
        """Runs a signature of the remote model, within the smaller of both timeouts."""
        return self._call(self._prediction.Predict, request, timeout_seconds)

    def status(
        self, request: get_model_status_pb2.GetModelStatusRequest
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Returns the states of the remote model's versions."""
        return self._call(self._model.GetModelStatus, request, None)

    def _call(self, method: Callable[..., _Response], request: Any, timeout_seconds: float | None) -> _Response:
        limit = self._timeout_seconds if timeout_seconds is None else min(timeout_seconds, self._timeout_seconds)
        end = time.monotonic() + limit
        self._connect(min(limit, CONNECT_SECONDS))
        remaining = end - time.monotonic()
        if remaining <= 0:
            raise self._exception_of(grpc.StatusCode.DEADLINE_EXCEEDED)
        try:
            return method(request, timeout=remaining, metadata=current().outgoing)
        except grpc.RpcError as error:
            raise self._exception_of(error.code()) from None  # the original details may contain evidence

    def _connect(self, seconds: float) -> None:
        if self._connected.is_set():
            return
        ready = grpc.channel_ready_future(self._channel)
        try:
            ready.result(timeout=seconds)
        except grpc.FutureTimeoutError:
            ready.cancel()
            raise UnavailableError(f"TensorFlow Serving at {self.address} cannot be reached: try again later") from None

    def _on_change(self, state: grpc.ChannelConnectivity) -> None:
        if state is grpc.ChannelConnectivity.READY:
            self._connected.set()
        else:
            self._connected.clear()

    def _exception_of(self, code: grpc.StatusCode) -> Exception:
        """Returns the exception for the status of a call that failed, remotely or on the way."""
        place = f"TensorFlow Serving at {self.address}"
        if code in _UNREACHABLE:
            return UnavailableError(f"{place} went away during the call: try again later")
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return DeadlineError(f"{place} did not answer in time")
        if code is grpc.StatusCode.NOT_FOUND:
            return GoneError(f"{place} does not serve this model version: try again later")
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return ExhaustedError(f"{place} has no room for the call: send fewer states in it")
        _LOGGER.error("%s ended a call with %s", place, code.name)
        return EngineError(f"{place} failed: {code.name}")


class RemoteEngine(EncodingEngine):
    """One version of a remote model, with manifest and vocabulary from the folder of its local copy.

    Raises:
        InputError: the local copy is damaged, or the remote version of its number is another model.
        UnavailableError: and the other errors of `Connection`.
    """

    def __init__(self, connection: Connection, model_name: str, folder: pathlib.Path):
        self._connection = connection
        self._model_name = model_name
        super().__init__(folder)
        self._check_same_model(folder)

    def predict(self, signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature, within the deadline of the current call.

        Raises:
            UnavailableError: and the other errors of `Connection`.
        """
        request = predict_pb2.PredictRequest()
        request.model_spec.name = self._model_name
        request.model_spec.signature_name = signature
        request.model_spec.version.value = int(self.info.model_version)
        for alias, value in inputs.items():
            request.inputs[alias].CopyFrom(tf.make_tensor_proto(value))
        response = self._connection.predict(request, current().request.remaining_seconds())
        return {alias: tf.make_ndarray(value) for alias, value in response.outputs.items()}

    def _check_same_model(self, folder: pathlib.Path) -> None:
        """Compares the fingerprints of both vocabularies, as equal version numbers do not make the same model."""
        state = triage_pb2.EvidenceState().SerializeToString()
        inputs = {features.EVIDENCE_STATES: np.array([state], object)}
        answer = self.predict(features.TRIAGE, inputs)[features.TRIAGE_RESPONSES][0]
        fingerprint = triage_pb2.TriageResponse.FromString(answer).vocabulary_fingerprint
        if fingerprint != self.info.vocabulary_fingerprint:
            raise InputError(
                f"{folder}: TensorFlow Serving at {self._connection.address} serves another model as version "
                f"{self.info.model_version}: its vocabulary is {fingerprint}, here it is "
                f"{self.info.vocabulary_fingerprint}"
            )


_AVAILABLE = get_model_status_pb2.ModelVersionStatus.AVAILABLE


class RemoteModels:
    """Finds the versions that the remote server has available and that have a local folder."""

    def __init__(self, connection: Connection, model_name: str):
        self._connection = connection
        self._model_name = model_name

    def versions(self, base: str) -> dict[int, pathlib.Path]:
        """Returns the local folder of each version that is available remotely.

        Raises:
            InputError: the base path cannot be read.
            UnavailableError: the TensorFlow Serving cannot list its versions, or has none with a local folder.
        """
        here = list_versions(pathlib.Path(base))
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
        """Returns the engine of a version, warm.

        Raises:
            InputError: the local copy is damaged, or differs from the remote version.
            UnavailableError: and the other errors of `Connection`.
        """
        engine = RemoteEngine(self._connection, self._model_name, folder)
        warm_up(engine)
        return engine
