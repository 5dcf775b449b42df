"""`python -m trainer.task` as its users run it: in processes that finish, are interrupted, are killed, or fail."""

import json
import pathlib
import shutil
import signal
import subprocess

import numpy as np
import pytest
import tensorflow as tf

import triage_cli
from tests.trainer.conftest import RULES
from tests.waiting import until
from trainer.commands.train import StopRequest
from trainer.training.job import load_network

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMALL = ["--environments", "8", "--networks", "2",
         "--hidden-sizes", "16", "--batch-size", "8", "--memory-capacity", "200", "--burn-in-steps", "50",
         "--checkpoint-interval", "100", "--evaluation-interval", "200"]  # fmt: skip


def _command(data, job, *flags, steps=300):
    return ["-m", "trainer.task", "--data", str(data), "--job-dir", str(job), "--steps", str(steps),
            *SMALL, *flags]  # fmt: skip


def _train(python, data, job, *flags, **options):
    return python.run(*_command(data, job, *flags, **options), timeout=300)


def _start_and_signal(python, data, job, number, steps, stderr=subprocess.DEVNULL):
    """Starts a run, sends it a signal once its first checkpoint stands, and returns its exit code."""
    process = python.start(*_command(data, job, steps=steps), stderr=stderr)
    until((job / "checkpoints" / "checkpoint").exists, seconds=200)
    process.send_signal(number)
    return process.wait(timeout=120)


def _weights(job):
    return [weight.tobytes() for weight in load_network(job).model.get_weights()]


def test_a_run_reports_its_figures_and_leaves_what_later_commands_read(settled):
    job, stderr = settled / "job", (settled / "stderr").read_text()
    report = json.loads((settled / "report.json").read_text())
    assert report["steps"] == report["last_evaluation"]["step"] == report["steps_this_session"] <= 60
    assert load_network(job).training["steps"] == report["steps"]
    assert list((job / "logs").glob("events.out.tfevents*"))
    assert "warning: only 40 test vignettes" in stderr
    assert stderr.splitlines()[-1].startswith(f"result in {job}; next: triage evaluate --job-dir {job} --data ")


def _newest(job):
    """The step of the newest checkpoint, be it complete or not; 0 without one."""
    steps = [int(path.stem.removeprefix("ckpt-")) for path in (job / "checkpoints").glob("ckpt-*.index")]
    return max(steps, default=0)


@pytest.mark.slow  # one restored in this process is tested in session_test.py
def test_a_run_killed_as_it_saves_again_and_again_ends_with_the_weights_of_one_that_was_not(
    python, data_directory, tmp_path
):
    job, intervals = tmp_path / "killed", ("--checkpoint-interval", "1000", "--evaluation-interval", "10000")
    for number in range(1, 6):
        command = _command(data_directory, job, *intervals, steps=30_000)
        process = python.start(*command, stderr=subprocess.DEVNULL)
        until(lambda saved=1000 * number: _newest(job) >= saved, seconds=300)
        process.kill()
        assert process.wait() == -signal.SIGKILL, "the run ended before it was killed"
    for each in (job, tmp_path / "whole"):
        finished = _train(python, data_directory, each, *intervals, steps=30_000)
        assert finished.returncode == 0, finished.stderr
    assert _weights(job) == _weights(tmp_path / "whole")
    evaluations = [json.loads(line)["step"] for line in (job / "evaluations.jsonl").read_text().splitlines()]
    assert evaluations == [10_000, 20_000, 30_000]


@pytest.mark.slow  # a request to stop is tested in session_test.py
def test_an_interrupted_run_stops_with_a_checkpoint(python, data_directory, tmp_path):
    job = tmp_path / "interrupted"
    with (tmp_path / "said").open("w") as stderr:
        assert _start_and_signal(python, data_directory, job, signal.SIGINT, 2_000_000, stderr) == 130
    steps = load_network(job).training["steps"]
    assert steps % 50 == 0  # where the compiled loop next came back
    said = (tmp_path / "said").read_text().splitlines()[-1]
    assert f"stopped at step {steps:,}; its checkpoint is {job}/checkpoints/ckpt-{steps}: repeat the command" in said
    assert all(np.isfinite(weight).all() for weight in load_network(job).model.get_weights())


def test_a_finished_run_is_left_as_it_is_and_not_continued_with_other_settings(settled, many, tmp_path, capsys):
    job = shutil.copytree(settled / "job", tmp_path / "job")  # which nobody else locks
    before = {file: file.read_bytes() for file in job.iterdir() if file.is_file() and file.name != "lock"}
    given = ["train", "--data", str(many), "--job-dir", str(job), "--config", str(settled / "config.json")]
    assert triage_cli.main(given) == 0
    assert f"nothing to train: the run in {job} is finished\nresult in " in capsys.readouterr().err
    assert triage_cli.main([*given, "--seed", "9"]) == 2
    assert "seed 0 there, 9 given" in capsys.readouterr().err
    (tmp_path / "signs.toml").write_text('e1 = [["e2"]]\n')
    assert triage_cli.main([*given, "--danger-signs", str(tmp_path / "signs.toml")]) == 2
    assert "--danger-signs" in capsys.readouterr().err
    assert {file: file.read_bytes() for file in before} == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_to_stop_and_the_second_stops_at_once(number):
    before = signal.getsignal(number)
    with StopRequest() as stop:
        assert stop.signal is None
        signal.raise_signal(number)
        assert stop.signal == number
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before


@pytest.mark.slow  # a loop that does is tested in loop_test.py
def test_a_run_that_diverges_says_where_and_keeps_the_last_good_checkpoint(python, data_directory, tmp_path):
    given = ("--preset", "paper", "--networks", "1", "--learning-rate", "1e39")  # which is compiled sooner
    failed = _train(python, data_directory, tmp_path / "job", *given)
    assert failed.returncode == 1
    assert "not finite" in failed.stderr
    assert "step " in failed.stderr
    assert "Traceback" not in failed.stderr


def test_the_final_model_obeys_the_rules_that_the_run_was_given(settled):
    model = settled / "model"
    rules = json.loads((model / "manifest.json").read_text())["safety_rules"]
    assert [rule["rule_id"] for rule in rules["rules"]] == ["e3_without_e4"]
    assert (model / "assets.extra" / "rules.toml").read_text() == RULES
    loaded = tf.saved_model.load(str(model))
    answer = loaded.signatures["serving_default"](
        present=tf.constant([["e3", ""], ["e3", "e4"]]),
        absent=tf.constant([[""], [""]]),
        questions_asked=tf.constant([0, 0]),
    )
    assert answer["rules_fired"].numpy().tolist() == [[True], [False]]
    assert answer["action_label"].numpy()[0] == b"Red"
