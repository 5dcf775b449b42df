import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import triage_cli
from schemas import VERSION
from triage_runtime.command_line import extras

ROOT = pathlib.Path(__file__).resolve().parents[1]


def _run(*arguments, code="import sys, triage_cli; sys.exit(triage_cli.main())", **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    environment |= {"PYTHONPATH": f"{ROOT}:{ROOT}/proto:{ROOT}/clients/python", **variables}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)


def test_help_lists_every_command_with_what_it_does(capsys):
    with pytest.raises(SystemExit) as ended:
        triage_cli.main(["--help"])
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, (_, summary, *_) in triage_cli.COMMANDS.items():
        assert f"{name} {summary}" in shown


EXPLAIN_ALL = """
import contextlib, io, json, sys, triage_cli
explained = {}
for command in map(str.split, sys.argv[1:]):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            triage_cli.main([*command, "--help"])
        except SystemExit as ended:
            explained[" ".join(command)] = [ended.code, "tensorflow" in sys.modules, output.getvalue()]
print(json.dumps(explained))
"""


def test_each_command_explains_its_options_without_loading_tensorflow():
    commands = [*triage_cli.COMMANDS]
    finished = _run(*commands, code=EXPLAIN_ALL)
    assert finished.returncode == 0, finished.stderr
    explained = json.loads(finished.stdout)
    assert {name: (code, loaded) for name, (code, loaded, _) in explained.items()} == dict.fromkeys(
        commands, (0, False)
    )
    silent = {name for name, (_, _, shown) in explained.items() if "--json" not in shown}
    assert silent == {"serve", "console", "vertex", "push", "kubeflow"}


def test_version_is_that_of_the_release(capsys):
    with pytest.raises(SystemExit) as ended:
        triage_cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"triage {VERSION}\n"


THEN_KERAS = """
import sys, triage_cli
code = triage_cli.main()
import keras, tf_agents.agents.tf_agent
print("keras", keras.__version__)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """A command that was given bad input, in a process without any variable of TensorFlow's."""
    folder = tmp_path_factory.mktemp("job")
    return _run("evaluate", "--job-dir", str(folder), "--data", str(folder / "none"), code=THEN_KERAS)


@pytest.mark.slow
def test_bad_input_is_one_line_and_exit_code_2(refused):
    assert refused.returncode == 2
    # One line: nothing of TensorFlow's start either.
    assert re.fullmatch(r"triage evaluate: error: .*: no such data directory.*\n", refused.stderr)


@pytest.mark.slow
def test_tf_agents_and_keras_3_work_side_by_side_without_any_variable_set(refused):
    assert re.fullmatch(r"keras 3\..*\n", refused.stdout)
    assert "unmaintained" not in refused.stderr  # gym's notice, about a library that nothing here uses


def test_ctrl_c_ends_with_130(monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("serving.commands.ask.run", interrupted)
    assert triage_cli.main(["ask", "--present", "fever"]) == 130
    assert capsys.readouterr().err == "triage ask: interrupted\n"


@pytest.fixture
def serving_alone(monkeypatch):
    """As if dyqn-triage-serving were installed, without its extra."""
    is_installed = extras.is_installed
    lacking = {"trainer", "tensorflow"}
    monkeypatch.setattr(
        extras, "is_installed", lambda module: module.partition(".")[0] not in lacking and is_installed(module)
    )


def test_without_training_the_help_lists_what_serves(serving_alone, capsys):
    with pytest.raises(SystemExit):
        triage_cli.main(["--help"])
    shown = capsys.readouterr().out
    assert all(re.search(rf"^    {name} ", shown, re.MULTILINE) for name in ("serve", "ask", "console"))
    assert not re.search(r"^    (train|export|simulate) ", shown, re.MULTILINE)


MONITOR = "monitor --log log --model models --labels labels.jsonl"


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("train --json -", "dyqn-triage-serving.* dyqn-triage\n"),
        (MONITOR, r".*'dyqn-triage-serving\[tensorflow\]'\n"),
        ("health --server 127.0.0.1:1 --json gs://b/health.json", r".*'dyqn-triage-serving\[tensorflow\]'\n"),
    ],
)
def test_what_needs_training_or_tensorflow_says_what_to_install(serving_alone, command, named, capsys):
    assert triage_cli.main(command.split()) == 2
    assert re.fullmatch(f"triage {command.split()[0]}: error: .*{named}", capsys.readouterr().err)


def test_without_scipy_the_monitor_names_its_extra(monkeypatch, capsys):
    is_installed = extras.is_installed
    monkeypatch.setattr(extras, "is_installed", lambda module: module != "scipy" and is_installed(module))
    assert triage_cli.main(MONITOR.split()) == 2
    assert "scipy: pip install 'dyqn-triage" in capsys.readouterr().err


@pytest.mark.slow
def test_the_trainer_package_comes_before_tensorflow_where_files_are_in_a_store(tmp_path):
    # monitor loads TensorFlow, and is no command of the trainer.
    options = [part for name in ("--log", "--model", "--labels") for part in (name, str(tmp_path))]
    finished = _run("monitor", *options, "--json", "gs://bucket/figures.json")
    assert finished.returncode == 2
    assert re.fullmatch(r"triage monitor: error: .*\n", finished.stderr)
    assert "TensorFlow was imported" not in finished.stderr


@pytest.mark.parametrize("versions", [("0.1.0", None), ("0.1.0", "0.1.0"), ("0.2.0", "0.1.0")])
def test_both_distributions_in_different_versions_are_refused(versions, monkeypatch, capsys):
    there = dict(zip(("dyqn-triage", "dyqn-triage-serving"), versions, strict=True))

    def version(name):
        if there[name] is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return there[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    code = triage_cli.main(["simulate", "--vignettes", "0", "--out", "nowhere"])
    assert code == 2  # either way
    mixed = "dyqn-triage 0.2.0 and dyqn-triage-serving 0.1.0"
    assert (mixed in capsys.readouterr().err) == (there["dyqn-triage"] == "0.2.0")


@pytest.mark.parametrize("command", ["train --data d --job-dir j", "reproduce --data d --out o",
                                     "export --job-dir j --model-base-path m"])  # fmt: skip
def test_figures_that_cannot_be_written_are_refused_before_any_work(command, capsys):
    assert triage_cli.main([*command.split(), "--json", "lost/x.json"]) == 2
    assert "error: --json lost/x.json: cannot write: lost " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "option"),
    [("ask", "--present"), ("ask", "--absent"), ("score", "--input"), ("prepare", "--vignettes"),
     ("prepare", "--ignore-columns"), ("evaluate", "--slice")],
)  # fmt: skip
def test_an_option_of_a_list_that_comes_twice_loses_nothing(command, option):
    needed = {"score": ["--model", "m", "--output", "o"], "evaluate": ["--job-dir", "j", "--data", "d"]}
    line = [command, *needed.get(command, ["--out", "o"] if command != "ask" else []), option, "a", "b", option, "c"]
    given = vars(triage_cli.parser(line).parse_args(line))[option.removeprefix("--").replace("-", "_")]
    assert [str(each) for each in given] == ["a", "b", "c"]


def test_an_unknown_option_is_refused_with_the_usage_of_its_command(capsys):
    with pytest.raises(SystemExit):
        triage_cli.main(["fold", "--data", "d", "--fold", "1", "--folds", "3", "--out", "f", "--format", "csv"])
    usage, error = capsys.readouterr().err.split("triage fold: error: ")
    assert usage.startswith("usage: triage fold [-h] --data DATA")
    assert "--format csv" in error
