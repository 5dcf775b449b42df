"""`triage export`, from a job directory to a version."""

import json

import numpy as np
import pytest
import tensorflow as tf

import triage_cli
from schemas.evidence import Evidence, Vocabulary
from trainer.config import TrainConfig
from trainer.job import JobDirectory
from trainer.network import build_network

VOCABULARY = Vocabulary(Evidence(code, "symptom", code, f"{code}?") for code in ("cough", "fever"))


@pytest.fixture(scope="module")
def model():
    return build_network(2, TrainConfig().network.hidden_sizes, seed=3)


@pytest.fixture(scope="module")
def job_dir(model, tmp_path_factory):
    """A job directory with the checkpoint of step 40, as a training run leaves it."""
    job = JobDirectory(tmp_path_factory.mktemp("job"))
    job.prepare(TrainConfig(), VOCABULARY, "sha256:data")
    counters = {"step": tf.Variable(40, dtype=tf.int64), "episode": tf.Variable(9, dtype=tf.int64)}
    job.manager(tf.train.Checkpoint(network=model, **counters), kept=1).save(40)
    job.append_evaluation({"step": 40, "appropriateness": 0.8})
    return job.path


def test_the_trained_weights_answer_from_the_exported_version(model, job_dir, tmp_path, capsys):
    assert triage_cli.main(["export", "--job-dir", str(job_dir), "--model-base-path", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"wrote version 1 to {tmp_path / '1'}\n"
    exported = tf.saved_model.load(str(tmp_path / "1"))
    states = np.array([[1, -1], [0, 1]], np.float32)
    answer = exported.signatures["state"](states=tf.constant(states), questions_asked=tf.constant([0, 0]))
    np.testing.assert_allclose(answer["q_values"], model(states), atol=1e-6)
    manifest = json.loads((tmp_path / "1" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["config"] == TrainConfig().to_dict()
    assert manifest["training"] == {"steps": 40, "episodes": 9}
    assert manifest["metrics"] == {"step": 40, "appropriateness": 0.8}


def test_the_figures_are_all_of_the_output_that_a_program_reads(job_dir, tmp_path, capsys):
    options = ["--version", "12", "--step", "40", "--model-name", "nurse", "--json", "-"]
    assert triage_cli.main(["export", "--job-dir", str(job_dir), "--model-base-path", str(tmp_path), *options]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "path": str(tmp_path / "12"),
        "model_version": "12",
        "vocabulary_fingerprint": VOCABULARY.fingerprint,
        "data_fingerprint": "sha256:data",
        "metrics": {"step": 40, "appropriateness": 0.8},
    }


@pytest.mark.parametrize(
    ("options", "complaint"), [(["--step", "41"], "no checkpoint of step 41"), (["--version", "-1"], "from 1")]
)
def test_bad_input_is_one_line_and_leaves_no_version(job_dir, tmp_path, capsys, options, complaint):
    base = tmp_path / "models"
    assert triage_cli.main(["export", "--job-dir", str(job_dir), "--model-base-path", str(base), *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("triage export: error: ")
    assert complaint in line
    assert not base.exists()
