"""What a training job leaves in its model directory, on this machine and in an object store, killed and restarted."""

import dataclasses
import json
import os
import signal
import subprocess

import pytest

from schemas.safety_rules import NO_RULES
from serving.engine.saved_model import SavedModelEngine
from tests.waiting import until
from trainer.commands.train import write_final_model
from trainer.task import TrainOptions

ON_A_STORE = """
import sys
from tests.conftest import ObjectStore
ObjectStore(sys.argv[1]).install()
from trainer import task
sys.exit(task.main(sys.argv[2:]))
"""


@pytest.mark.slow
def test_the_model_lies_right_in_the_directory_and_answers(settled, many, without_litert, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_text("of the run before")
    with without_litert():
        options = dict.fromkeys(field.name for field in dataclasses.fields(TrainOptions))
        places = {"job_dir": settled / "job", "test_data": many, "model_dir": tmp_path / "model"}
        report = write_final_model(TrainOptions(**options | places | {"model_version": 3}), NO_RULES)
    assert (report["model_dir"], report["evaluation"]["vignettes"]) == (str(tmp_path / "model"), 40)
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text())
    steps = json.loads((settled / "report.json").read_text())["steps"]
    assert (manifest["model_version"], manifest["metrics"]["step"]) == ("3", steps)
    assert manifest["metrics"]["vignettes"] == 40
    (tmp_path / "base").mkdir()
    (tmp_path / "model").rename(tmp_path / "base" / "3")
    assert SavedModelEngine(tmp_path / "base" / "3").info.model_version == "3"


@pytest.mark.slow
def test_a_preempted_job_goes_on_where_it_was_and_leaves_its_model_in_the_store(python, object_store, data_directory):
    object_store.put(data_directory, "gs://b/data")
    environment = {
        **os.environ,
        "AIP_TRAINING_DATA_URI": "gs://b/data/train-*",
        "AIP_VALIDATION_DATA_URI": "gs://b/data",
        "AIP_TEST_DATA_URI": "gs://b/data/test-*",
        "AIP_CHECKPOINT_DIR": "gs://b/out/checkpoints/",
        "AIP_TENSORBOARD_LOG_DIR": "gs://b/out/logs/",
        "AIP_MODEL_DIR": "gs://b/out/model/",
    }
    command = ["-c", ON_A_STORE, str(object_store.folder), "--hidden-sizes", "8", "--batch-size", "8",
               "--environments", "8", "--networks", "2",
               "--memory-capacity", "100", "--burn-in-steps", "20", "--schedule", "constant",
               "--checkpoint-interval", "100"]  # fmt: skip
    job = python.start(*command, "--steps", "2000000", env=environment, stderr=subprocess.DEVNULL)
    until(lambda: "gs://b/out/checkpoints/checkpoints/checkpoint" in object_store.names(), seconds=300)
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=120) == 143, "0 would tell the service that all is done"
    assert not object_store.names("gs://b/out/model")
    indices = [name for name in object_store.names("gs://b/out/checkpoints/checkpoints/") if name.endswith(".index")]
    step = max(int(name.rpartition("-")[2].removesuffix(".index")) for name in indices)
    restarted = python.run(*command, "--steps", str(step + 50), env=environment, timeout=300)
    assert restarted.returncode == 0, restarted.stderr
    assert f"resumed at step {step:,} from gs://b/out/checkpoints/checkpoints/ckpt-{step}" in restarted.stderr
    assert "wrote model version 1 to gs://b/out/model\n" in restarted.stderr
    assert "gs://b/out/model/saved_model.pb" in object_store.names()
    manifest = json.loads(object_store.read("gs://b/out/model/manifest.json"))
    assert manifest["training"]["steps"] == step + 50
    assert object_store.names("gs://b/out/logs/events")
    assert not object_store.names("gs://b/out/checkpoints/logs")
