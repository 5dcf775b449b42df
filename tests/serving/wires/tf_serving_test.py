"""TensorFlow Serving's REST API: the same figures as gRPC, in rows and columns."""

import base64

import pytest

from schemas import features
from serving.messages import state_message
from triage.v1 import triage_pb2

ROW = {"present": ["chest_pain", {"b64": ""}], "absent": ["fever", ""], "questions_asked": 1}


def test_rows_give_rows_and_columns_give_columns(http, hand_set):
    rows = http.post("/v1/models/triage:predict", json={"instances": [ROW, {**ROW, "questions_asked": 10}]})
    assert rows.status_code == 200
    predictions = rows.json()["predictions"]
    assert [row["forced"] for row in predictions] == [False, True]
    columns = http.post(
        "/v1/models/triage/versions/3:predict", json={"inputs": {name: [value] for name, value in ROW.items()}}
    ).json()["outputs"]
    assert columns["q_values"][0] == pytest.approx(predictions[0]["q_values"], abs=1e-6)
    assert columns["action_label"] == ["Red"]
    only = {"signature_name": "state", "instances": [{"states": [1, 0, 0], "questions_asked": 0}]}
    (state,) = http.post("/v1/models/triage/labels/stable:predict", json=only).json()["predictions"]
    assert state["q_values"] == pytest.approx(hand_set.chest_pain_q, abs=1e-6)


def test_an_only_input_and_output_need_no_name_and_bytes_are_base64(http):
    message = {"b64": base64.b64encode(state_message(["chest_pain"]).SerializeToString()).decode()}
    for body in ({"instances": [message]}, {"inputs": [message]}):
        answer = http.post("/v1/models/triage:predict", json={"signature_name": features.TRIAGE, **body}).json()
        ((encoded),) = answer.get("predictions") or answer["outputs"]
        response = triage_pb2.TriageResponse.FromString(base64.b64decode(encoded["b64"]))
        assert response.action == triage_pb2.TRIAGE_ACTION_RED


def test_status_and_metadata_are_those_of_the_services(http):
    (status,) = http.get("/v1/models/triage").json()["model_version_status"]
    assert status == {"version": "3", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    assert http.get("/v1/models/triage/versions/3").json() == {"model_version_status": [status]}
    metadata = http.get("/v1/models/triage/metadata").json()
    assert metadata["model_spec"] == {"name": "triage", "signature_name": "", "version": "3"}
    signatures = metadata["metadata"]["signature_def"]["signature_def"]
    assert signatures["state"]["inputs"]["states"]["dtype"] == "DT_FLOAT"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "instances or inputs"),
        ({"instances": [ROW], "inputs": {}}, "instances or inputs"),
        ({"instances": {}}, "instances: "),
        ({"instances": [{"present": ["fever"]}]}, "absent, present, questions_asked, got present"),
        ({"instances": [["fever"]]}, "absent, present, questions_asked"),
        ({"instances": [ROW, {**ROW, "present": ["fever"]}]}, "present: "),
        ({"instances": [{**ROW, "questions_asked": 1.5}]}, "questions_asked: "),
        ({"instances": [{**ROW, "questions_asked": True}]}, "questions_asked: "),
        ({"instances": [{**ROW, "questions_asked": 2**31}]}, "questions_asked: "),
        ({"instances": [{**ROW, "present": [1]}]}, "present: "),
        ({"instances": [{**ROW, "present": [{"b64": "?"}]}]}, "present: "),
        ({"instances": [ROW], "signature_name": "other"}, '"other"'),
        ({"instances": [ROW], "signature_name": 3}, "signature_name: "),
    ],
)
def test_a_faulty_body_is_refused_with_the_input_that_is_wrong(http, body, named):
    answer = http.post("/v1/models/triage:predict", json=body)
    assert answer.status_code == 400
    assert named in answer.json()["error"]


@pytest.mark.parametrize(
    "path", ["other", "triage/versions/4", "triage/versions/x", "triage/versions/9223372036854775808"]
)
def test_a_model_or_version_that_is_not_served_is_not_found(http, path):
    assert http.get(f"/v1/models/{path}").status_code == 404
    assert http.post(f"/v1/models/{path}:predict", json={"instances": [ROW]}).status_code == 404
