"""What a hyper-parameter tuning service reads of a trial."""

import json
import pathlib
import sys

import pytest
import yaml

import triage_cli

SMALL = ["--preset", "paper", "--hidden-sizes", "8", "--batch-size", "8", "--memory-capacity", "100",
         "--burn-in-steps", "20", "--steps", "60", "--checkpoint-interval", "60"]  # fmt: skip


@pytest.fixture
def metric_file(tmp_path, monkeypatch):
    monkeypatch.setenv("CLOUD_ML_TRIAL_ID", "7")
    monkeypatch.setenv("CLOUD_ML_HP_METRIC_FILE", str(tmp_path / "hypertune" / "output.metrics"))
    return tmp_path / "hypertune" / "output.metrics"


@pytest.mark.slow
def test_training_in_a_trial_reports_each_evaluation_under_the_names_of_the_metrics(
    metric_file, data_directory, tmp_path
):
    train = ["train", "--data", str(data_directory), "--job-dir", str(tmp_path / "job"), *SMALL]
    assert triage_cli.main([*train, "--evaluation-interval", "30"]) == 0
    lines = [json.loads(line) for line in metric_file.read_text().splitlines()]
    evaluations = [json.loads(line) for line in (tmp_path / "job" / "evaluations.jsonl").read_text().splitlines()]
    assert {line["trial"] for line in lines} == {"7"}
    for metric in ("appropriateness", "safety", "questions"):
        reported = [(int(line["global_step"]), float(line[metric])) for line in lines if metric in line]
        assert reported == [(each["step"], each["metrics"][metric]["mean"]) for each in evaluations]
        assert [step for step, _ in reported] == [30, 60]
    config = pathlib.Path(__file__).resolve().parents[3] / "deploy" / "vertex" / "tuning-job.yaml"
    asked = {metric["metricId"] for metric in yaml.safe_load(config.read_text())["studySpec"]["metrics"]}
    assert asked
    assert asked <= {key for line in lines for key in line}, "deploy/ asks for what is reported"


@pytest.mark.usefixtures("metric_file")
def test_a_trial_without_the_package_is_one_clear_line(data_directory, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "hypertune", None)  # as if it were not installed
    train = ["train", "--data", str(data_directory), "--job-dir", str(tmp_path / "job"), *SMALL]
    assert triage_cli.main([*train, "--evaluation-interval", "30"]) == 2
    error = capsys.readouterr().err
    assert "error: CLOUD_ML_TRIAL_ID" in error
    assert "pip install 'dyqn-triage[hypertune]'" in error


@pytest.mark.usefixtures("metric_file")
def test_a_trial_that_is_never_evaluated_is_refused(data_directory, tmp_path, capsys):
    train = ["train", "--data", str(data_directory), "--job-dir", str(tmp_path / "job"), *SMALL]
    assert triage_cli.main([*train, "--evaluation-interval", "0"]) == 2
    assert "--evaluation-interval 0: CLOUD_ML_TRIAL_ID" in capsys.readouterr().err
