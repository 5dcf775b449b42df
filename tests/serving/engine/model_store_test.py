"""A model base path in an object store, followed by a server."""

import shutil

import pytest
import tensorflow as tf

from schemas.errors import InputError
from serving.engine.model_store import StoredModels
from serving.engine.served_models import LocalModels
from serving.messages import state_message
from tests.builders import watching

BASE = "gs://bucket/models"


@pytest.fixture
def models():
    return StoredModels(LocalModels(), BASE)


def test_a_server_mirrors_the_store(object_store, model_base_path, hand_set, models):
    object_store.put(model_base_path / "3", f"{BASE}/3")
    watcher = watching(BASE, models)
    assert watcher.versions.default == 3
    with watcher.versions.borrow() as engine:
        (response,) = engine.triage([state_message(["chest_pain"])])
    assert [q.value for q in response.q_values] == pytest.approx(hand_set.chest_pain_q, abs=1e-6)
    object_store.put(model_base_path / "3", f"{BASE}/4", but=["saved_model.pb"])
    watcher.look()
    assert watcher.versions.default == 3, "the new one is still going up"
    object_store.write(f"{BASE}/4/saved_model.pb", (model_base_path / "3" / "saved_model.pb").read_bytes())
    watcher.look()
    assert watcher.versions.default == 4
    for name in object_store.names(f"{BASE}/4/"):
        object_store.delete(name)
    watcher.look()
    assert watcher.versions.default == 3
    assert [path.name for path in models.folder.iterdir()] == ["3"]


def test_a_store_that_cannot_be_reached_leaves_what_is_served(object_store, model_base_path, models, monkeypatch):
    object_store.put(model_base_path / "3", f"{BASE}/3")
    watcher = watching(BASE, models)

    def fail(*_):
        raise tf.errors.UnavailableError(None, None, "503 later")

    monkeypatch.setattr(tf.io.gfile, "isdir", fail)
    with pytest.raises(InputError, match=r"^gs://bucket/models: .*503 later"):
        models.versions(BASE)
    watcher.look()
    assert (watcher.versions.default, watcher.ready) == (3, True)


def test_an_address_that_is_one_version_is_refused(object_store, model_base_path, models):
    object_store.put(model_base_path / "3", BASE)
    with pytest.raises(InputError, match="one version"):
        models.versions(BASE)


def test_what_a_server_has_loaded_outlives_its_files(object_store, model_base_path, models):
    object_store.put(model_base_path / "3", f"{BASE}/3")
    models.versions(BASE)
    engine = LocalModels().load(models.folder / "3")
    shutil.rmtree(models.folder)
    assert len(engine.triage([state_message(["chest_pain"])])) == 1
