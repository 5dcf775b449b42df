"""What a hospital's systems call is recorded as calls of the typed route are; openapi_test.py has the refusals."""

import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from tests.builders import http_to, served
from triage.v1 import triage_pb2

SYSTEM = "urn:example:codes"
CONDITION = {"resourceType": "Condition", "code": {"coding": [{"system": SYSTEM, "code": "25064002"}]}}
ROUTES = {
    "/v1/triage": {"present": ["headache"]},
    "/fhir/Questionnaire/$next-question": {
        "resourceType": "QuestionnaireResponse", "status": "in-progress",
        "item": [{"linkId": "headache", "answer": [{"valueBoolean": True}]}],
    },
    "/cds-services/triage": {
        "hook": "patient-view", "hookInstance": "d1577c69", "context": {"patientId": "1288992"},
        "prefetch": {"conditions": {"resourceType": "Bundle", "entry": [{"resource": CONDITION}]}},
    },
}  # fmt: skip


@pytest.mark.parametrize("path", ROUTES)
def test_answers_are_recorded_under_the_id_of_the_request(asking_watcher, path, tmp_path):
    codes, log = tmp_path / "codes.csv", tmp_path / "log"
    codes.write_text(f"system,code,evidence\n{SYSTEM},25064002,headache\n")
    offered = {"http_port": 0, "fhir": "https://example.org/fhir", "cds_codes": str(codes), "audit_log": str(log)}
    with served(asking_watcher, **offered) as server, http_to(server) as client:
        answer = client.post(path, json=ROUTES[path], headers={"x-request-id": "r-17"})
        assert answer.headers["x-request-id"] == "r-17"
    [file] = log.iterdir()
    [record] = tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
    log = prediction_log_pb2.PredictionLog.FromString(record)
    assert log.log_metadata.request_origin == "r-17"
    [state] = tf.make_ndarray(log.predict_log.request.inputs["evidence_states"])
    assert [piece.code for piece in triage_pb2.EvidenceState.FromString(state).evidence] == ["headache"]
