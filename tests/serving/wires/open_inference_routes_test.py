"""The Open Inference Protocol over HTTP: values in JSON, and as bytes behind it."""

import json

import numpy as np
import pytest

from serving.messages import state_message
from triage.v1 import triage_pb2

MODEL = "/v2/models/triage"
INPUTS = [
    {"name": "present", "datatype": "BYTES", "shape": [2, 2], "data": [["fever", "gout"], ["chest_pain", ""]]},
    {"name": "absent", "datatype": "BYTES", "shape": [2, 1], "data": ["smoker", ""]},
    {"name": "questions_asked", "datatype": "INT32", "shape": [2], "data": [0, 10]},
]


def test_health_needs_no_more_than_the_path(http):
    assert http.get("/v2/health/live").json() == {"live": True}
    assert http.get("/v2/health/ready").json() == {"ready": True}
    assert http.get(f"{MODEL}/ready").json() == {"name": "triage", "ready": True}
    assert http.get(f"{MODEL}/versions/3/ready").status_code == 200
    for path in (f"{MODEL}/versions/4/ready", "/v2/models/other/ready"):
        assert http.get(path).status_code == 404
        assert "not ready" in http.get(path).json()["error"]


def test_server_and_model_are_described(http):
    assert http.get("/v2").json()["extensions"] == ["binary_tensor_data"]
    model = http.get(f"{MODEL}/versions/3").json()
    assert (model["name"], model["versions"], model["platform"]) == ("triage", ["3"], "tensorflow_savedmodel")
    assert model["inputs"][2] == {"name": "questions_asked", "datatype": "INT32", "shape": [-1]}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{MODEL}/config"),
        ("GET", f"{MODEL}/versions/3/stats"),
        ("GET", "/v2/models/stats"),
        ("POST", "/v2/repository/index"),
        ("POST", "/v2/repository/models/triage/load"),
        ("GET", "/v2/systemsharedmemory/status"),
    ],
)
def test_what_triton_adds_to_the_protocol_is_said_not_to_be_there(http, method, path):
    answer = http.request(method, path)
    if path == "/v2/models/stats":  # also a name that a model may have
        assert (answer.status_code, "no model 'stats'" in answer.json()["error"]) == (404, True)
    else:
        assert (answer.status_code, answer.json()["title"]) == (501, "The server does not offer this")
        assert answer.json()["error"] == f"there is no {method} of this path: see /openapi.json"


def test_values_in_json_get_values_in_json(http, hand_set):
    answer = http.post(f"{MODEL}/infer", json={"id": "r-1", "inputs": INPUTS}).json()
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("triage", "3", "r-1")
    outputs = {each["name"]: each for each in answer["outputs"]}
    assert (outputs["q_values"]["datatype"], outputs["q_values"]["shape"]) == ("FP32", [2, 5])
    assert outputs["q_values"]["data"][5:] == pytest.approx(hand_set.chest_pain_q, abs=1e-6)
    assert outputs["action_label"]["data"] == ["ask", "Red"]
    assert outputs["forced"]["data"] == [False, True]
    assert outputs["unknown_codes"]["data"] == ["gout", ""]


def binary(http, content, tail, **headers):
    header = json.dumps(content).encode()
    headers = {"inference-header-content-length": str(len(header)), **headers}
    return http.post(f"{MODEL}/infer", content=header + tail, headers=headers)


def test_bytes_behind_the_json_get_bytes_behind_the_json(http):
    states, asked = np.float32([[0, 1, 0], [1, 0, 0]]).tobytes(), np.int32([10, 0]).tobytes()
    content = {
        "parameters": {"signature_name": "state"},
        "inputs": [
            {"name": "states", "datatype": "FP32", "shape": [2, 3], "parameters": {"binary_data_size": 24}},
            {"name": "questions_asked", "datatype": "INT32", "shape": [2], "parameters": {"binary_data_size": 8}},
        ],
        "outputs": [
            {"name": "action_label", "parameters": {"binary_data": True}},
            {"name": "forced", "parameters": {"binary_data": False}},
            {"name": "action", "parameters": {"binary_data": True}},
        ],
    }
    answer = binary(http, content, states + asked)
    length = int(answer.headers["inference-header-content-length"])
    outputs = json.loads(answer.content[:length])["outputs"]
    assert [each.get("parameters") for each in outputs] == [{"binary_data_size": 17}, None, {"binary_data_size": 8}]
    assert outputs[1]["data"] == [True, False]
    # Yellow and Red, each after its length; then their numbers.
    assert answer.content[length:] == b"\6\0\0\0Yellow\3\0\0\0Red" + np.int32([1, 0]).tobytes()


