import json

import numpy as np
import pytest

import triage_cli
from tests.builders import evaluated_with, prepared, symptoms
from tests.trainer.conftest import TINY_PAPER
from trainer.data.tfrecord import DataDirectory
from trainer.training.session import open_run


@pytest.fixture(scope="module")
def job(data_directory, tmp_path_factory):
    path = tmp_path_factory.mktemp("job")
    open_run(path, DataDirectory.open(data_directory), TINY_PAPER).train(lambda: False)
    return path


def _no_constant(name):
    raise AssertionError(f"{name} is not JSON")


@pytest.fixture(scope="module")
def evaluated(job, data_directory, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluated")
    return evaluated_with(folder, "--job-dir", job, "--data", data_directory, "--orders", 3)


def test_reports_agent_human_and_constant_policies_as_json(evaluated):
    report = evaluated.figures
    assert report["vignettes"] == report["agent"]["safety"]["vignettes"] == 10
    assert set(report["constants"]) == {"always red", "always yellow", "always green", "always blue"}
    assert report["constants"]["always red"]["safety"]["mean"] == 1.0
    human = {name: estimate["mean"] for name, estimate in report["human"].items()}
    assert human["under_triage"] == pytest.approx(1 - human["safety"])
    assert human["over_triage"] == pytest.approx(human["safety"] - human["appropriateness"])
    assert set(report["as_clinicians"]["by_all_but_one"]) == set(report["human"]) | set(report["human_agreement"])
    assert report["training"]["steps"] == 60
    for estimate in report["agent"].values():
        assert estimate["low"] <= estimate["mean"] <= estimate["high"]
    assert "Appropriateness" in evaluated.out
    assert "warning: the test split has 10 " in evaluated.err
    assert report["operating_point"] is None  # a network without probabilities


def test_another_vocabulary_is_an_input_error(job, tmp_path, capsys):
    line = {"vignette_id": "v", "present": ["alien"], "absent": [], "decisions": ["Red"], "split": "train"}
    other = prepared(tmp_path, [line], symptoms("alien"))
    assert triage_cli.main(["evaluate", "--job-dir", str(job), "--data", str(other)]) == 2
    assert "its vocabulary" in capsys.readouterr().err


def test_the_report_contains_every_figure_beyond_the_papers(evaluated):
    report = evaluated.figures
    assert np.sum(report["confusion"]["matrix"]) == pytest.approx(10)  # 10 vignettes, each weighs 1
    assert report["confusion"]["labels"] == ["Red", "Yellow", "Green", "Blue"]
    curve = report["calibration"]["best_decision"]["curve"]
    assert sum(part["states"] for part in curve) == 3 * 10
    assert report["interviews"] is None  # without a page
    assert {row["by"] for row in report["slices"]} == {"majority", "evidence"}
    assert set(report["human_agreement"]) == set(report["agreement"])
    rows = {row["measure"]: row for row in report["comparison"]["rows"]}
    assert rows["safety"]["agent"] == report["as_clinicians"]["by_all_but_one"]["safety"]
    assert rows["safety"]["difference"] == report["as_clinicians"]["less_clinicians"]["safety"]
    assert rows["questions"]["agent"] == report["agent"]["questions"]
    assert report["comparison"]["verdict"] is None  # ten vignettes show nothing
    for line in ("Red sensitivity", "Weighted kappa", "--details"):
        assert line in evaluated.out
    assert "majority" not in evaluated.out
    assert "Calibration at the decision" not in evaluated.out


@pytest.mark.usefixtures("eager")
def test_a_single_vignette_is_reported_without_intervals(job, data_directory, tmp_path, capsys):
    line = {"vignette_id": "v", "present": ["e1"], "absent": [], "decisions": ["Green"], "split": "test"}
    train = {**line, "vignette_id": "w", "present": ["e2"], "split": "train"}
    data = prepared(tmp_path, [line, train], data_directory / "vocabulary.csv")
    capsys.readouterr()
    arguments = ["evaluate", "--job-dir", str(job), "--data", str(data), "--orders", "1"]
    assert triage_cli.main([*arguments, "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out, parse_constant=_no_constant)
    assert report["agreement"]["red_sensitivity"] is None
    assert report["human_agreement"] is None
    assert report["calibration"]["best_decision"]["gap"]["low"] is None
    assert triage_cli.main([*arguments, "--details"]) == 0


@pytest.mark.usefixtures("eager")
def test_the_agent_is_also_played_with_rules_and_on_textbook_cases(job, data_directory, tmp_path, capsys):
    codes = ", ".join(f'"e{cell}"' for cell in range(12))
    path = tmp_path / "rules.toml"  # fires on whatever is known
    path.write_text(f'[any]\nreason = "x"\nurgency = "Red"\nany.present = [{codes}]\nany.absent = [{codes}]\n')
    case = {"vignette_id": "c", "title": "C", "category": "emergency", "allowed": ["Red"]}
    (tmp_path / "cases.jsonl").write_text(json.dumps(case | {"present": ["e1"], "absent": []}) + "\n")
    given = ["evaluate", "--job-dir", job, "--data", data_directory, "--orders", 2]
    assert triage_cli.main([*map(str, given), "--json", "-"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["safety_rules"] is None
    given += ["--rules", path, "--cases", tmp_path / "cases.jsonl", "--json", tmp_path / "figures.json"]
    assert triage_cli.main([*map(str, given)]) == 0
    assert "of the episodes" in capsys.readouterr().out
    report = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert report["agent"] == plain["agent"]  # the report on the agent itself stays
    effect = report["safety_rules"]
    assert effect["metrics"]["safety"]["without"] == plain["agent"]["safety"]
    assert effect["metrics"]["safety"]["with_rules"]["mean"] == 1.0  # Red, at once
    assert effect["metrics"]["questions"]["with_rules"]["mean"] == 0.0
    assert effect["metrics"]["red_sensitivity"]["with_rules"]["mean"] == 1.0
    assert [rule["rule_id"] for rule in effect["rules"]["rules"]] == ["any"]
    assert effect["as_clinicians"]["by_all_but_one"]["safety"]["mean"] == 1.0
    assert report["textbook_cases"]["with_rules"]["interview"]["categories"]["all"]["right"] == 1
