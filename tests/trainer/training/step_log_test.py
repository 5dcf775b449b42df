import pytest

from trainer.training.step_log import StepLog


def test_a_missing_file_is_empty_and_stays_missing_when_a_run_resumes(tmp_path):
    log = StepLog(tmp_path / "log.jsonl")
    assert log.read() == []
    log.forget_after(3)
    assert list(tmp_path.iterdir()) == []


def test_entries_come_back_in_order_and_later_ones_are_forgotten(tmp_path):
    log = StepLog(tmp_path / "log.jsonl")
    for step in (1, 2, 3):
        log.append({"step": step, "loss": step / 2})
    log.forget_after(2)
    assert log.read() == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 1.0}]


def test_what_is_not_a_number_is_refused_and_nothing_is_written(tmp_path):
    log = StepLog(tmp_path / "log.jsonl")
    with pytest.raises(ValueError, match="Out of range"):
        log.append({"step": 1, "loss": float("nan")})
    assert log.read() == []
