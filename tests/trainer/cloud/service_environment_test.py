"""The environment of a training service, as defaults of `triage train`."""

import argparse
import pathlib

import pytest

from trainer import task
from trainer.cloud import service_environment
from triage_runtime.storage.locations import Remote

VARIABLES = {
    "AIP_TRAINING_DATA_URI": ("data", "gs://b/data"),
    "AIP_VALIDATION_DATA_URI": ("validation_data", "gs://b/validation"),
    "AIP_TEST_DATA_URI": ("test_data", "gs://b/test"),
    "AIP_CHECKPOINT_DIR": ("job_dir", "gs://b/out/checkpoints/"),
    "AIP_TENSORBOARD_LOG_DIR": ("log_dir", "gs://b/out/logs/"),
    "AIP_MODEL_DIR": ("model_dir", "gs://b/out/model/"),
}


def _parser():
    parser = argparse.ArgumentParser()
    task.add_arguments(parser)
    return parser


@pytest.fixture(autouse=True)
def _no_service(monkeypatch):
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def service(monkeypatch):
    for variable, (_, value) in VARIABLES.items():
        monkeypatch.setenv(variable, value)


@pytest.mark.usefixtures("service")
def test_each_variable_is_the_default_of_its_flag():
    parsed = _parser().parse_args([])
    for name, value in VARIABLES.values():
        assert getattr(parsed, name).uri == value.rstrip("/")


@pytest.mark.usefixtures("service")
def test_flags_win_over_the_environment():
    for name, _ in VARIABLES.values():
        flag = f"--{name.replace('_', '-')}"
        assert getattr(_parser().parse_args([flag, "/here"]), name) == pathlib.Path("/here")


def test_without_the_service_the_directories_must_be_given(capsys):
    with pytest.raises(SystemExit, match="2"):
        _parser().parse_args([])
    assert "required: --data, --job-dir" in capsys.readouterr().err
    parsed = _parser().parse_args(["--data", "data", "--job-dir", "job"])
    assert (parsed.validation_data, parsed.test_data, parsed.log_dir, parsed.model_dir) == (None,) * 4


@pytest.mark.parametrize(
    ("kind", "text", "folder"),
    [
        (service_environment.training_data, "gs://b/data/train-*", "gs://b/data"),
        (service_environment.training_data, "gs://b/data/train-00000-of-00002.tfrecord", "gs://b/data"),
        (service_environment.training_data, "gs://b/data/", "gs://b/data"),
        (service_environment.evaluation_data, "gs://b/held-out/test-?????-of-00002.tfrecord", "gs://b/held-out"),
        (service_environment.evaluation_data, "here/test-*", "here"),
        (service_environment.evaluation_data, "test-*", "."),
    ],
)
def test_a_pattern_of_shards_means_their_data_directory(kind, text, folder):
    location = kind(text)
    assert (location.uri if isinstance(location, Remote) else str(location)) == folder


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        (service_environment.training_data, "gs://b/data/test-*", "train"),
        (service_environment.evaluation_data, "gs://b/data/train-00000-of-00001.tfrecord", "test"),
        (service_environment.training_data, "gs://b/export/training-*.jsonl", "train"),  # of a managed data set
    ],
)
def test_a_pattern_of_other_files_is_refused(kind, text, wanted):
    with pytest.raises(argparse.ArgumentTypeError, match=rf"shards {wanted}-\*"):
        kind(text)
