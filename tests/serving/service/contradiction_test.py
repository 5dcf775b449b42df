"""Evidence that cannot be so together is refused by every route, or handed over to a person where one asks for that.

The model's vocabulary has the relations of the knowledge base: who has crushing chest pain has chest pain.
"""

import json
import re

import pytest

import triage_cli
from dyqn_triage.model import Model
from schemas.errors import InputError
from serving.client.channel import ConnectionOptions
from serving.console.case import ABSENT, PRESENT, Case, Statement
from serving.console.served_model import ServedModel
from tests.builders import http_to, served
from triage_client import InvalidArgumentError, TriageError, evidence_state

FAULT = "'crushing_chest_pain' is present and 'chest_pain' absent"
CODES = ["chest_pain", "crushing_chest_pain"]
STATE = evidence_state(["crushing_chest_pain", "cough"], ["chest_pain"])
BODY = {"present": ["crushing_chest_pain"], "absent": ["chest_pain"]}


@pytest.fixture(scope="module")
def server(asking_watcher, tmp_path_factory):
    codes = tmp_path_factory.mktemp("codes") / "codes.csv"
    codes.write_text("system,code,evidence\nurn:x,1,crushing_chest_pain\nurn:x,2,!chest_pain\n")
    with served(asking_watcher, http_port=0, fhir="https://example.org/fhir", cds_codes=str(codes)) as server:
        yield server


@pytest.mark.parametrize(
    "ask",
    [
        lambda client, **more: client.triage(STATE, **more),
        lambda client, **more: client.batch_triage([STATE], **more)[0],
    ],
    ids=["one state", "batch"],
)
def test_grpc_refuses_it_or_hands_it_over(client, ask):
    with pytest.raises(InvalidArgumentError, match=FAULT):
        ask(client)
    answer = ask(client, defer_below=0.0)
    assert (answer.deferred, sorted(answer.conflicting_codes)) == (1, CODES)


def test_an_interview_ends_with_it(client):
    with client.interview() as interview:
        interview.absent("chest_pain")
        with pytest.raises(TriageError, match=FAULT):
            interview.present("crushing_chest_pain")
    with client.interview(defer_below=0.0) as interview:
        assert not interview.absent("chest_pain").ended
        last = interview.present("crushing_chest_pain")
    assert (last.ended, last.response.deferred) == (True, 1)


@pytest.mark.parametrize("path", ["/v1/triage", "/v1/interview"])
def test_http_refuses_it_or_hands_it_over(server, path):
    with http_to(server) as http:
        refused = http.post(path, json=BODY)
        assert (refused.status_code, refused.json()["errors"][0]["reason"]) == (400, "CONTRADICTORY_EVIDENCE")
        answer = http.post(path, json=BODY | {"defer_below": 0.0}).json()
    assert answer.get("answer", answer)["deferred"] == "contradictory"


def test_a_card_hands_it_over(server):
    conditions = [
        {"resourceType": "Condition", "code": {"coding": [{"system": "urn:x", "code": each}]}} for each in "12"
    ]
    hook = {"hook": "patient-view", "hookInstance": "i", "context": {"patientId": "p"},
            "prefetch": {"conditions": {"entry": [{"resource": each} for each in conditions]}}}  # fmt: skip
    with http_to(server) as http:
        [card] = http.post("/cds-services/triage", json=hook).json()["cards"]
    assert re.match("A person .*contradicts", card["summary"])


def test_an_adaptive_form_hands_it_over(server):
    said = [{"linkId": code, "answer": [{"valueBoolean": yes}]} for code, yes in zip(CODES, (False, True), strict=True)]
    form = {"resourceType": "QuestionnaireResponse", "status": "in-progress", "item": said}
    with http_to(server) as http:
        completed = http.post("/fhir/Questionnaire/$next-question", json=form).json()
    [decided] = [each for each in completed["contained"] if each["resourceType"] == "RiskAssessment"]
    assert (completed["status"], decided["status"]) == ("completed", "final")
    assert re.match("A person .*contradicts", decided["note"][1]["text"])


def test_commands_refuse_it_or_hand_it_over(server, asking_base_path, tmp_path, capsys):
    ask = ["ask", "--server", server.address, "--present", "crushing_chest_pain", "--absent", "chest_pain"]
    assert triage_cli.main(ask) == 2
    assert FAULT in capsys.readouterr().err
    assert triage_cli.main([*ask, "--defer-below", "0"]) == 0
    shown = capsys.readouterr().out
    assert re.search("contradict.*\n(.*\n)*.*: crushing_chest_pain, chest_pain\n", shown)
    (tmp_path / "in.jsonl").write_text(json.dumps({"vignette_id": "v1", **BODY}) + "\n")
    score = ["score", "--model", str(asking_base_path), "--input", str(tmp_path / "in.jsonl")]
    assert triage_cli.main([*score, "--output", str(tmp_path / "out")]) == 2
    assert f"line 1, 'v1': {FAULT}" in capsys.readouterr().err
    assert triage_cli.main([*score, "--output", str(tmp_path / "out"), "--defer-below", "0"]) == 0
    answer = json.loads((tmp_path / "out" / "in.jsonl").read_text())
    assert (answer["deferred"], sorted(answer["conflicting_codes"])) == ("contradictory", CODES)


def test_the_console_hands_it_over(server):
    case = Case((Statement("chest_pain", ABSENT, False), Statement("crushing_chest_pain", PRESENT, False)))
    with ServedModel(ConnectionOptions(server.address, timeout=60.0)) as agent:
        answer = agent.answer(case)
    assert (answer.response.deferred, answer.asks) == (1, False)


def test_a_notebook_hands_it_over(asking_base_path):
    with Model(asking_base_path) as model:
        interview = model.interview(["crushing_chest_pain"], ["chest_pain"])
        assert (interview.figures["deferred"], interview.question) == ("contradictory", None)
        with pytest.raises(InputError, match="is over"):
            interview.answer(True)
