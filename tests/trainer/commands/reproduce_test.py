import argparse
import json

import pytest

import triage_cli
from schemas.errors import InputError
from schemas.triage import Action
from tests.builders import data_directory_of, symptoms
from trainer import presets
from trainer.commands import reproduce, run_study
from trainer.data.vignette import Vignette
from trainer.study.results import AGENTS


def _arguments(*flags, data="data", out="out"):
    parser = argparse.ArgumentParser()
    reproduce.add_arguments(parser)
    return parser.parse_args(["--data", str(data), "--out", str(out), *map(str, flags)])


def _settings(*flags):
    return run_study.settings_of(_arguments(*flags))


def test_the_full_study_has_the_papers_folds_and_all_parts():
    settings = _settings()
    assert (settings.seeds, settings.folds, settings.fold_seeds) == (3, 10, 3)
    assert (settings.config.loop.steps, settings.config.loop.evaluation_interval) == (6000, 150)
    assert settings.config.network == presets.preset("paper").network


def test_flags_come_before_the_file_and_that_before_quick(tmp_path):
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"loop": {"steps": 77, "burn_in_steps": 9}}))
    settings = _settings("--quick", "--config", file, "--folds", 2)
    loop = settings.config.loop
    assert (loop.steps, loop.burn_in_steps, loop.evaluation_interval, settings.folds) == (77, 9, 250, 2)
    assert _settings("--quick", "--config", file, "--steps", 78).config.loop.steps == 78


def test_a_split_without_vignettes_is_refused(tmp_path):
    vignettes = [Vignette(name, ("cough",), (), (Action.RED,)) for name in "vw"]
    data = data_directory_of(tmp_path / "data", symptoms("cough"), vignettes, [])
    with pytest.raises(InputError, match=r"0 vignettes .*test"):
        run_study.run(_arguments("--quick", data=data, out=tmp_path / "out"))


@pytest.mark.slow  # trains every agent, in processes that load all modules
def test_a_study_that_is_repeated_trains_only_what_is_missing(data_directory, tmp_path):
    out = tmp_path / "out"
    command = ["reproduce", "--data", data_directory, "--out", out, "--quick", "--steps", 40, "--burn-in-steps", 10]
    command += ["--evaluation-interval", 20, "--hidden-sizes", 8, "--memory-capacity", 100, "--batch-size", 8]
    command = [*map(str, [*command, "--seeds", 1, "--folds", 2, "--powerset-rows", 200])]
    assert triage_cli.main(command) == 0
    first = json.loads((out / "results.json").read_text())
    assert list(first["agents"]) == list(AGENTS)
    assert (out / "report.html").is_file()
    written = {path: path.stat().st_mtime_ns for path in (out / "agents").iterdir()}
    assert len(written) == 3 + 4 + 2 + 1  # supervised models, learning agents, folds, and the ensemble itself
    missing = out / "agents" / "partially_observed_or-seed-0.json"
    missing.unlink()
    assert triage_cli.main(command) == 0
    again = json.loads((out / "results.json").read_text())
    assert again["agents"] == first["agents"]
    after = {path: path.stat().st_mtime_ns for path in (out / "agents").iterdir()}
    assert [path for path in after if after[path] != written[path]] == [missing]
    assert triage_cli.main([*command, "--learning-rate", "0.5"]) == triage_cli.BAD_INPUT
