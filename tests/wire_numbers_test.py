"""Actions have the numbers of one table on every route: a fifth level of urgency would not send or be read as `ask`.

It would stand before `ask` among the actions, behind it among the numbers on the wire; a route that adds or subtracts
one would then be wrong. Here `ask` has another number, so that such a route is wrong now.
"""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from schemas import triage
from schemas.answer import ANSWER, Kind
from schemas.model_directory import ModelInfo
from schemas.triage import Action
from serving.engine.state_tensors import Responses
from serving.messages import action_label, state_message
from serving.monitor.audit_reader import LogCounts, read_cases
from trainer.export import messages
from triage.v1 import triage_pb2

ASK = 6
INFO = ModelInfo("1", "sha256:0", "sha256:1", 1, 23, "{}")
EMPTY = {Kind.FLAG: np.array([False]), Kind.NUMBER: np.zeros(1, np.float32), Kind.CODES: np.array([[b""]], object)}
OUTPUTS = {tensor.name: EMPTY[tensor.kind] for tensor in ANSWER if tensor.kind in EMPTY} | {
    "q_values": np.zeros([1, 5], np.float32),
    "action": np.array([Action.ASK], np.int32),
    "best_triage": np.array([Action.BLUE], np.int32),
}


@pytest.fixture(autouse=True)
def another_number(monkeypatch):
    monkeypatch.setitem(triage.WIRE_NUMBERS, Action.ASK, ASK)
    monkeypatch.setattr(triage, "_ACTIONS_BY_WIRE_NUMBER", {n: action for action, n in triage.WIRE_NUMBERS.items()})


def test_the_graph_of_a_model_sends_it():
    tensors = {name: tf.constant(values) for name, values in OUTPUTS.items()}
    (answer,) = messages.encode_responses(tensors, tf.zeros([1, 0], tf.string), "1", "sha256:0").numpy()
    response = triage_pb2.TriageResponse.FromString(answer)
    assert (response.action, response.best_triage) == (ASK, triage_pb2.TRIAGE_ACTION_BLUE)
    assert [value.action for value in response.q_values] == [1, 2, 3, 4, ASK]


def test_the_server_sends_and_names_it():
    (response,) = Responses(INFO).of(OUTPUTS)
    assert (response.action, response.best_triage) == (ASK, triage_pb2.TRIAGE_ACTION_BLUE)
    assert (action_label(response.action), action_label(response.best_triage)) == ("ask", "Blue")


def test_the_monitor_reads_it(tmp_path):
    log = prediction_log_pb2.PredictionLog()
    response = triage_pb2.TriageResponse(action=ASK, best_triage=triage_pb2.TRIAGE_ACTION_BLUE)
    for tensors, name, message in (
        (log.predict_log.request.inputs, "evidence_states", state_message(["cough"])),
        (log.predict_log.response.outputs, "triage_responses", response),
    ):
        tensors[name].CopyFrom(tf.make_tensor_proto([message.SerializeToString()]))
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        writer.write(log.SerializeToString())
    (case,) = read_cases(tmp_path, LogCounts())
    assert case.action == Action.ASK
