import argparse
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from schemas.errors import InputError
from trainer import presets
from trainer.commands import reproduce
from trainer.study import run
from trainer.study.results import AGENTS
from trainer.study.study import MEMBERS

ROOT = pathlib.Path(reproduce.__file__).parents[2]


def _arguments(*flags, data="data", out="out"):
    parser = argparse.ArgumentParser()
    reproduce.add_arguments(parser)
    return parser.parse_args(["--data", str(data), "--out", str(out), *map(str, flags)])


def _settings(*flags):
    return reproduce.settings_of(_arguments(*flags))


def test_the_full_study_has_the_papers_folds_and_all_parts():
    settings = _settings()
    assert (settings.mode, settings.folds, settings.fold_seeds) == ("full", 10, 3)
    assert settings.ablations
    assert settings.members == MEMBERS
    assert (settings.config.loop.steps, settings.config.loop.evaluation_interval) == (6000, 150)
    assert settings.converged == 10  # 6000 / 150 = 40 evaluations, of which the paper averages the last ten


def test_quick_makes_the_study_small():
    settings = _settings("--quick")
    assert (settings.mode, settings.folds, settings.ablations) == ("quick", 0, False)
    assert settings.members == ("sgd", "logistic", "mlp", "tree", "forest")  # the SVC takes longest
    assert settings.config.loop.steps == 3000


def test_the_study_uses_the_papers_preset_and_refuses_another():
    assert _settings().config.network == presets.preset("paper").network
    with pytest.raises(InputError, match=r"--preset default: .*--default-preset-seeds"):
        _settings("--preset", "default")


