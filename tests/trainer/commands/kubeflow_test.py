import json
import pathlib
import sys

import pytest
import yaml

import triage_cli

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[3]
TINY = '{"network": {"hidden_sizes": [8]}, "loop": {"burn_in_steps": 20, "evaluation_interval": 0}}'


def _run(*arguments):
    return triage_cli.main(["kubeflow", *map(str, arguments)])


def test_compiles_for_an_image_and_a_volume_of_the_user_s(tmp_path, capsys):
    assert _run("compile", "--out", tmp_path / "p.yaml", "--image", "registry/ours:7", "--claim", "shared") == 0
    assert f"result in {tmp_path / 'p.yaml'}; next: upload it" in capsys.readouterr().err
    spec, platform = yaml.safe_load_all((tmp_path / "p.yaml").read_text())
    executors = spec["deploymentSpec"]["executors"]
    assert {executor["container"]["image"] for executor in executors.values()} == {"registry/ours:7"}
    assert "shared" in json.dumps(platform)
    assert "pip install" not in json.dumps(spec)  # the image has all of it
    assert _run("compile", "--out", tmp_path / "bare.yaml", "--claim", "") == 0
    assert len(list(yaml.safe_load_all((tmp_path / "bare.yaml").read_text()))) == 1


def test_without_the_extra_it_says_what_to_install(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "kfp", None)
    monkeypatch.delitem(sys.modules, "kfp.kubernetes", raising=False)
    assert _run("compile", "--out", tmp_path / "p.yaml") == 2
    assert "'dyqn-triage[kubeflow]'" in capsys.readouterr().err


@pytest.mark.timeout(1800)
def test_the_pipeline_runs_here_and_pushes_only_what_is_blessed(python, tmp_path):
    def run(*parameters):
        flags = ["--push-to", "models", "--root", "runs"]
        for name in ("vignettes.jsonl", "vocabulary.csv"):
            flags += [f"--{name.partition('.')[0]}", str(ROOT / "examples" / name)]
        given = ("folds=2", "steps=60", "orders=1", f"settings={TINY}", "test_fraction=0.3", "allow_small_test=true")
        for parameter in (*given, *parameters):
            flags += ["--parameter", parameter]
        return python.run("-m", "triage_cli", "kubeflow", "run-local", *flags, cwd=tmp_path, timeout=1200)

    first = run("seeds=[0, 5]")
    assert first.returncode == 0, first.stdout + first.stderr
    assert (tmp_path / "models" / "1" / "BLESSED").exists()
    assert (tmp_path / "models" / "1" / "saved_model.pb").exists()
    # Two folds with two seeds each, and one agent on all.
    configs = [json.loads(path.read_text())["config"]["loop"] for path in (tmp_path / "runs").rglob("agent/run.json")]
    assert sorted(config["seed"] for config in configs) == [0, 0, 0, 5, 5]
    assert {config["steps"] for config in configs} == {60}
    folds = [json.loads(path.read_text())["fold"] for path in (tmp_path / "runs").rglob("part/stats.json")]
    assert sorted(fold["fold"] for fold in folds) == [0, 0, 1, 1]
    # No agent is safe on more vignettes than there are.
    second = run("seeds=[0]", "minimum_safety=1.01")
    assert second.returncode == 0, second.stdout + second.stderr
    assert "version 2 is NOT_BLESSED" in second.stdout
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["1"]
    failed = run("vignette_format=xml")
    assert failed.returncode == 1
    assert "'xml'" in failed.stdout
    assert failed.stderr.splitlines()[-1].startswith("triage kubeflow: error: ")
