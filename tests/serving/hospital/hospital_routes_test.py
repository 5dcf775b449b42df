"""What a hospital's systems call has the tokens, limits, records and failures of the typed route."""

import gzip

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
TOKEN = {"authorization": "Bearer secret-1"}
MOST_BYTES = 100_000

pytestmark = pytest.mark.parametrize("path", ROUTES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hospital")


@pytest.fixture(scope="module")
def settings(folder):
    (folder / "codes.csv").write_text(f"system,code,evidence\n{SYSTEM},25064002,headache\n")
    return {"http_port": 0, "fhir": "https://example.org/fhir", "cds_codes": str(folder / "codes.csv")}


@pytest.fixture(scope="module")
def client(asking_watcher, folder, settings):
    (folder / "tokens").write_text("secret-1\n")
    guarded = {"tokens": str(folder / "tokens"), "max_message_bytes": MOST_BYTES}
    with served(asking_watcher, **settings, **guarded) as server, http_to(server) as client:
        yield client


def _why(response):
    """What a failure says, as a problem or as an OperationOutcome."""
    body = response.json()
    return body["issue"][0]["diagnostics"] if "issue" in body else body["detail"]


@pytest.mark.parametrize("header", [{}, {"authorization": "Bearer secret-2"}])
def test_a_token_is_wanted(client, path, header):
    refused = client.post(path, json=ROUTES[path], headers=header)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert client.post(path, json=ROUTES[path], headers=TOKEN).status_code == 200


@pytest.mark.parametrize(
    ("headers", "content", "status", "why"),
    [
        ({}, b"{", 400, "not JSON"),
        ({}, b" " * (MOST_BYTES + 1), 413, f"at most {MOST_BYTES}"),
        ({"content-encoding": "gzip"}, gzip.compress(b"{}"), 415, "compressed"),
    ],
)
def test_bodies_have_the_same_limits_and_their_failures_the_same_words(client, path, headers, content, status, why):
    response = client.post(path, content=content, headers=TOKEN | headers)
    assert response.status_code == status
    assert why in _why(response)


def test_answers_are_recorded_under_the_id_of_the_request(asking_watcher, settings, path, tmp_path):
    with served(asking_watcher, audit_log=str(tmp_path), **settings) as server, http_to(server) as client:
        answer = client.post(path, json=ROUTES[path], headers={"x-request-id": "r-17"})
        assert answer.headers["x-request-id"] == "r-17"
    [file] = tmp_path.iterdir()
    [record] = tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
    log = prediction_log_pb2.PredictionLog.FromString(record)
    assert log.log_metadata.request_origin == "r-17"
    [state] = tf.make_ndarray(log.predict_log.request.inputs["evidence_states"])
    assert [piece.code for piece in triage_pb2.EvidenceState.FromString(state).evidence] == ["headache"]
