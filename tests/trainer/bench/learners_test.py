import json
import time

import numpy as np
import pytest

from trainer import presets
from trainer.bench import learners
from trainer.bench.settings import BenchVignettes, Settings, save_vignettes
from trainer.vignettes.tfrecord import DataDirectory


@pytest.fixture
def prepared(data_directory, tmp_path):
    """The vignettes of a data directory, as files that contestants read."""
    (tmp_path / "data").symlink_to(data_directory)
    data = DataDirectory.open(tmp_path / "data")
    for split in ("train", "test"):
        rows = data.read(split)
        save_vignettes(tmp_path / f"{split}.npz", BenchVignettes(rows.offsets, rows.signed_codes, rows.decision_counts))
    return tmp_path, data


def ask(answers, until):
    return json.loads(json.dumps(answers({"began": time.time(), "until": until})))


@pytest.mark.slow
def test_ours_is_what_the_command_trains_and_goes_on_after_an_evaluation(prepared):
    folder, _ = prepared
    config = presets.preset("default").to_dict()
    config["network"] |= {"hidden_sizes": [8], "networks": 1}
    config["loop"] |= {"steps": 60, "burn_in_steps": 10, "steps_per_call": 10, "evaluation_interval": 0}
    answers = learners.ours({"data": str(folder / "data"), "config": config})
    first = ask(answers, until=0.0)
    assert (first["finished"], first["steps"]) == (False, 0)
    assert np.shape(first["decisions"]) == (3, 10)
    last = ask(answers, until=600.0)
    assert (last["finished"], last["steps"]) == (True, 60)
    assert (folder / "job" / "operating_point.json").exists(), "it ended as a training ends: calibrated"


def test_the_forest_sees_all_evidence_and_is_done_at_once(prepared):
    folder, data = prepared
    settings = {"train": str(folder / "train.npz"), "tests": str(folder / "test.npz"), "seed": 0,
                "evidence_count": len(data.vocabulary)}  # fmt: skip
    answer = ask(learners.forest(settings), until=0.0)
    assert (answer["finished"], answer["steps"]) == (True, None)
    assert np.shape(answer["decisions"]) == (1, 10)


@pytest.mark.slow
def test_tf_agents_own_loop_learns_and_is_asked_for_its_greedy_decisions(prepared):
    folder, data = prepared
    settings = Settings(
        str(folder / "train.npz"), len(data.vocabulary), hidden_sizes=(8,), batch_size=8, burn_in_steps=50
    )
    answers = learners.tf_agents({"settings": settings.to_json(), "tests": str(folder / "test.npz")})
    answer = ask(answers, until=0.1)
    assert not answer["finished"]
    assert np.shape(answer["decisions"]) == (3, 10)
