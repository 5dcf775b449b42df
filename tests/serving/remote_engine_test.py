"""One version of a model elsewhere: the same answers, and a look at whether it is the same model."""

import json
import shutil

import pytest

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from serving.client import evidence_state
from serving.connection import Connection
from serving.errors import DeadlineError, GoneError
from serving.remote_engine import RemoteEngine


@pytest.fixture(scope="module")
def connection(server):
    connection = Connection(server.address, timeout_seconds=30.0)
    yield connection
    connection.close()


def test_the_answers_are_those_of_the_engine_in_this_process(connection, engine, model_base_path):
    remote = RemoteEngine(connection, "triage", model_base_path / "3")
    states = [
        evidence_state(["chest_pain"]),
        evidence_state(["fever", "gout"], ["smoker"], no_more_evidence=True),
        evidence_state(["fever"], ["fever", "smoker"], 3, max_questions=3),
    ]
    assert remote.triage(states) == engine.triage(states)
    assert (remote.info, remote.vocabulary) == (engine.info, engine.vocabulary)


def test_another_vocabulary_under_the_same_number_is_refused(connection, model_base_path, tmp_path):
    version = shutil.copytree(model_base_path / "3", tmp_path / "3")
    other = Vocabulary([Evidence("cough", "symptom", "Cough", "Do you cough?")])
    other.save(version / "assets" / "vocabulary.csv")
    manifest = json.loads((version / "manifest.json").read_text())
    (version / "manifest.json").write_text(json.dumps(manifest | {"vocabulary_fingerprint": other.fingerprint}))
    with pytest.raises(InputError, match="serves another model as version 3: its vocabulary is sha256:"):
        RemoteEngine(connection, "triage", version)


def test_a_version_that_is_not_served_there_is_gone(connection, model_base_path, tmp_path):
    version = shutil.copytree(model_base_path / "3", tmp_path / "4")
    with pytest.raises(GoneError, match="does not serve this model version"):
        RemoteEngine(connection, "triage", version)


def test_the_callers_deadline_ends_the_call(connection, model_base_path):
    remote = RemoteEngine(connection, "triage", model_base_path / "3")
    with pytest.raises(DeadlineError):
        remote.triage([evidence_state(["fever"])], timeout_seconds=0.0)
