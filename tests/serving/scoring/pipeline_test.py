"""A worker scores a shard, and leaves its outcome."""

import json

import pytest

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

from serving.scoring.pipeline import Job, ShardScorer, score_shard
from serving.scoring.shards import Shard, outcome_location


@pytest.fixture(scope="module")
def job(guarded_base_path, tmp_path_factory):
    return Job(str(guarded_base_path / "4"), str(tmp_path_factory.mktemp("answers")), 0, False, 10, None)


@pytest.fixture(scope="module")
def scorer(job):
    """Of a copy of the model that is gone."""
    return ShardScorer(job).load_model()


def _shard(folder, name, code):
    (folder / name).write_text(json.dumps({"vignette_id": "v", "present": [code]}))
    return Shard(str(folder / name), str(folder / "out" / name), 9, 1.0)


def test_the_outcome_says_how_many_cases_got_which_decision(job, scorer, tmp_path):
    (tmp_path / "out").mkdir()
    shard = _shard(tmp_path, "a.jsonl", "chest_pain")
    outcome = score_shard(scorer, shard, job)
    assert outcome == {"input": shard.state, "best_triage": {"Red": 1}}
    with open(outcome_location(shard, job.scratch), "rb") as file:
        assert json.load(file) == outcome
    assert json.loads((tmp_path / "out" / "a.jsonl").read_text())["fired_rules"] == ["pain"]


def test_a_faulty_case_is_an_outcome_that_names_the_input(job, scorer, tmp_path):
    outcome = score_shard(scorer, _shard(tmp_path, "b.jsonl", "gout"), job)
    assert outcome["fault"].startswith(f"{tmp_path / 'b.jsonl'}: 'v' (line or record 1)")


def test_a_file_that_cannot_be_read_is_left_to_the_runner(job, scorer, tmp_path):
    with pytest.raises(OSError, match=r"c.jsonl: .*No such file"):
        score_shard(scorer, Shard(str(tmp_path / "c.jsonl"), str(tmp_path / "out" / "c.jsonl"), 9, 1.0), job)
