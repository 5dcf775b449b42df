"""Versions on this machine's disk, and that one which is let go gives its memory back."""

import contextvars
import dataclasses
import gc
import pathlib
import shutil
import threading
import weakref

import pytest
import tensorflow as tf

from schemas.errors import InputError
from serving.call import Call, current, enter
from serving.config.settings import ServeConfig
from serving.engine.model_config import ModelConfig
from serving.engine.served_models import LocalModels, ServedModels, open_model
from serving.engine.versions import Versions
from serving.engine.watcher import Watcher
from serving.errors import NotFoundError, PreconditionError, UnavailableError
from serving.messages import action_label, state_message
from tests.serving.engine.conftest import Folders
from trainer.export.signing import sign


def test_a_version_that_does_not_answer_its_warm_up_requests_is_not_loaded(model_base_path, tmp_path):
    version = shutil.copytree(model_base_path / "3", tmp_path / "4")
    (version / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"no record of anything at all")
    with pytest.raises(InputError, match="request 1 failed"):
        LocalModels().load(version)


def test_a_model_that_nobody_holds_is_freed(model_base_path, monkeypatch):
    loaded = weakref.WeakSet()

    class Session(tf.compat.v1.Session):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            loaded.add(self)

    monkeypatch.setattr(tf.compat.v1, "Session", Session)
    engine = LocalModels().load(model_base_path / "3")
    loaded.add(engine.litert)
    assert len(loaded) == 2
    del engine
    gc.collect()
    assert not loaded


@pytest.fixture
def two(tmp_path):
    """Two models, each with version 3, and a base path for each with version 4."""

    def base(name, version):
        folders = Folders(tmp_path / name)
        folders.put(version)
        return folders

    def opened(model):
        return Watcher(source, model)

    names = ("adults", "children")
    bases = {name: base(name, 3) for name in names}
    source = bases["adults"]  # which loads from any base path
    watchers = [opened(ModelConfig(name, str(bases[name].base))) for name in names]
    for watcher in watchers:
        watcher.look()
    return ServedModels(watchers, opened), [ModelConfig(name, str(base(f"new {name}", 4).base)) for name in names]


def defaults(models):
    return {model.versions.model_name: model.versions.default for model in models}


def test_a_name_becomes_a_model_which_the_call_then_has_and_none_is_the_first(two):
    models, _ = two

    def named(name):
        enter(Call())
        return models.named(name).versions.model_name, current().model_name

    for name, expected in (("adults", "adults"), ("children", "children"), ("", "adults")):
        assert contextvars.copy_context().run(named, name) == (expected, expected)
    with pytest.raises(NotFoundError, match=r"'infants': .*adults, children$"):
        models.named("infants")


def test_a_model_that_is_added_is_found_and_one_that_is_left_out_ends_with_its_last_call(two):
    models, (_, children) = two
    adults, seen = models.named("adults"), []
    models.on_each(lambda model: seen.append(model.versions.model_name))
    infants = dataclasses.replace(children, name="infants")
    with adults.versions.borrow() as engine:
        models.change([infants, children])
        assert engine.folder.name == "3"
        assert adults.versions.draining
    assert not adults.versions.draining
    assert defaults(models) == {"infants": 4, "children": 4}
    assert models.named("").versions.model_name == "infants"  # the first of the new list
    assert seen == ["adults", "children", "infants"]
    with pytest.raises(NotFoundError, match=r"'adults': .*infants, children$"):
        models.named("adults")
    with pytest.raises(UnavailableError), adults.versions.borrow():
        pass  # a call that looked the model up before it went
    adults.run(0.0, threading.Event(), lambda: None)  # ends by itself


def test_an_added_model_that_cannot_be_served_leaves_all_as_they_are(two):
    models, wanted = two
    pathlib.Path(wanted[1].base_path, "4", "model").write_text("half")
    infants = dataclasses.replace(wanted[1], name="infants")
    with pytest.raises(PreconditionError, match=r"infants .*4: damaged$"):
        models.change([wanted[0], infants])
    assert defaults(models) == {"adults": 3, "children": 3}
    with pytest.raises(NotFoundError):
        models.named("infants")


def test_a_reload_changes_no_model_if_one_of_them_cannot_be_served(two, monkeypatch):
    models, wanted = two
    switched = []
    monkeypatch.setattr(Versions, "set_default", lambda versions, number: switched.append(number))
    pathlib.Path(wanted[1].base_path, "4", "model").write_text("half")
    with pytest.raises(PreconditionError, match=r"children .*4: damaged$"):
        models.change(wanted)
    assert switched == []  # not even for a moment
    assert defaults(models) == {"adults": 3, "children": 3}
    states = [(status.version, status.state.name) for model in models for status in model.versions.statuses()]
    assert states == [(3, "AVAILABLE"), (4, "END")] * 2


@pytest.mark.parametrize("settings", [{"litert": True}, {"litert": False}, {"engine": "litert"}])
def test_a_version_that_is_not_what_was_signed_leaves_the_one_before_in_place(
    settings, model_base_path, contrary_version, signing_key, tmp_path, caplog
):
    key, public = signing_key
    base = tmp_path / "models"
    for folder in (model_base_path / "3", contrary_version):
        sign(shutil.copytree(folder, base / folder.name), key)
    weights = base / "6" / "variables" / "variables.data-00000-of-00001"
    signed = weights.read_bytes()
    weights.write_bytes(bytes([signed[0] ^ 1]) + signed[1:])
    config = ServeConfig(require_signature=public, **settings)
    watcher = open_model(config, ModelConfig("triage", str(base)))

    def answer():
        watcher.look()
        with watcher.versions.borrow() as engine:
            (response,) = engine.triage([state_message(["chest_pain"])])
        return response.model_version, action_label(response.best_triage)

    assert answer() == ("3", "Red")
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert f" {weights}: is not the file " in record.getMessage()
    weights.write_bytes(signed)
    assert answer() == ("6", "Blue")
