"""Names and questions in the language that a call prefers."""

import pytest

import triage_cli
from serving.call import preferred_language
from serving.client.channel import Connection
from serving.console.served_model import ServedModel
from tests.builders import http_to, served
from tests.serving.conftest import GERMAN
from triage_client import TriageClient, evidence_state

ASKED = {"fever": "Haben Sie das: Fieber?", "cough": "Haben Sie das: Husten?", "rash": "Is it so: rash?"}


@pytest.mark.parametrize(
    ("asked", "language"),
    [
        ("de", "de"),
        ("DE-ch", "de"),
        ("pt-BR", "pt-BR"),
        ("pt", ""),
        ("fr, de;q=0.5", "de"),
        ("de;q=0.5,it;q=0.9", "it"),
        ("en, de;q=0.9", ""),  # the vocabulary's own
        ("en-GB,de", ""),
        ("fr,en;q=0.9,de;q=0.8", ""),
        ("de;q=0", ""),
        ("", ""),
        ("*", ""),
        ("de;q=x, ;, it", "it"),
    ],
)
def test_the_most_preferred_language_that_is_there_is_chosen(asked, language):
    assert preferred_language([("accept-language", asked)], "en", {"de", "it", "pt-BR"}) == language


@pytest.fixture(scope="module")
def server(grouping_watcher):
    with served(grouping_watcher, http_port=0) as server:
        yield server


def test_grpc_calls_of_a_client_with_a_language_are_answered_in_it(server):
    with TriageClient(server.address, timeout_seconds=60.0, language="de-AT") as client:
        names = {entry.code: (entry.name, entry.question) for entry in client.vocabulary().entries}
        assert names["fever"] == ("Fieber", ASKED["fever"])
        assert names["rash"] == ("Rash", ASKED["rash"])  # which has no German
        state = evidence_state(["headache"])
        answers = [client.triage(state, questions=10), *client.batch_triage([state], questions=10)]
        with client.interview(questions=10) as interview:
            answers.append(interview.present("headache").response)
        for answer in answers:
            texts = {question.code: question.question for question in answer.next_questions}
            assert texts["cough"] == ASKED["cough"]
            assert answer.next_questions[0].question == "Haben Sie etwas davon?"
            assert all((text.startswith("Haben Sie")) == (code in GERMAN) for code, text in texts.items())


@pytest.mark.parametrize(("headers", "german"), [({"accept-language": "fr, de;q=0.8"}, True), ({}, False)])
def test_http_requests_are_answered_in_the_language_of_their_header(server, headers, german):
    with http_to(server) as client:
        body = {"present": ["headache"], "questions": 10}
        asked = client.post("/v1/triage", json=body, headers=headers).json()["next_questions"]
        assert ("Haben Sie das: Husten?" in [question["question"] for question in asked]) == german
        entries = client.get("/v1/vocabulary", headers=headers).json()["entries"]
        assert ("Fieber" in [entry["name"] for entry in entries]) == german


def test_the_console_and_triage_ask_call_in_their_language(server, capsys):
    with ServedModel(Connection(server.address, timeout=60.0, language="de")) as agent:
        assert agent.version().evidence["fever"].name == "Fieber"
        assert [entry.code for entry in agent.version().search.find("Husten")] == ["cough"]
    asked = ["ask", "--server", server.address, "--timeout", "60", "--present", "headache", "--questions", "9"]
    assert triage_cli.main([*asked, "--language", "de"]) == 0
    output = capsys.readouterr().out
    assert "Haben Sie etwas davon?" in output
    assert ASKED["cough"] in output
