import json
import os
import zipfile

import numpy as np
import pytest
import scipy.sparse
import sklearn
import skops.io

from schemas.errors import InputError
from trainer.supervised.classifier_file import METADATA, Origin, load_ensemble, read_metadata, save_ensemble
from trainer.supervised.ensemble import EnsembleConfig, train_ensemble

ORIGIN = Origin("sha256:vocabulary", "sha256:data")


def _states():
    return np.random.default_rng(3).integers(-1, 2, [40, 6]).astype(np.float32)


def _train(**settings):
    counts = np.tile([[2, 1, 0, 0], [0, 2, 1, 0], [0, 0, 3, 1], [0, 0, 0, 2]], [10, 1]).astype(np.uint8)
    config = EnsembleConfig(folds=2, jobs=1, **settings)
    return train_ensemble(_states(), counts, np.arange(40), config)


@pytest.fixture(scope="module")
def ensemble():
    return _train(members=("sgd", "logistic", "tree"))


@pytest.fixture
def path(tmp_path, ensemble):
    save_ensemble(ensemble, ORIGIN, tmp_path / "ensemble.skops")
    return tmp_path / "ensemble.skops"


@pytest.fixture
def with_metadata(path):
    """Writes the same members with other metadata."""

    def write(**changes):
        metadata = {**read_metadata(path), **changes}
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in {**members, METADATA: json.dumps(metadata)}.items():
                archive.writestr(name, content)
        return path

    return write


def test_a_loaded_ensemble_gives_the_same_values_as_the_one_that_was_saved(path, ensemble):
    stored = load_ensemble(path, "sha256:vocabulary")
    states = np.random.default_rng(4).integers(-1, 2, [50, 6]).astype(np.float32)
    np.testing.assert_array_equal(stored.ensemble.triage_values(states), ensemble.triage_values(states))
    assert stored.ensemble.config == ensemble.config
    assert stored.origin == ORIGIN
    assert stored.versions["scikit-learn"] == sklearn.__version__


@pytest.mark.parametrize("calibrated", [True, False])
def test_every_member_comes_back(tmp_path, calibrated):
    ensemble = _train(calibrated=calibrated, seed=5)
    save_ensemble(ensemble, ORIGIN, tmp_path / "all.skops")
    stored = load_ensemble(tmp_path / "all.skops").ensemble
    assert (stored.config.calibrated, stored.config.seed) == (calibrated, 5)
    assert list(stored.voters) == ["sgd", "logistic", "mlp", "tree", "forest", "svc"]
    sparse = scipy.sparse.csr_matrix(_states())
    np.testing.assert_array_equal(stored.triage_values(sparse), ensemble.triage_values(sparse))


def test_saving_replaces_a_file_and_leaves_nothing_else_behind(path, ensemble):
    save_ensemble(ensemble, Origin("sha256:other", "sha256:data"), path)
    assert read_metadata(path)["vocabulary_fingerprint"] == "sha256:other"
    assert os.listdir(path.parent) == [path.name]


def test_a_file_in_a_folder_that_does_not_exist_cannot_be_written(tmp_path, ensemble):
    with pytest.raises(InputError, match=r"ensemble\.skops: cannot write: No such file or directory"):
        save_ensemble(ensemble, ORIGIN, tmp_path / "nowhere" / "ensemble.skops")


def test_metadata_is_read_without_loading_the_ensemble(path):
    metadata = read_metadata(path)
    assert metadata["evidence_count"] == 6
    assert metadata["config"]["members"] == ["sgd", "logistic", "tree"]


def test_another_vocabulary_is_refused(path):
    with pytest.raises(InputError, match="trained with another vocabulary than the data's"):
        load_ensemble(path, "sha256:something else")


class _Intruder:
    """What a malicious file would bring along."""

    def __init__(self):
        self.command = "anything"


def test_types_that_are_not_trusted_are_named_and_not_loaded(tmp_path, path):
    with zipfile.ZipFile(path) as archive:
        metadata = archive.read(METADATA)
    skops.io.dump({"sgd": [_Intruder()]}, tmp_path / "evil.skops")
    with zipfile.ZipFile(tmp_path / "evil.skops", "a") as archive:
        archive.writestr(METADATA, metadata)
    with pytest.raises(InputError, match=r"evil.skops: contains \S*_Intruder, which is not part of an ensemble"):
        load_ensemble(tmp_path / "evil.skops")


def test_another_minor_version_of_scikit_learn_is_refused_and_named(with_metadata):
    with pytest.raises(InputError, match=r"written by scikit-learn 0\.24\.2, not "):
        load_ensemble(with_metadata(versions={"scikit-learn": "0.24.2"}))


def test_another_format_is_refused(with_metadata):
    with pytest.raises(InputError, match="format 2, expected 1"):
        load_ensemble(with_metadata(format=2))


@pytest.mark.parametrize("changes", [{"config": 3}, {"versions": "1.9"}, {"evidence_count": None}])
def test_metadata_of_another_kind_is_refused(with_metadata, changes):
    with pytest.raises(InputError, match=r"metadata\.json is not that of an ensemble"):
        load_ensemble(with_metadata(**changes))


@pytest.mark.parametrize(
    "changes", [{"config": {"members": ["sgd"]}}, {"config": {"colour": 1}}, {"evidence_count": 7}]
)
def test_metadata_that_does_not_fit_the_members_is_refused(with_metadata, changes):
    with pytest.raises(InputError, match="not an ensemble, or damaged"):
        load_ensemble(with_metadata(**changes))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.skops: no such file"):
        load_ensemble(tmp_path / "none.skops")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InputError, match="cannot read: Is a directory"):
        load_ensemble(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 and then nothing"])
def test_what_is_not_a_archive_is_refused(tmp_path, content):
    (tmp_path / "x.skops").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.skops: not an ensemble, or damaged"):
        load_ensemble(tmp_path / "x.skops")


def test_a_file_of_skops_without_metadata_is_refused(tmp_path):
    skops.io.dump([1], tmp_path / "x.skops")
    with pytest.raises(InputError, match="not an ensemble, or damaged"):
        load_ensemble(tmp_path / "x.skops")


def test_a_file_that_is_cut_or_has_flipped_bytes_never_loads_wrongly(path, ensemble):
    whole = path.read_bytes()
    states = _states()
    places = np.random.default_rng(0).integers(0, len(whole), 40)
    refused = 0
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            loaded = load_ensemble(path)
        except InputError:
            refused += 1
        else:  # a byte that nothing depends on, such as a time stamp
            np.testing.assert_array_equal(loaded.ensemble.triage_values(states), ensemble.triage_values(states))
    assert refused > 20
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="not an ensemble, or damaged"):
        load_ensemble(path)