def test_what_is_given_comes_before_quick(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"loop": {"steps": 77, "burn_in_steps": 9}}))
    settings = _settings("--quick", "--config", file, "--evaluation-interval", 11, "--folds", 2, "--ablations")
    loop = settings.config.loop
    assert (loop.steps, loop.burn_in_steps, loop.evaluation_interval) == (77, 9, 11)
    assert (settings.folds, settings.ablations) == (2, True)
    assert _settings("--quick", "--members", "svc", "tree", "svc").members == ("tree", "svc")  # in the paper's order
    assert _settings("--quick", "--config", file, "--steps", 78).config.loop.steps == 78


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--processes", 0], "--processes 0: expected 1 or more"),
        (["--seeds", 0], "--seeds 0: expected 1 or more"),
        (["--learning-rate", 0], "learning_rate must be positive"),
        (["--margin", 0], "--margin 0: expected a share above 0"),
        (["--default-preset-seeds", -1], "--default-preset-seeds -1: expected 0 or more"),
        ([], "data: no such data directory"),
    ],
)
def test_bad_settings_and_data_are_refused(tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    arguments = _arguments("--quick", *flags)
    with pytest.raises(InputError, match=message):
        reproduce.run(arguments)
    assert not (tmp_path / "out").exists()


def test_a_split_without_vignettes_is_refused(data_directory, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for file in data_directory.iterdir():
        if not file.name.startswith("test-"):
            (data / file.name).write_bytes(file.read_bytes())
    stats = json.loads((data / "stats.json").read_text())
    stats["splits"]["test"]["vignettes"] = 0
    (data / "stats.json").write_text(json.dumps(stats))
    arguments = _arguments("--quick", data=data, out=tmp_path / "out")
    with pytest.raises(InputError, match="0 vignettes in the test split: the study needs 2 or more"):
        reproduce.run(arguments)


def test_a_study_of_other_data_is_left_alone(data_directory, tmp_path):
    (tmp_path / "study.json").write_text('{"data_fingerprint": "sha256:of other data"}')
    arguments = _arguments("--quick", data=data_directory, out=tmp_path)
    with pytest.raises(InputError, match="holds a study of other data"):
        reproduce.run(arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["study.json"]


FAILING = """\
def fail(job):
    raise ValueError("no luck")


def fixed(job):
    figure = {"mean": 0.5, "low": 0.4, "high": 0.6, "vignettes": 10}
    values = {"appropriateness": [0.5, 0.5], "safety": [0.5, 0.5]}
    metrics = {"appropriateness": figure, "safety": figure}
    return {"human": {"metrics": metrics, "train": {"safety": 0.5}, "as_clinicians": values}}


FAIL = ("dyqn", "preset", "detail", "ensemble", "calibration", "partially_observed", "fully_observed")
KINDS = dict.fromkeys(FAIL, fail) | {"fixed": fixed}
"""


def test_results_say_what_failed_and_hold_the_rest(data_directory, tmp_path, monkeypatch, capsys):
    (tmp_path / "failing_kinds.py").write_text(FAILING)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(run, "Machine", functools.partial(run.Machine, tasks_module="failing_kinds"))
    out = tmp_path / "out"
    figures = tmp_path / "figures.json"
    code = reproduce.run(_arguments("--quick", "--seeds", 1, "--json", figures, data=data_directory, out=out))
    assert code == 1
    results = json.loads((out / "results.json").read_text())
    assert {each["task"]: each["error"].partition(" (")[0] for each in results["failures"]} == {
        **dict.fromkeys(
            [
                "dyqn_or-seed-0",
                "dyqn_and-seed-0",
                "default_preset-seed-0",
                "fully_observed",
                "ensemble_calibrated",
                "ensemble_uncalibrated",
            ],
            "ValueError: no luck",
        ),
        "detail": "needs dyqn_or-seed-0, which failed",
        "calibration": "needs ensemble_calibrated, which failed",
        "partially_observed_or-seed-0": "needs ensemble_calibrated, which failed",
        "partially_observed_and-seed-0": "needs ensemble_calibrated, which failed",
    }
    assert list(results["agents"]) == ["human"]
    assert {each["outcome"] for each in results["claims"]} == {"not measured"}
    assert results["data"]["vignettes"] == {"train": 40, "test": 10}
    assert json.loads(figures.read_text()) == results
    assert (out / "report.html").is_file()
    assert "failed: detail: needs dyqn_or-seed-0, which failed" in capsys.readouterr().out


COMMAND = """\
import argparse, sys
from trainer.commands import reproduce

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    reproduce.add_arguments(parser)
    sys.exit(reproduce.run(parser.parse_args()))
"""


@pytest.fixture
def command(data_directory, tmp_path):
    """Starts a tiny study in a process of its own, as a user would."""
    script = tmp_path / "command.py"
    script.write_text(COMMAND)
    flags = ["--quick", "--steps", 40, "--burn-in-steps", 10, "--evaluation-interval", 20, "--hidden-sizes", 8]
    flags += ["--memory-capacity", 100, "--batch-size", 8, "--seeds", 1, "--folds", 2, "--powerset-rows", 200]
    flags += ["--data", data_directory, "--out", tmp_path / "out", "--processes", 2]
    paths = [str(ROOT), str(ROOT / "proto"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def start(*more):
        return subprocess.Popen(
            [sys.executable, str(script), *map(str, [*flags, *more])],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )

    start.out = tmp_path / "out"
    return start


@pytest.mark.slow
def test_an_interrupted_study_goes_on_and_ends_with_all_results(command):
    first = command()
    _wait_for(lambda: _finished(command.out))
    first.send_signal(signal.SIGINT)
    said = first.communicate(timeout=60)[1]
    assert first.returncode == 128 + signal.SIGINT
    assert "repeat the command to resume" in said
    assert "Traceback" not in said
    kept = _finished(command.out)
    second = command()
    assert "tasks were already finished" in second.communicate(timeout=500)[1]
    assert second.returncode == 0
    results = json.loads((command.out / "results.json").read_text())
    assert list(results["agents"]) == list(AGENTS)
    assert len(results["k_fold"]["runs"]) == 2
    assert results["by_evidence"]["calibrated"]
    assert results["failures"] == []
    assert (command.out / "report.html").stat().st_size > 10_000
    after = _finished(command.out)
    assert {name: after[name] for name in kept} == kept
    third = command("--learning-rate", "nan")
    third.communicate(timeout=60)
    assert third.returncode != 0
    assert _finished(command.out) == after


def _finished(out):
    """The time at which each finished task was written, by file name."""
    return {path.name: path.stat().st_mtime_ns for path in (out / "tasks").glob("*.json")}


def _wait_for(condition):
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
