"""One version of a model elsewhere: the same answers, and a look at whether it is the same model."""

import json
import shutil

import pytest

from schemas.errors import InputError
from serving.engine.connection import Connection
from serving.engine.remote import RemoteEngine, RemoteModels
from serving.engine.saved_model import SavedModelEngine
from serving.errors import GoneError, UnavailableError
from serving.messages import state_message
from tests.builders import served, symptoms


@pytest.fixture(scope="module")
def connection(server):
    connection = Connection(server.address, timeout_seconds=30.0)
    yield connection
    connection.close()


def test_the_answers_are_those_of_the_engine_in_this_process(connection, engine, model_base_path):
    remote = RemoteEngine(connection, "triage", model_base_path / "3")
    states = [
        state_message(["chest_pain"]),
        state_message(["fever", "gout"], ["smoker"], no_more_evidence=True),
        state_message(["fever"], ["fever", "smoker"], 3, max_questions=3),
    ]
    assert remote.triage(states) == engine.triage(states)
    assert (remote.info, remote.vocabulary) == (engine.info, engine.vocabulary)


def test_the_questions_are_those_of_the_engine_in_this_process(grouping_watcher, grouping_base_path):
    states = [state_message(["headache"]), state_message(["headache"], ["rash"])]
    with served(grouping_watcher) as server:
        connection = Connection(server.address, timeout_seconds=30.0)
        remote = RemoteEngine(connection, "triage", grouping_base_path / "1")
        questions = remote.next_questions(states, 2)
        connection.close()
    assert questions == SavedModelEngine(grouping_base_path / "1").next_questions(states, 2)
    assert [len(row[0].any_of) for row in questions] == [3, 2]


def test_another_vocabulary_under_the_same_number_is_refused(connection, model_base_path, tmp_path):
    version = shutil.copytree(model_base_path / "3", tmp_path / "3")
    other = symptoms("cough", "rash", "chills")
    other.save(version / "assets" / "vocabulary.csv")
    manifest = json.loads((version / "manifest.json").read_text())
    (version / "manifest.json").write_text(json.dumps(manifest | {"vocabulary_fingerprint": other.fingerprint}))
    with pytest.raises(InputError, match="serves another model as version 3: its vocabulary is sha256:"):
        RemoteEngine(connection, "triage", version)


def test_a_version_that_the_remote_server_lacks_is_gone(connection, model_base_path, tmp_path):
    version = shutil.copytree(model_base_path / "3", tmp_path / "4")
    with pytest.raises(GoneError, match="does not serve this model version"):
        RemoteEngine(connection, "triage", version)


def test_a_version_must_be_remote_and_local(connection, model_base_path, tmp_path):
    for number in ("2", "3", "5"):
        shutil.copytree(model_base_path / "3", tmp_path / number)
    models = RemoteModels(connection, "triage")
    assert models.versions(tmp_path) == {3: tmp_path / "3"}
    (response,) = models.load(tmp_path / "3").triage([state_message(["fever"])])
    assert response.model_version == "3"


def test_no_common_version_is_reported(connection, model_base_path, tmp_path):
    shutil.copytree(model_base_path / "3", tmp_path / "4")
    with pytest.raises(UnavailableError, match=r"serves the versions \[3\] of 'triage'; .* has \[4\]: expected"):
        RemoteModels(connection, "triage").versions(tmp_path)


def test_another_model_name_is_reported(connection, model_base_path):
    with pytest.raises(UnavailableError, match="serves no model 'other': give its name with --model-name"):
        RemoteModels(connection, "other").versions(model_base_path)
