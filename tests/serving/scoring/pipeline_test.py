"""A worker scores a shard, and leaves its outcome."""

import dataclasses
import json

import pytest

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

from schemas.errors import InputError
from serving.scoring.outcomes import outcome_location, read_record, save_record
from serving.scoring.pipeline import Job, ShardScorer, build, score_shard
from serving.scoring.record import Record
from serving.scoring.shards import Shard
from triage_runtime.beam.runner import LOCAL, Runner


@pytest.fixture(scope="module")
def job(guarded_base_path, tmp_path_factory):
    return Job(str(guarded_base_path / "4"), str(tmp_path_factory.mktemp("answers")), 0, False, None, 10, None)


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


def test_a_pipeline_that_nobody_waits_for_writes_the_record_itself(job, tmp_path):
    (tmp_path / "out").mkdir()
    job = dataclasses.replace(job, output=str(tmp_path / "out"))
    shards = [_shard(tmp_path, f"{name}.jsonl", "chest_pain") for name in "abc"]
    before = Record({"format": 1}, {})
    before.add("a.jsonl", shards[0].state, {"Blue": 1})
    save_record(before, job.output, job.scratch)
    Runner(LOCAL, []).run(lambda pipeline: build(pipeline, shards[1:], job, alone=True))
    record = read_record(job.output)
    assert all(map(record.is_done, shards))
    assert record.counts == {"Red": 2, "Blue": 1}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["b.jsonl", "c.jsonl", "score.json"]


def test_a_fault_in_such_a_pipeline_fails_it_when_the_others_are_in_the_record(job, tmp_path):
    (tmp_path / "out").mkdir()
    job = dataclasses.replace(job, output=str(tmp_path / "out"))
    shards = [_shard(tmp_path, "a.jsonl", "gout"), _shard(tmp_path, "b.jsonl", "chest_pain")]
    save_record(Record({"format": 1}, {}), job.output, job.scratch)
    with pytest.raises(InputError, match=f"^{tmp_path / 'a.jsonl'}: 'v'"):
        Runner(LOCAL, []).run(lambda pipeline: build(pipeline, shards, job, alone=True))
    assert read_record(job.output).counts == {"Red": 1}
