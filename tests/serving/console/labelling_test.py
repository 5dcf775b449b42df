"""The pages on which a clinician labels."""

import json

import pytest
from starlette.testclient import TestClient

from serving.client.channel import Connection
from serving.console.agent import Agent
from serving.console.application import Console, application
from serving.console.labelling import Labelling
from serving.console.labels import Labels, read_vignettes
from serving.console.pages import Pages

LINES = (
    {"vignette_id": "v1", "present": ["fever", "smoker"], "absent": [], "decisions": ["Blue", "Green", "Blue"]},
    {"vignette_id": "v2", "present": ["chest_pain"], "absent": ["fever", "smoker"]},
)


@pytest.fixture
def pages_of(vocabulary, tmp_path):
    """Returns a browser on the pages for labelling `LINES`, with the model of an agent."""
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))

    def make(agent):
        pages = Pages(labels=True)
        labels = Labels(tmp_path / "out.jsonl", read_vignettes(tmp_path / "in.jsonl", vocabulary), vocabulary)
        app = application(Console(agent, pages), Labelling(agent, pages, labels))
        return TestClient(app, base_url="http://localhost")

    return make


def test_a_vignette_is_read_without_anybody_s_decision(agent, pages_of):
    page = pages_of(agent).get("/label").text
    assert "Vignette v1" in page
    assert "<b>fever, by name</b>" in page
    assert "0 of 2 labelled" in page
    assert "clinician" not in page
    assert "Q-value" not in page


def test_after_the_decision_the_others_and_the_model_are_shown(agent, pages_of, tmp_path):
    browser = pages_of(agent)
    page = browser.post("/label", data={"vignette_id": "v1", "decision": "Yellow"}).text
    assert 'You decided <span class="chip yellow">Yellow</span>' in page
    assert '<span class="chip blue">Blue</span> 2 clinicians' in page
    assert '<span class="chip green">Green</span> 1 clinician<' in page
    assert '<h2 id="decision"><span class="chip yellow">Yellow</span>' in page  # fever; asking is not possible
    assert json.loads((tmp_path / "out.jsonl").read_text())["decisions"] == ["Blue", "Green", "Blue", "Yellow"]
    page = browser.get("/label").text
    assert "Vignette v2" in page
    assert "<li>not: smoker, by name</li>" in page
    page = browser.post("/label", data={"vignette_id": "v2", "decision": "Red"}).text
    assert "Nobody else has decided." in page
    assert "All vignettes are labelled" in browser.get("/label").text


def test_a_changed_mind_comes_too_late(agent, pages_of):
    browser = pages_of(agent)
    browser.post("/label", data={"vignette_id": "v1", "decision": "Yellow"})
    response = browser.post("/label", data={"vignette_id": "v1", "decision": "Red"})
    assert (response.status_code, "you decided Yellow" in response.text) == (400, True)


def test_the_decision_is_kept_where_the_model_does_not_answer(agent, pages_of, tmp_path, monkeypatch):
    with Agent(Connection("127.0.0.1:1", timeout=0.5)) as gone:
        monkeypatch.setattr(gone, "model", agent.model)  # the server went away after the start
        page = pages_of(gone).post("/label", data={"vignette_id": "v2", "decision": "Red"}).text
    assert "no server at 127.0.0.1:1" in page
    assert "Your decision is in the file." in page
    assert json.loads((tmp_path / "out.jsonl").read_text())["decisions"] == ["Red"]


def test_without_vignettes_there_is_nothing_to_label(browser):
    assert browser.get("/label").status_code == 404
