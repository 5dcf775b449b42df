"""`triage bench serve` from the command line, with the real servers and the real client, briefly."""

import contextlib
import json

import pytest

import triage_cli
from schemas.evidence import Evidence, Vocabulary
from serving.commands import bench_serve as serve
from serving.commands.bench_serve import http_body, make_requests
from serving.messages import state_message
from serving.service.validation import contradictions
from triage.v1 import triage_pb2, triage_service_pb2


@pytest.fixture(autouse=True)
def prepared(python, monkeypatch):
    """Starts the servers and the client as copies of a process in which TensorFlow is loaded already."""

    @contextlib.contextmanager
    def process(arguments, stdout, stdin=None):
        with python.start(*arguments, stdin=stdin, stdout=stdout, text=True) as started:
            try:
                yield started
            finally:
                started.terminate()

    monkeypatch.setattr(serve, "_process", process)


@pytest.mark.slow
def test_the_command_measures_all_servers_and_reports_each_goal(model_base_path, tmp_path, capsys):
    path = tmp_path / "bench.json"
    options = ["--model-base-path", str(model_base_path), "--rounds", "1", "--seconds", "0.1", "--http"]
    assert triage_cli.main(["bench", "serve", *options, "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert {(row["server"], row["concurrent"]) for row in report["rows"]} == {
        (server, level) for server in ("triage", "http", "empty", "plain") for level in (1, 4, 16, 64, "half load")
    }
    assert all(row["failed"] == 0 for row in report["rows"])
    assert all(row["calls_per_second"]["median"] > 0 for row in report["rows"])
    assert len(report["goals"]) == 5
    assert "| 64 | triage |" in capsys.readouterr().out


def test_the_body_asks_what_the_message_asks():
    state = state_message(["a", "b"], ["c"], 4)
    body = http_body(triage_service_pb2.TriageRequest(state=state, questions=3).SerializeToString())
    assert json.loads(body) == {"present": ["a", "b"], "absent": ["c"], "questions_asked": 4, "questions": 3}


def test_requests_are_the_same_for_the_same_seed_and_can_be_answered(vocabulary):
    requests = make_requests(vocabulary)
    assert requests == make_requests(vocabulary)
    (asked,) = {triage_service_pb2.TriageRequest.FromString(each).questions for each in make_requests(vocabulary, 2)}
    assert asked == 2
    for request in requests:
        evidence = triage_service_pb2.TriageRequest.FromString(request).state.evidence
        assert sorted(piece.code for piece in evidence) == sorted(vocabulary.codes)  # all three: it has no ten
        present = [piece.status == triage_pb2.EVIDENCE_STATUS_PRESENT for piece in evidence]
        assert present == [True, True, False]  # every other code is present, and those come first


def test_no_request_contradicts_itself():
    """Refusals cost more than answers, and only answers are counted."""
    ages = [Evidence(f"age_{number}", "risk_factor", "Age", "Age?", exclusive="age") for number in range(8)]
    fits = [Evidence(f"fit_{number}", "symptom", "Fit", "Fit?", parent="fits") for number in range(8)]
    vocabulary = Vocabulary([*ages, *fits, Evidence("fits", "symptom", "Fits", "Fits?")])
    for request in make_requests(vocabulary):
        state = triage_service_pb2.TriageRequest.FromString(request).state
        assert len(state.evidence) >= 5
        assert not list(contradictions(state, vocabulary))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--rounds", "0"], "--rounds 0: expected a whole number from 1"),
        (["--questions", "11"], "--questions 11: expected 0 to 10"),
        (["--seconds", "0"], "--seconds 0.0: expected a number of seconds above 0"),
        (["--serve-option=--port=-1"], "triage serve did not start; see its message above"),
    ],
)
def test_input_that_cannot_be_measured_is_reported_in_one_line(model_base_path, capsys, options, complaint):
    assert triage_cli.main(["bench", "serve", "--model-base-path", str(model_base_path), *options]) == 2
    assert capsys.readouterr().err.endswith(f"triage bench serve: error: {complaint}\n")


def test_a_base_path_without_a_model_is_reported(tmp_path, capsys):
    assert triage_cli.main(["bench", "serve", "--model-base-path", str(tmp_path)]) == 2
    assert "no model version here" in capsys.readouterr().err
