"""One version of a model elsewhere: the same answers, and a look at whether it is the same model."""

import concurrent.futures
import json
import logging
import shutil
import socket

import grpc
import pytest
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from schemas.errors import InputError
from serving.engine.remote import Connection, RemoteEngine, RemoteModels
from serving.engine.saved_model import SavedModelEngine
from serving.engine.state_tensors import Wish
from serving.errors import DeadlineError, EngineError, ExhaustedError, GoneError, UnavailableError
from serving.messages import state_message
from tests.builders import served, symptoms
from tests.waiting import until


@pytest.fixture(scope="module")
def connection(server):
    connection = Connection(server.address, timeout_seconds=30.0)
    yield connection
    connection.close()


def test_the_answers_are_those_of_the_engine_in_this_process(connection, engine, model_base_path):
    remote = RemoteEngine(connection, "triage", model_base_path / "3")
    states = [
        state_message(["chest_pain"]),
        state_message(["fever", "gout"], ["smoker"], no_more_evidence=True),
        state_message(["fever"], ["fever", "smoker"], 3, max_questions=3),
    ]
    assert remote.triage(states) == engine.triage(states)
    assert (remote.info, remote.vocabulary) == (engine.info, engine.vocabulary)


def test_the_questions_are_those_of_the_engine_in_this_process(grouping_watcher, grouping_base_path):
    states = [state_message(["headache"]), state_message(["headache"], ["rash"])]
    with served(grouping_watcher) as server:
        connection = Connection(server.address, timeout_seconds=30.0)
        remote = RemoteEngine(connection, "triage", grouping_base_path / "1")
        responses = remote.triage(states, [Wish(2)] * 2)
        connection.close()
    assert responses == SavedModelEngine(grouping_base_path / "1").triage(states, [Wish(2)] * 2)
    assert [len(response.next_questions[0].any_of) for response in responses] == [3, 2]


def test_another_vocabulary_under_the_same_number_is_refused(connection, model_base_path, tmp_path):
    version = shutil.copytree(model_base_path / "3", tmp_path / "3")
    other = symptoms("cough", "rash", "chills")
    other.save(version / "assets" / "vocabulary.csv")
    manifest = json.loads((version / "manifest.json").read_text())
    (version / "manifest.json").write_text(json.dumps(manifest | {"vocabulary_fingerprint": other.fingerprint}))
    with pytest.raises(InputError, match=r"version 3: .*sha256:"):
        RemoteEngine(connection, "triage", version)


def test_a_version_must_be_remote_and_local(connection, model_base_path, tmp_path):
    for number in ("2", "3", "5"):
        shutil.copytree(model_base_path / "3", tmp_path / number)
    models = RemoteModels(connection, "triage")
    assert models.versions(tmp_path) == {3: tmp_path / "3"}
    (response,) = models.load(tmp_path / "3").triage([state_message(["fever"])])
    assert response.model_version == "3"


def test_another_model_name_is_reported(connection, model_base_path):
    with pytest.raises(UnavailableError, match=r"'other': .*--model-name"):
        RemoteModels(connection, "other").versions(model_base_path)


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
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), options=[("grpc.so_reuseport", int(port > 0))])
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
    with socket.socket() as reserved:  # nobody else takes the port meanwhile; it does not listen itself
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        connection = connect(port)
        with pytest.raises(UnavailableError, match="cannot be reached"):
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
