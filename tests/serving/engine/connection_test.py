"""The connection to a TensorFlow Serving that is away, slow or failing."""

import concurrent.futures
import logging
import socket

import grpc
import pytest
from tensorflow_serving.apis import get_model_status_pb2, predict_pb2, prediction_service_pb2_grpc

from serving.engine.connection import Connection
from serving.errors import DeadlineError, EngineError, ExhaustedError, GoneError, UnavailableError
from tests.waiting import until

EVIDENCE = "chest_pain of patient 17"


class Troubled(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Ends each call with the status that the test wants, and notes how much time it had."""

    def __init__(self):
        self.code = None
        self.remaining = []

    def Predict(self, request, context):  # noqa: N802
        self.remaining.append(context.time_remaining())
        if self.code is not None:
            context.abort(self.code, EVIDENCE)
        return predict_pb2.PredictResponse()


@pytest.fixture
def start():
    """Starts a server of a `Troubled` on a port, any free one by default, and returns it with the port."""
    servers = []

    def run(troubled, port=0):
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(troubled, server)
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        servers.append(server)
        return server, bound

    yield run
    for server in servers:
        server.stop(None)


@pytest.fixture
def connect():
    connections = []

    def run(port, timeout_seconds=30.0):
        connections.append(Connection(f"127.0.0.1:{port}", timeout_seconds))
        return connections[-1]

    yield run
    for connection in connections:
        connection.close()


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, UnavailableError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, DeadlineError),
        (grpc.StatusCode.NOT_FOUND, GoneError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ExhaustedError),
        (grpc.StatusCode.INVALID_ARGUMENT, EngineError),
        (grpc.StatusCode.INTERNAL, EngineError),
    ],
)
def test_each_status_has_its_error_without_what_the_server_said_and_nothing_is_sent_twice(
    start, connect, caplog, code, kind
):
    troubled = Troubled()
    troubled.code = code
    _, port = start(troubled)
    connection = connect(port)
    with caplog.at_level(logging.DEBUG), pytest.raises(kind, match=f"TensorFlow Serving at 127.0.0.1:{port}") as error:
        connection.predict(predict_pb2.PredictRequest())
    assert type(error.value) is kind
    assert EVIDENCE not in str(error.value) + caplog.text
    assert len(troubled.remaining) == 1


@pytest.mark.parametrize(
    ("callers", "longest", "expected"), [(500.0, 3000.0, 500.0), (None, 700.0, 700.0), (6000.0, 700.0, 700.0)]
)
def test_the_callers_deadline_is_passed_on_up_to_the_longest(start, connect, callers, longest, expected):
    troubled = Troubled()
    _, port = start(troubled)
    connect(port, longest).predict(predict_pb2.PredictRequest(), callers)
    assert expected - 100.0 < troubled.remaining[0] < expected + 1.0


def test_a_server_that_is_away_is_reported_soon_and_found_again_without_a_new_connection(start, connect):
    port = free_port()
    connection = connect(port)
    with pytest.raises(UnavailableError, match="cannot be reached: try again later"):
        connection.predict(predict_pb2.PredictRequest())
    troubled = Troubled()
    server, _ = start(troubled, port)
    until(lambda: answered(connection))
    server.stop(None).wait()
    with pytest.raises(UnavailableError):
        connection.predict(predict_pb2.PredictRequest())
    start(troubled, port)
    until(lambda: answered(connection))


def answered(connection):
    """Returns whether the connection is up."""
    try:
        connection.predict(predict_pb2.PredictRequest())
    except UnavailableError:
        return False
    return True


def test_a_server_that_takes_the_connection_and_says_nothing_is_unavailable(connect):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        connection = connect(silent.getsockname()[1])
        with pytest.raises(UnavailableError, match="cannot be reached"):
            connection.status(get_model_status_pb2.GetModelStatusRequest())
