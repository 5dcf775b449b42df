"""Two models in one server, chosen by name over every route."""

import base64
import re

import grpc
import pytest
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)

from serving.config.settings import ServeConfig
from serving.engine.model_config import ModelConfig
from serving.engine.served_models import open_model
from serving.messages import state_message
from serving.monitor.audit_reader import LogCounts, read_cases
from tests.builders import channel_to, counted, http_to, predict_request, served
from triage.v1 import triage_service_pb2, triage_service_pb2_grpc
from triage_client import NotFoundError, PermissionDeniedError, TriageAction, TriageClient, evidence_state

PAIN = evidence_state(["chest_pain"])
DECISIONS = [("", "Red", "4"), ("adults", "Red", "4"), ("contrary", "Blue", "6")]
"""The name that a request gives, and the decision on chest pain and the version of the model that then answers."""
HTTP_STATE = {"present": ["chest_pain"]}


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory):
    return tmp_path_factory.mktemp("audit")


@pytest.fixture(scope="module")
def server(guarded_base_path, contrary_version, audit_log):
    """Serves version 4 of "adults", whose rules and novelty the other has not, and 6 of "contrary"."""
    watchers = []
    for name, base in (("adults", guarded_base_path), ("contrary", contrary_version.parent)):
        watchers.append(open_model(ServeConfig(), ModelConfig(name, str(base), labels={"stable": 4})))
        watchers[-1].look()
    with served(*watchers, http_port=0, metrics_port=0, audit_log=str(audit_log)) as server:
        yield server


@pytest.fixture(scope="module")
def http(server):
    with http_to(server) as client:
        yield client


def decided(response):
    return TriageAction.Name(response.action).removeprefix("TRIAGE_ACTION_").capitalize(), response.model_version


@pytest.mark.parametrize(("name", "action", "version"), DECISIONS)
def test_the_typed_service_answers_from_the_model_that_a_request_names(client, name, action, version):
    response = client.triage(PAIN, model=name)
    assert decided(response) == (action, version)
    assert bool(response.fired_rules) == response.HasField("novelty") == (version == "4")  # each has its own safeguards
    [response] = client.batch_triage([PAIN], model=name)
    assert decided(response) == (action, version)
    with client.interview(model=name) as interview:
        assert decided(interview.present("chest_pain").response) == (action, version)
    assert client.model_info(model=name).model_version == version
    assert len(client.vocabulary(model=name).entries) == 3


def test_a_model_lists_the_rules_that_are_part_of_it(client):
    rules = client.model_info(model="adults").rules
    assert [(rule.rule_id, rule.urgency, rule.stops_asking) for rule in rules] == [
        ("pain", TriageAction.TRIAGE_ACTION_RED, True), ("fever", TriageAction.TRIAGE_ACTION_YELLOW, False),
        ("hot_smoker", TriageAction.TRIAGE_ACTION_RED, True),
    ]  # fmt: skip
    assert {rule.source for rule in rules} == {triage_service_pb2.RULE_SOURCE_MODEL}
    assert not client.model_info(model="contrary").rules


def test_an_unknown_name_is_not_found_and_the_answer_lists_the_names(client, http):
    with pytest.raises(NotFoundError, match=r"'infants': .*adults, contrary$"):
        client.triage(PAIN, model="infants")
    answer = http.get("/v1/models/infants")
    assert answer.status_code == 404
    assert re.search("'infants': .*adults, contrary", answer.text)


@pytest.mark.parametrize(("name", "action", "version"), DECISIONS)
def test_our_http_api_answers_from_the_model_that_a_request_names(http, name, action, version):
    model = {"model": name} if name else {}
    answer = http.post("/v1/triage", json={**HTTP_STATE, **model}).json()
    assert (answer["action"], answer["model_version"]) == (action, version)
    [answer] = http.post("/v1/triage", json={"states": [HTTP_STATE], **model}).json()["answers"]
    assert (answer["action"], answer["model_version"]) == (action, version)
    assert http.post("/v1/interview", json={**HTTP_STATE, **model}).json()["decision"] == action
    assert http.get("/v1/model", params=model).json()["model_version"] == version
    assert http.get("/v1/vocabulary", params=model).status_code == 200


@pytest.mark.parametrize(("name", "action", "version"), DECISIONS[1:])
def test_tensorflow_servings_clients_get_the_model_of_their_model_spec(channel, http, name, action, version):
    spec = model_pb2.ModelSpec(name=name, signature_name="triage")
    state = state_message(["chest_pain"]).SerializeToString()
    request = predict_request({"evidence_states": [state]}, "triage", name=name)
    prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    answer = prediction.Predict(request, timeout=30)
    assert (answer.model_spec.name, answer.model_spec.version.value) == (name, int(version))
    metadata = get_model_metadata_pb2.GetModelMetadataRequest(model_spec=spec, metadata_field=["signature_def"])
    assert prediction.GetModelMetadata(metadata, timeout=30).model_spec.version.value == int(version)
    status = get_model_status_pb2.GetModelStatusRequest(model_spec=spec)
    [entry] = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(status, timeout=30).model_version_status
    assert entry.version == int(version)
    body = {"signature_name": "triage", "instances": [{"b64": base64.b64encode(state).decode()}]}
    [rest] = http.post(f"/v1/models/{name}:predict", json=body).json()["predictions"]
    assert base64.b64decode(rest["b64"]) == answer.outputs["triage_responses"].string_val[0]
    assert http.get(f"/v1/models/{name}").json()["model_version_status"][0]["version"] == version
    assert http.get(f"/v1/models/{name}/metadata").json()["model_spec"]["version"] == version


