"""A model base path in an object store, followed by a server."""

import shutil

import pytest
import tensorflow as tf

from schemas.errors import InputError
from serving.engine.model_config import ModelConfig
from serving.engine.model_store import StoredModels
from serving.engine.served_models import LocalModels
from serving.engine.watcher import Watcher
from serving.messages import state_message

BASE = "gs://bucket/models"


def _put(store, folder, address, *, but=()):
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in but:
            store.write(f"{address}/{path.relative_to(folder).as_posix()}", path.read_bytes())


@pytest.fixture
def models():
    return StoredModels(LocalModels(), BASE)


def test_a_server_mirrors_the_store(object_store, model_base_path, hand_set, models):
    _put(object_store, model_base_path / "3", f"{BASE}/3")
    watcher = Watcher(models, ModelConfig("triage", BASE))
    watcher.look()
    assert watcher.versions.default == 3
    with watcher.versions.borrow() as engine:
        (response,) = engine.triage([state_message(["chest_pain"])])
    assert [q.value for q in response.q_values] == pytest.approx(hand_set.chest_pain_q, abs=1e-6)
    _put(object_store, model_base_path / "3", f"{BASE}/4", but=["saved_model.pb"])
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
    _put(object_store, model_base_path / "3", f"{BASE}/3")
    watcher = Watcher(models, ModelConfig("triage", BASE))
    watcher.look()

    def fail(*_):
        raise tf.errors.UnavailableError(None, None, "503 later")

    monkeypatch.setattr(tf.io.gfile, "isdir", fail)
    with pytest.raises(InputError, match=r"^gs://bucket/models: .*503 later"):
        models.versions(BASE)
    watcher.look()
    assert (watcher.versions.default, watcher.ready) == (3, True)


def test_a_fetch_that_breaks_off_leaves_no_version(object_store, model_base_path, models, monkeypatch):
    _put(object_store, model_base_path / "3", f"{BASE}/3")
    copy, copied = tf.io.gfile.copy, []

    def break_off(source, target, overwrite):
        if len(copied) == 2:
            raise tf.errors.UnavailableError(None, None, "503 later")
        copied.append(source)
        copy(source, target, overwrite)

    monkeypatch.setattr(tf.io.gfile, "copy", break_off)
    with pytest.raises(InputError, match="503 later"):
        models.versions(BASE)
    assert list(models.folder.iterdir()) == []
    monkeypatch.setattr(tf.io.gfile, "copy", copy)
    models.versions(BASE)
    assert [path.name for path in models.folder.iterdir()] == ["3"]


def test_an_address_that_is_one_version_is_refused(object_store, model_base_path, models):
    _put(object_store, model_base_path / "3", BASE)
    with pytest.raises(InputError, match="one version"):
        models.versions(BASE)


def test_what_a_server_has_loaded_outlives_its_files(object_store, model_base_path, models):
    _put(object_store, model_base_path / "3", f"{BASE}/3")
    models.versions(BASE)
    engine = LocalModels().load(models.folder / "3")
    shutil.rmtree(models.folder)
    assert len(engine.triage([state_message(["chest_pain"])])) == 1
