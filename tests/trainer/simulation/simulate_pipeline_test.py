"""`triage simulate --runner` makes the files of the command without it, in units of any size."""

import json
import os

import pytest

import triage_cli
from schemas.beam import files
from trainer.simulation.simulator import BLOCK

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

from trainer.simulation import simulate_pipeline

BEAM = ("--runner", "DirectRunner")
SIZE = ("--vignettes", 3 * BLOCK + 7, "--seed", 5, "--shard-size", 400)


def simulate(out, *arguments):
    return triage_cli.main(["simulate", "--out", str(out), *map(str, arguments)])


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def made(tmp_path):
    """An empty folder."""
    (tmp_path / "made").mkdir()
    return tmp_path / "made"


@pytest.fixture
def expected(toy_knowledge_directory, tmp_path):
    out = tmp_path / "expected"
    assert simulate(out, "--knowledge", toy_knowledge_directory, *SIZE) == 0
    return content(out)


@pytest.mark.parametrize("unit", [1, 3])
def test_the_files_are_those_of_the_command_without_a_runner(
    toy_knowledge_directory, expected, made, monkeypatch, unit
):
    monkeypatch.setattr(simulate_pipeline, "UNIT", unit)
    assert simulate(made / "out", "--knowledge", toy_knowledge_directory, *SIZE, *BEAM) == 0
    assert content(made / "out") == expected
    assert os.listdir(made) == ["out"]


def test_knowledge_and_data_can_be_in_a_bucket(toy_knowledge_directory, expected, bucket, capsys):
    for path in (path for path in toy_knowledge_directory.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            name = path.relative_to(toy_knowledge_directory)
            files.replace(f"{bucket}/knowledge/{name}", file, f"{bucket}/scratch")
    assert simulate(f"{bucket}/out", "--knowledge", f"{bucket}/knowledge", *SIZE, *BEAM) == 0
    names = [entry.location for entry in files.entries(f"{bucket}/**") if "/knowledge/" not in entry.location]
    assert {name.removeprefix(f"{bucket}/out/"): files.read(name) for name in names} == expected
    assert simulate(f"{bucket}/new", "--knowledge", f"{bucket}/lost", *SIZE, *BEAM) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"{bucket}/lost/conditions: expected the conditions of a knowledge base" in error


def test_a_fault_of_the_draw_is_that_of_the_command_without_a_runner(toy_knowledge_directory, made, capsys):
    unseen = ("--unseen-conditions", "common_cold", "heart_attack", "threatened_miscarriage")
    for runner in ((), BEAM):
        assert simulate(made / "out", "--knowledge", toy_knowledge_directory, *unseen, *runner) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert "error: no vignette is left for training: 1,374 in the test split" in error
    assert os.listdir(made) == []


def test_a_dry_run_prints_the_job_and_writes_nothing(toy_knowledge_directory, made, capsys):
    dry = ("--dry-run", "--runner", "SparkRunner")
    assert simulate(made / "out", "--knowledge", toy_knowledge_directory, *SIZE, *dry) == 0
    sent = json.loads(capsys.readouterr().out)
    assert (sent["job"]["vignettes"], sent["job"]["how"]["seed"]) == (1507, 5)
    assert sent["options"] == {"runner": "SparkRunner"}
    names = {each["uniqueName"] for each in sent["pipeline"]["components"]["transforms"].values()}
    assert {"simulate", "draw", "write"} <= names
    assert os.listdir(made) == []
    assert simulate(made / "out", "--dry-run") == 2
    assert "--dry-run: needs --runner, such as --runner DirectRunner" in capsys.readouterr().err