def test_metrics_and_audit_records_are_those_of_the_model_that_answered(server, client, audit_log):
    def counts_of(name):
        decided = counted(server, "triage_actions_total", model_name=name, action="Blue")
        return decided, counted(server, "triage_unknown_codes_total", model_name=name, outcome="refused")

    (decided, refused), others = counts_of("contrary"), counts_of("adults")
    client.triage(PAIN, model="contrary")
    with pytest.raises(Exception, match="gout"):
        client.triage(evidence_state(["gout"]), model="contrary")
    assert (counts_of("contrary"), counts_of("adults")) == ((decided + 1, refused + 1), others)
    assert counted(server, "triage_default_version", model_name="contrary") == 6
    server.telemetry.close()  # writes what waits
    for name, version in (("adults", 4), ("contrary", 6)):
        counts = LogCounts()
        assert {case.version for case in read_cases(audit_log, counts, name)} == {version}
        assert counts.others > 0


@pytest.fixture(scope="module")
def limited(server, tmp_path_factory):
    """Serves the same to a token for "adults" and to one for "contrary", also by FHIR and CDS Hooks."""
    folder = tmp_path_factory.mktemp("limited")
    (folder / "tokens").write_text("for-adults models=adults\nfor-contrary models=contrary,infants\n")
    (folder / "codes.csv").write_text("system,code,evidence\nhttp://snomed.info/sct,29857009,chest_pain\n")
    offered = {"fhir": "https://triage.example.org/fhir", "cds_codes": str(folder / "codes.csv")}
    with served(*server.models, http_port=0, tokens=str(folder / "tokens"), **offered) as server:
        yield server


def asked_over_grpc(channel, metadata):
    """Calls that ask "adults", by its name and as the first model; each returns once it is answered."""
    prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    typed = triage_service_pb2_grpc.TriageServiceStub(channel)
    spec, settings = model_pb2.ModelSpec(name="adults", signature_name="triage"), {"timeout": 30, "metadata": metadata}
    pain = state_message(["chest_pain"])
    for model in ("adults", ""):
        yield typed.Triage, triage_service_pb2.TriageRequest(state=pain, model=model), settings
        yield typed.BatchTriage, triage_service_pb2.BatchTriageRequest(states=[pain], model=model), settings
        yield typed.GetModelInfo, triage_service_pb2.GetModelInfoRequest(model=model), settings
        yield typed.GetVocabulary, triage_service_pb2.GetVocabularyRequest(model=model), settings
        first = triage_service_pb2.InterviewRequest(evidence=pain.evidence[0], settings={"model": model})
        yield lambda first, **settings: next(typed.Interview(iter([first]), **settings)), first, settings
    request = predict_request({"evidence_states": [pain.SerializeToString()]}, "triage", name="adults")
    yield prediction.Predict, request, settings
    signatures = get_model_metadata_pb2.GetModelMetadataRequest(model_spec=spec, metadata_field=["signature_def"])
    yield prediction.GetModelMetadata, signatures, settings
    status = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus
    yield status, get_model_status_pb2.GetModelStatusRequest(model_spec=spec), settings


ASKED_OVER_HTTP = [
    ("POST", "/v1/triage", {**HTTP_STATE, "model": "adults"}),
    ("POST", "/v1/triage", {"states": [HTTP_STATE]}),
    ("POST", "/v1/interview", HTTP_STATE),
    ("GET", "/v1/model?model=adults", None),
    ("GET", "/v1/vocabulary", None),
    ("GET", "/v1/models/adults", None),
    ("GET", "/v1/models/adults/metadata", None),
    ("GET", "/fhir/metadata", None),
    ("GET", "/fhir/Questionnaire/triage", None),
    ("POST", "/fhir/Questionnaire/$next-question", {"resourceType": "Parameters"}),
    ("GET", "/cds-services", None),
    ("POST", "/cds-services/triage", {}),
    ("POST", "/cds-services/triage/feedback", {}),
    ("POST", "/v1/models/adults:predict", {"signature_name": "triage", "instances": []}),
]


def test_a_token_for_some_models_permits_no_other_over_grpc(limited):
    with channel_to(limited.address) as channel:
        for call, request, settings in asked_over_grpc(channel, [("authorization", "Bearer for-adults")]):
            call(request, **settings)
        for call, request, settings in asked_over_grpc(channel, [("authorization", "Bearer for-contrary")]):
            with pytest.raises(grpc.RpcError) as error:
                call(request, **settings)
            assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED, request
            assert error.value.details().endswith("for contrary, infants")


@pytest.mark.parametrize(("method", "path", "body"), ASKED_OVER_HTTP)
def test_a_token_for_some_models_permits_no_other_over_http(limited, method, path, body):
    with http_to(limited) as client:

        def status(token):
            return client.request(method, path, json=body, headers={"authorization": f"Bearer {token}"}).status_code

        assert status("for-adults") in (200, 400, 404)  # 400 and 404 by those whose requests above are incomplete
        assert status("for-contrary") == 403


def test_a_token_does_not_show_which_other_models_there_are(limited):
    with TriageClient(limited.address, timeout_seconds=30.0, token="for-contrary") as client:  # noqa: S106
        assert client.model_info(model="contrary").model_version == "6"
        with pytest.raises(NotFoundError, match=r"'infants': .*has contrary$"):
            client.model_info(model="infants")
        for name in ("adults", "none-of-this-name"):
            with pytest.raises(PermissionDeniedError, match=f"model '{name}'"):
                client.model_info(model=name)
