"""A connection to a TensorFlow Serving."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from serving.call import current
from serving.errors import DeadlineError, EngineError, ExhaustedError, GoneError, UnavailableError

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
    """Calls the TensorFlow Serving at `address`, from any thread, and reconnects after an interruption.

    Args:
        address: `HOST:PORT`.
        timeout_seconds: largest duration of a call.

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
