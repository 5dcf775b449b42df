"""fhirpy, a FHIR client that knows nothing of this server, conducts an interview, in an environment of its own."""

import json
import subprocess

import pytest

from tests.builders import served

INTERVIEW = """
import json, sys
from fhirpy import SyncFHIRClient
from fhirpy.base.exceptions import OperationOutcome

client = SyncFHIRClient(sys.argv[1])
offered = client.execute("metadata", method="get")
questionnaire = client.reference("Questionnaire", "triage").to_resource()
form = client.resource(
    "QuestionnaireResponse", status="in-progress", questionnaire="#triage",
    contained=[{"resourceType": "Questionnaire", "id": "triage", "status": "active"}],
)
said = []
while form["status"] == "in-progress":
    form = client.execute("Questionnaire/$next-question", data=form.serialize() if not said else form)
    contained = {each["resourceType"]: each for each in form["contained"]}
    if form["status"] == "in-progress":
        asked = contained["Questionnaire"]["item"][-1]
        wanted = "Yes" if said else "Headache"
        [answer] = [each for each in asked["answerOption"] if each["valueCoding"]["display"] == wanted]
        form.setdefault("item", []).append({"linkId": asked["linkId"], "answer": [answer]})
        said.append(asked["linkId"])
try:
    client.execute("Questionnaire/$next-question", data={"resourceType": "Patient"})
except OperationOutcome as error:
    refused = error.resource["issue"][0]["diagnostics"]
operations = [each["name"] for each in offered["rest"][0]["resource"][0]["operation"]]
print(json.dumps([operations, questionnaire["id"], said, contained["RiskAssessment"], refused]))
"""


@pytest.mark.slow
def test_a_foreign_client_goes_from_the_capability_statement_to_a_decision(environment_of, asking_watcher):
    python = environment_of("fhirpy", "fhirpy==2.3.1")
    with served(asking_watcher, http_port=0, fhir="https://triage.example.org/fhir") as server:
        command = [python, "-c", INTERVIEW, f"{server.http.url}/fhir"]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=120, env={"NO_PROXY": "*"})
    assert finished.returncode == 0, finished.stderr
    operations, questionnaire, said, risk, refused = json.loads(finished.stdout)
    assert (operations, questionnaire) == (["next-question"], "triage")
    assert said[0] == "complaint"
    assert len(said) > 1
    assert risk["status"] == "final"
    assert risk["prediction"][0]["outcome"]["text"] in ("Red", "Yellow", "Green", "Blue")
    assert "QuestionnaireResponse" in refused
