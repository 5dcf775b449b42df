"""The console's own server."""

import pytest

from schemas.errors import InputError
from serving.console.local_server import serving
from triage_client import TriageClient, TriageError, evidence_state


def test_the_highest_version_answers_on_loopback_while_the_block_lasts(model_base_path):
    with serving(model_base_path) as address:
        assert address.startswith("127.0.0.1:")
        with TriageClient(address, timeout_seconds=30.0) as client:
            assert client.triage(evidence_state(["chest_pain"])).model_version == "3"
    with TriageClient(address, timeout_seconds=0.2) as client, pytest.raises(TriageError):
        client.triage(evidence_state(["chest_pain"]))


def test_a_folder_without_versions_is_bad_input(tmp_path):
    with pytest.raises(InputError, match=f"{tmp_path}: no model version"), serving(tmp_path):
        pass
