"""What workers leave is read again, and becomes the record."""

import pytest

from serving.scoring.outcomes import add_outcomes, in_words, outcomes_in, read_record, save_record, write_outcome
from serving.scoring.record import Record
from serving.scoring.shards import Shard

pytest.importorskip("apache_beam", reason="needs the extra `beam`")


def test_outcomes_are_found_by_the_names_of_answers(tmp_path):
    scratch = str(tmp_path / ".score")
    for name in ("b.csv", "a.json.gz"):
        shard = Shard(f"/in/{name}", f"{tmp_path}/{name}", 10, 1.0)
        write_outcome({"input": shard.state}, shard, scratch)
    (tmp_path / ".score" / "x.unfinished").touch()
    assert list(outcomes_in(scratch)) == ["a.json.gz", "b.csv"]
    assert outcomes_in(scratch)["b.csv"] == {"input": {"path": "/in/b.csv", "bytes": 10, "modified": 1.0}}


def test_the_record_gets_what_is_done_and_the_faults_are_named(tmp_path):
    record = Record({"format": 1}, {})
    outcomes = {
        "a.csv": {"input": {"bytes": 1}, "best_triage": {"Red": 2}},
        "b.csv": {"input": {"bytes": 2}, "fault": "b.csv: line 3: bad"},
        "c.csv": {"input": {"bytes": 3}, "fault": "c.csv: line 4: bad"},
    }
    faults = add_outcomes(record, outcomes)
    assert in_words(faults) == "b.csv: line 3: bad (and 1 more)"
    assert in_words(faults[:1]) == "b.csv: line 3: bad"
    assert read_record(str(tmp_path)) is None
    save_record(record, str(tmp_path), str(tmp_path / ".score"))
    assert read_record(str(tmp_path)).counts == {"Red": 2}
