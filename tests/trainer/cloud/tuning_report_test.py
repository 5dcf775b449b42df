"""What a hyper-parameter tuning service reads of a trial."""

import json
import pathlib
import sys

import pytest

import triage_cli
from schemas.errors import InputError
from trainer.cloud import tuning_report

SMALL = ["--preset", "paper", "--hidden-sizes", "8", "--batch-size", "8", "--memory-capacity", "100",
         "--burn-in-steps", "20", "--steps", "60", "--checkpoint-interval", "60", "--steps-per-call", "30"]  # fmt: skip


@pytest.fixture
def metric_file(tmp_path, monkeypatch):
    monkeypatch.setenv("CLOUD_ML_TRIAL_ID", "7")
    monkeypatch.setenv("CLOUD_ML_HP_METRIC_FILE", str(tmp_path / "hypertune" / "output.metrics"))
    return tmp_path / "hypertune" / "output.metrics"


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


def test_the_tuning_file_asks_for_metrics_that_are_reported(metric_file):
    import yaml

    config = pathlib.Path(__file__).resolve().parents[3] / "deploy" / "vertex" / "tuning-job.yaml"
    asked = {metric["metricId"] for metric in yaml.safe_load(config.read_text())["studySpec"]["metrics"]}
    tuning_report.tuning_report()(1, {"appropriateness": 0.5, "safety": 0.5})
    reported = {key for line in metric_file.read_text().splitlines() for key in json.loads(line)}
    assert asked
    assert asked <= reported


def test_outside_a_trial_nothing_is_reported(monkeypatch):
    for variable in (tuning_report.TRIAL, tuning_report.METRIC_FILE):
        monkeypatch.delenv(variable, raising=False)
    assert not tuning_report.in_trial()


@pytest.mark.usefixtures("metric_file")
def test_a_trial_without_the_package_is_one_clear_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypertune", None)  # as if it were not installed
    with pytest.raises(InputError, match=r"^CLOUD_ML_TRIAL_ID is set.*pip install 'dyqn-triage\[hypertune\]'"):
        tuning_report.tuning_report()


@pytest.mark.usefixtures("metric_file")
def test_a_trial_that_is_never_evaluated_is_refused(data_directory, tmp_path, capsys):
    train = ["train", "--data", str(data_directory), "--job-dir", str(tmp_path / "job"), *SMALL]
    assert triage_cli.main([*train, "--evaluation-interval", "0"]) == 2
    assert "--evaluation-interval 0: CLOUD_ML_TRIAL_ID is set" in capsys.readouterr().err
