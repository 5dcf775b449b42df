import argparse
import json

import pytest

from schemas.errors import InputError
from trainer.bench import contestants, train
from trainer.bench.worker import WorkerFailedError


def _parsed(*arguments):
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    return parser.parse_args([str(argument) for argument in arguments])


@pytest.mark.parametrize("flag", ["--batch", "--steps", "--rounds", "--evidence"])
def test_numbers_below_one_are_refused(flag):
    with pytest.raises(InputError, match=f"{flag} 0: expected 1 or more"):
        train.run(_parsed(flag, 0))


def test_a_run_writes_table_and_json_for_each_batch(tmp_path, monkeypatch, capsys):
    def instantly(commands, steps, count, done):
        rates = {"products": 1e9, "bandwidth": 1e9, "peak_bytes": 1}
        timed = {"seconds": 0.01 * steps, "peak_bytes": 1}
        return {name: [rates if name == contestants.FLOOR else timed] * count for name in commands}

    # What takes part is tested in contestants_test; here it would take minutes.
    monkeypatch.setattr(contestants, "compete", instantly)
    assert train.run(_parsed("--batch", 3, 4, "--rounds", 2, "--steps", 5, "--json", tmp_path / "report.json")) == 0
    written = json.loads((tmp_path / "report.json").read_text())
    assert [batch["batch_size"] for batch in written["batches"]] == [3, 4]
    assert written["batches"][0]["contestants"]["ours: fused"]["ms"]["median"] == 10.0
    assert (written["rounds"], written["steps"]) == (2, 5)
    assert written["machine"]["cores"] >= 1
    shown = capsys.readouterr()
    assert "Batch 3, sgd, 597 - 1024 - 1024 - 5" in shown.out
    assert "Batch 4" in shown.out


def test_a_file_that_cannot_be_written_ends_the_command_before_the_first_round(tmp_path, monkeypatch):
    monkeypatch.setattr(contestants, "compete", lambda *_: pytest.fail("it began"))
    with pytest.raises(InputError, match=r"--json .*is not a directory"):
        train.run(_parsed("--json", tmp_path / "none" / "report.json"))


def test_a_contestant_that_fails_is_one_clear_error(monkeypatch):
    def fail(*_):
        raise WorkerFailedError("ours: plain: ended with code 1: out of memory")

    monkeypatch.setattr(contestants, "compete", fail)
    with pytest.raises(InputError, match="--batch 3: ours: plain: ended with code 1: out of memory"):
        train.run(_parsed("--batch", 3))
