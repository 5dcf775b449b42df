"""Versions that are available elsewhere and known here."""

import shutil

import pytest

from schemas.errors import InputError
from serving.client import evidence_state
from serving.connection import Connection
from serving.errors import UnavailableError
from serving.remote_models import RemoteModels


@pytest.fixture(scope="module")
def connection(server):
    connection = Connection(server.address, timeout_seconds=30.0)
    yield connection
    connection.close()


def test_a_version_needs_to_be_there_and_here(connection, model_base_path, tmp_path):
    for number in ("2", "3", "5"):
        shutil.copytree(model_base_path / "3", tmp_path / number)
    models = RemoteModels(connection, "triage")
    assert models.versions(tmp_path) == {3: tmp_path / "3"}
    (response,) = models.load(tmp_path / "3").triage([evidence_state(["fever"])])
    assert response.model_version == "3"


def test_no_common_version_is_told(connection, model_base_path, tmp_path):
    shutil.copytree(model_base_path / "3", tmp_path / "4")
    with pytest.raises(UnavailableError, match=r"serves the versions \[3\] of 'triage'; .* has \[4\]: expected"):
        RemoteModels(connection, "triage").versions(tmp_path)


def test_another_model_name_is_told(connection, model_base_path):
    with pytest.raises(UnavailableError, match="serves no model 'other': give its name with --model-name"):
        RemoteModels(connection, "other").versions(model_base_path)


def test_a_base_path_that_cannot_be_read_is_bad_input(connection, tmp_path):
    with pytest.raises(InputError, match="cannot read the model base path"):
        RemoteModels(connection, "triage").versions(tmp_path / "absent")