def test_messages_are_answered_as_bytes(http):
    state = state_message(["fever"], questions_asked=10).SerializeToString()
    tail = len(state).to_bytes(4, "little") + state
    given = {
        "name": "evidence_states",
        "datatype": "BYTES",
        "shape": [1],
        "parameters": {"binary_data_size": len(tail)},
    }
    content = {"parameters": {"signature_name": "triage", "binary_data_output": True}, "inputs": [given]}
    answer = binary(http, content, tail)
    length = int(answer.headers["inference-header-content-length"])
    response = triage_pb2.TriageResponse.FromString(answer.content[length + 4 :])
    assert response.action == triage_pb2.TRIAGE_ACTION_YELLOW
    del content["parameters"]["binary_data_output"]
    refused = binary(http, content, tail)
    assert (refused.status_code, "bytes that JSON cannot hold" in refused.json()["error"]) == (400, True)


def with_input(**changes):
    return {"inputs": [{**INPUTS[0], **changes}, *INPUTS[1:]]}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ([], "expected an object with inputs"),
        ({"id": 1, "inputs": INPUTS}, "id: expected a string"),
        ({"inputs": {}}, "inputs: expected a list of objects"),
        ({"inputs": INPUTS, "parameters": []}, "parameters: expected an object"),
        ({"inputs": INPUTS, "parameters": {"signature_name": 1}}, "signature_name: expected a string"),
        ({"inputs": INPUTS, "outputs": [{}]}, "expected a name for each input and output"),
        (
            {"inputs": INPUTS, "outputs": [{"name": "action", "parameters": {"classification": 1}}]},
            "no other parameters",
        ),
        ({"inputs": INPUTS, "outputs": [{"name": "q"}]}, "output tensor alias not found in signature: q"),
        (with_input(shape=[2, 3]), "present: expected as many values of type BYTES as fill the shape [2, 3]"),
        (with_input(shape="2"), "present: shape: expected a list of whole numbers"),
        (with_input(shape=[True]), "present: shape: expected a list of whole numbers"),
        (with_input(datatype=7), "present: datatype: expected a string"),
        (with_input(datatype="FP64"), "present: expected the datatype BYTES, got 'FP64'"),
        (with_input(data=[1, 2, 3, 4]), "present: expected lists of the same length, all of them strings"),
        (with_input(data="fever"), "present: expected a list of strings"),
        (with_input(parameters={"binary_data_size": 4}), "present: binary_data_size: expected the number of its bytes"),
        (with_input(parameters={"shared_memory_region": "r"}), "present: expected no other parameters than"),
        ({"inputs": INPUTS[:2]}, "Missing but required: {questions_asked}"),
    ],
)
def test_what_does_not_fit_is_refused(http, body, complaint):
    answer = http.post(f"{MODEL}/infer", content=json.dumps(body))
    assert answer.status_code == 400
    assert complaint in answer.json()["error"]


def test_lengths_that_do_not_fit_are_refused(http):
    assert binary(http, {"inputs": INPUTS}, b"abc").json()["detail"] == "3 bytes behind the JSON belong to no input"
    for length in ("1000000", "-1", "x"):
        answer = binary(http, {"inputs": INPUTS}, b"", **{"inference-header-content-length": length})
        assert "expected the length of the JSON" in answer.json()["error"]


def test_many_states_in_a_short_body_have_a_turn(http):
    tail = np.zeros([81, 3], np.float32).tobytes() + np.zeros(81, np.int32).tobytes()
    content = {
        "parameters": {"signature_name": "state"},
        "inputs": [
            {"name": "states", "datatype": "FP32", "shape": [81, 3], "parameters": {"binary_data_size": 972}},
            {"name": "questions_asked", "datatype": "INT32", "shape": [81], "parameters": {"binary_data_size": 324}},
        ],
    }
    assert "a batch of 81: the server takes at most 80" in binary(http, content, tail).json()["error"]
