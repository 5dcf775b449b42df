import json

import numpy as np
import pytest

import triage_cli
from schemas.evidence import Evidence, Vocabulary
from trainer.config import TrainConfig
from trainer.evaluate import evaluate_network
from trainer.network import build_network
from trainer.session import TrainingSession
from trainer.tfrecord import DataDirectory

CONFIG = {
    "network": {"hidden_sizes": [8]},
    "memory": {"batch_size": 4, "memory_capacity": 50},
    "loop": {"burn_in_steps": 20, "steps": 60, "evaluation_interval": 0},
}


@pytest.fixture(scope="module")
def job(data_directory, tmp_path_factory):
    path = tmp_path_factory.mktemp("job")
    TrainingSession(path, DataDirectory.open(data_directory), TrainConfig.from_dict(CONFIG)).train(lambda: False)
    return path


def test_an_agent_that_always_says_the_same_scores_as_that_constant_policy(vignettes_of):
    vignettes = vignettes_of([([1], [1, 0, 1, 0]), ([2], [0, 1, 0, 0]), ([3, 4], [0, 0, 1, 2]), ([5], [1, 0, 0, 0])])
    network = build_network(6, (4,), seed=0)
    network.get_layer("q_values").set_weights([np.zeros([4, 5], np.float32), np.array([0, 0, 2, 0, 1], np.float32)])
    found = evaluate_network(network, vignettes, orders=2, seed=0)
    # Always Green: {Red, Green} fits; {Yellow} under; {Green, Blue} fits; {Red} under.
    assert found["appropriateness"].mean == 0.5
    assert found["safety"].mean == 0.5
    assert found["under_triage"].mean == 0.5
    assert found["questions"].mean == 0.0
    assert found["evidence_seen"].mean == 1.0


def test_reports_agent_human_and_constant_policies_as_json(job, data_directory, tmp_path, capsys):
    path = tmp_path / "figures.json"
    arguments = ["evaluate", "--job-dir", str(job), "--data", str(data_directory), "--orders", "3"]
    assert triage_cli.main([*arguments, "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert report["vignettes"] == report["agent"]["safety"]["vignettes"] == 10
    assert set(report["constants"]) == {"always red", "always yellow", "always green", "always blue"}
    assert report["constants"]["always red"]["safety"]["mean"] == 1.0
    assert set(report["human"]) == {"appropriateness", "safety"}
    assert report["training"]["steps"] == 60
    for estimate in report["agent"].values():
        assert estimate["low"] <= estimate["mean"] <= estimate["high"]
    assert "appropriateness" in capsys.readouterr().out
    assert triage_cli.main([*arguments, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["agent"] == report["agent"]


def test_data_with_another_vocabulary_are_refused(job, data_directory, tmp_path, capsys):
    other = tmp_path / "data"
    other.mkdir()
    vocabulary = Vocabulary([Evidence("alien", "symptom", "Alien", "Alien?")])
    line = {"vignette_id": "v", "present": ["alien"], "absent": [], "decisions": ["Red"], "split": "train"}
    vocabulary.save(tmp_path / "vocabulary.csv")
    (tmp_path / "v.jsonl").write_text(json.dumps(line) + "\n")
    prepared = ["prepare", "--vignettes", str(tmp_path / "v.jsonl"), "--vocabulary", str(tmp_path / "vocabulary.csv")]
    assert triage_cli.main([*prepared, "--out", str(other)]) == 0
    assert triage_cli.main(["evaluate", "--job-dir", str(job), "--data", str(other)]) == 2
    assert "its vocabulary is not the one" in capsys.readouterr().err


def test_a_split_without_vignettes_and_a_missing_checkpoint_are_input_errors(job, data_directory, capsys):
    arguments = ["evaluate", "--job-dir", str(job), "--data", str(data_directory)]
    assert triage_cli.main([*arguments, "--step", "7"]) == 2
    assert "no checkpoint of step 7; there are 60" in capsys.readouterr().err
    assert triage_cli.main([*arguments, "--orders", "0"]) == 2
