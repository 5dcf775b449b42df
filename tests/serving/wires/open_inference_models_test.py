"""What is asked of models, apart from what carries it: a server that has lost its versions."""

import pathlib

import pytest

from serving.config.settings import ServeConfig
from serving.engine.served_models import ServedModels
from serving.engine.version_policy import Wanted
from serving.engine.versions import Versions
from serving.engine.watcher import Watcher
from serving.errors import NotFoundError
from serving.wires.open_inference_models import OpenModels, described_server
from serving.wires.signatures import Signatures


def models_of(watcher, config):
    return OpenModels(Signatures(ServedModels([watcher]), config))


class Nothing:
    """A source without versions."""

    def versions(self, base):
        return {}


def test_without_a_version_nothing_is_ready():
    watcher = Watcher(Versions("triage"), Nothing(), Wanted(pathlib.Path("models")))
    models = models_of(watcher, ServeConfig())
    assert not models.ready
    assert not models.is_ready("triage", "")
    with pytest.raises(NotFoundError, match=r"Latest\(triage\)"):
        models.metadata("triage", "")


def test_a_version_beyond_all_numbers_is_not_there(watcher, config):
    models = models_of(watcher, config)
    assert models.is_ready("triage", "3")
    assert not models.is_ready("triage", "9" * 30)


def test_the_server_names_itself():
    assert described_server()["name"] == "dyqn-triage"
    assert described_server()["extensions"] == ["binary_tensor_data"]
