"""A version of a servable: complete, consistent, and invisible until it is whole."""

import dataclasses
import hashlib
import json

import numpy as np
import pytest
import tensorflow as tf

from schemas import danger_signs
from schemas.danger_signs import DangerSigns
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from tests.builders import symptoms, trained_agent, write_version
from trainer.config import NetworkConfig
from trainer.dyqn.network import build_network
from trainer.export import saved_model

VOCABULARY = symptoms("cough", "fever")


@pytest.fixture(scope="module")
def trained():
    return trained_agent(
        build_network(2, NetworkConfig(hidden_sizes=(4,)), seed=1), VOCABULARY,
        config={"environment": {"max_questions": 23}}, metrics={"appropriateness": 0.9},
        training={"steps": 5, "episodes": 3},
    )  # fmt: skip


@pytest.fixture(scope="module")
def version(trained, made_once):
    return made_once("small", lambda folder: write_version(folder / "models", trained)) / "models" / "1"


@pytest.fixture
def stubborn(trained, monkeypatch):
    """Makes the last step of an export fail, and records what stood in the base path just before."""
    seen = []

    def fail(path, vocabulary, model_name):
        seen.extend(entry.name for entry in path.parents[2].iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(saved_model, "write_warmup_requests", fail)
    return seen


def test_a_version_has_all_its_files(version):
    files = {path.relative_to(version).as_posix() for path in version.rglob("*") if path.is_file()}
    assert files >= {
        "saved_model.pb",
        "variables/variables.index",
        "assets/vocabulary.csv",
        "assets.extra/tf_serving_warmup_requests",
        "manifest.json",
    }
    assert Vocabulary.load(version / "assets/vocabulary.csv") == VOCABULARY
    assert [entry.name for entry in version.parent.iterdir()] == ["1"]


def test_a_version_carries_a_table_that_only_says_what_is_not_asked(trained, tmp_path):
    signs = DangerSigns({}, {"cough": ("fever",)})
    version = write_version(tmp_path, dataclasses.replace(trained, signs=signs))
    content = (version / "assets.extra/danger_signs.toml").read_bytes()
    assert danger_signs.load(version / "assets.extra/danger_signs.toml", VOCABULARY) == signs
    described = json.loads((version / "manifest.json").read_text(encoding="utf-8"))["danger_signs"]
    assert described == {"complaints": 0, "fingerprint": f"sha256:{hashlib.sha256(content).hexdigest()}"}


def test_the_manifest_records_how_the_model_was_made(version):
    manifest = json.loads((version / "manifest.json").read_text(encoding="utf-8"))
    assert manifest.pop("created").endswith("+00:00")
    assert manifest.pop("package_version")
    content = (version / "assets.extra/state.tflite").read_bytes()
    assert manifest.pop("litert") == {
        "file": "assets.extra/state.tflite",
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    assert manifest == {
        "format_version": 1,
        "model_version": "1",
        "tensorflow_version": tf.__version__,
        "vocabulary_fingerprint": VOCABULARY.fingerprint,
        "data_fingerprint": "sha256:data",
        "evidence_count": 2,
        "max_questions": 23,
        "signatures": ["serving_default", "triage", "state"],
        "safety_rules": {"source": "none", "fingerprint": "", "rules": []},
        "danger_signs": {"complaints": 0, "fingerprint": ""},
        "decision": {"probabilities": False},
        "promise": None,
        "novelty": None,
        "config": {"environment": {"max_questions": 23}},
        "training": {"steps": 5, "episodes": 3},
        "start_from": None,
        "questions": None,
        "metrics": {"appropriateness": 0.9},
    }


@pytest.mark.slow
def test_the_litert_file_is_the_same_for_the_same_agent(trained, version, tmp_path):
    again = write_version(tmp_path / "models", trained, version=7)
    files = [(folder / "assets.extra/state.tflite").read_bytes() for folder in (version, again)]
    assert files[0] == files[1]


@pytest.mark.parametrize(
    ("names", "expected"),
    [((), 1), (("1", "2"), 3), (("9", "10"), 11), (("exporting-7-abc", "latest", "2.5", "-3", "٣"), 1)],
)
def test_the_next_version_is_one_above_the_highest_whole_number(tmp_path, names, expected):
    for name in names:
        (tmp_path / name).mkdir()
    assert saved_model.next_version(tmp_path) == expected


def test_a_network_that_diverged_is_not_exported(trained, tmp_path):
    diverged = build_network(2, NetworkConfig(hidden_sizes=(4,)), seed=1)
    diverged.set_weights([weight * np.nan for weight in diverged.get_weights()])
    with pytest.raises(InputError, match="diverged"):
        write_version(tmp_path, dataclasses.replace(trained, model=diverged))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("light_exports")
def test_an_export_that_fails_shows_no_version_and_leaves_nothing(trained, stubborn, tmp_path):
    base = tmp_path / "models"
    with pytest.raises(KeyboardInterrupt):
        write_version(base, trained)
    (partial,) = stubborn  # the SavedModel was written by then
    assert not partial.isdecimal()
    assert list(base.iterdir()) == []


@pytest.mark.usefixtures("light_exports")
def test_an_empty_folder_with_the_number_is_not_replaced(trained, tmp_path):
    with saved_model.staged(tmp_path, trained, 1) as stage:
        (tmp_path / "1").mkdir()
        with pytest.raises(InputError, match="exists"):
            stage.publish()
    with pytest.raises(InputError, match="exists"):
        write_version(tmp_path, trained, version=1)
    assert list(tmp_path.rglob("*")) == [tmp_path / "1"]


def test_the_newest_version_is_the_one_that_a_server_loads(tmp_path):
    assert saved_model.newest_version(tmp_path / "nowhere") is None
    for name in ("9", "010", "latest", "exporting-11-x"):
        (tmp_path / name).mkdir()
    assert saved_model.newest_version(tmp_path) == tmp_path / "010"
    (tmp_path / "010" / "saved_model.pb").touch()
    with pytest.raises(InputError, match="one version"):
        saved_model.newest_version(tmp_path / "010")
