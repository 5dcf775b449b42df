"""The pipeline and what its components do by themselves; all of it runs in `kubeflow_test.py`."""

import json
import pathlib

import pytest
import yaml

pytest.importorskip("kfp", reason="make test-all installs it")

from kfp import compiler, dsl

from trainer.cloud import pipeline
from trainer.commands.kubeflow import CLAIM, IMAGE

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    path = tmp_path_factory.mktemp("compiled") / "pipeline.yaml"
    compiler.Compiler().compile(pipeline.build(pipeline.Cluster(IMAGE, CLAIM)), str(path))
    return list(yaml.safe_load_all(path.read_text()))


def test_the_committed_file_is_what_the_code_compiles_to(compiled):
    committed = list(yaml.safe_load_all((ROOT / "deploy" / "kubeflow" / "pipeline.yaml").read_text()))
    for document in (committed[0], compiled[0]):
        assert document.pop("sdkVersion").startswith("kfp-2.16.")
    assert committed == compiled, "deploy/kubeflow/pipeline.yaml is old: triage kubeflow compile writes it"


def test_tasks_that_touch_the_volume_mount_it_and_are_never_taken_from_the_cache(compiled):
    spec, platform = compiled
    root = spec["root"]["dag"]["tasks"]
    executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    outside = {"prepare", "gate", "push"}
    for name in outside:
        assert not root[name]["cachingOptions"].get("enableCache", False), name
        [mount] = executors[spec["components"][f"comp-{name}"]["executorLabel"]]["pvcMount"]
        assert mount["mountPath"] == pipeline.MOUNT
    assert len(executors) == len(outside)
    assert root["plan"]["cachingOptions"]["enableCache"] is True


def test_the_gate_waits_for_the_cross_validation_and_the_push_for_the_gate(compiled):
    tasks = compiled[0]["root"]["dag"]["tasks"]
    after = {name: set(task.get("dependentTasks", [])) for name, task in tasks.items()}
    assert after["gate"] >= {"summarise", "train"}
    assert after["summarise"] == {"cross-validate"}
    assert after["push"] == {"gate"}


def test_every_fold_is_run_with_every_seed():
    assert pipeline.plan(2, [0, 7.0]) == [
        {"fold": 0, "seed": 0}, {"fold": 0, "seed": 7}, {"fold": 1, "seed": 0}, {"fold": 1, "seed": 7},
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"folds .*seeds"):
        pipeline.plan(1, [0])


def test_the_summary_is_mean_and_standard_deviation_over_the_runs():
    metrics = dsl.Metrics(name="metrics", uri="metrics")
    runs = [{"fold": 0, "seed": 0, "safety": 0.9}, {"fold": 1, "seed": 0, "safety": 0.7}]
    summary = pipeline.summarise(runs, metrics)
    # The deviations are .1 each: sqrt(2 * .01 / 1).
    assert summary == {"safety": pytest.approx(0.8), "safety_sd": pytest.approx(0.02**0.5)}
    assert metrics.metadata == summary


@pytest.mark.parametrize(
    ("cases", "allow", "options"),
    [("", False, []), ("cases.jsonl", True, ["--cases", "cases.jsonl", "--allow-small-test"])],
)
def test_the_gate_hands_textbook_cases_on_and_small_tests_only_where_they_are_allowed(
    tmp_path, monkeypatch, cases, allow, options
):
    folder = tmp_path / "model" / "1"
    folder.mkdir(parents=True)
    (folder / "BLESSED").touch()
    given = []

    def export(arguments, accepted):
        given.extend(map(str, arguments))
        report = pathlib.Path(given[given.index("--json") + 1])
        report.write_text(json.dumps({"path": str(folder), "metrics": {"metrics": {"safety": {"mean": 0.9}}}}))

    monkeypatch.setattr(pipeline, "triage", export)
    data, agent = dsl.Dataset(uri=str(tmp_path / "data")), dsl.Model(uri=str(tmp_path / "agent"))
    model, metrics = dsl.Model(uri=str(tmp_path / "model")), dsl.Metrics(uri="metrics")
    gated = (data, agent, {"safety": 0.9}, "served", 0.02, 0.0, 1, cases, allow, model, metrics)
    assert pipeline.gate(*gated) == "BLESSED"
    assert given[given.index("--json") + 2 :] == options


def test_a_command_that_fails_fails_its_task(capfd):
    with pytest.raises(RuntimeError, match=r"triage health .*1"):
        pipeline.triage(["health", "--server", "127.0.0.1:1"])
    assert "no server at 127.0.0.1:1" in capfd.readouterr().err
