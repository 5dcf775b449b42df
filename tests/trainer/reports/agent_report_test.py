"""The figures of one agent beyond `triage evaluate` without further options, and its page."""

import json

import pytest

import triage_cli
from tests.builders import evaluated_with, prepared
from trainer.config import TrainConfig
from trainer.data.tfrecord import DataDirectory
from trainer.evaluation.metrics import episode_metrics
from trainer.presets import preset
from trainer.training.session import RunHooks, open_run

TINY = {
    "network": {"hidden_sizes": [8], "networks": 2},
    "memory": {"batch_size": 4, "memory_capacity": 50},
    "environment": {"environments": 4},
    "loop": {"burn_in_steps": 10, "steps": 40, "evaluation_interval": 20},
}


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    """Vignettes of children and adults with the tag `ward`: 12 and 18 to test on, two of Red."""
    folder = tmp_path_factory.mktemp("patients")
    rows = ["code,kind,name,question", "fever,symptom,<b>Fever</b>,Fever?", "cough,symptom,Cough,Cough?",
            "age_0_17,risk_factor,Child,Child?", "age_18_plus,risk_factor,Adult,Adult?"]  # fmt: skip
    (folder / "vocabulary.csv").write_text("".join(f"{row}\n" for row in rows))
    lines = [
        {
            "vignette_id": f"v{number}",
            "present": ["age_0_17" if number % 5 < 2 else "age_18_plus", *(["fever"] if number % 2 else [])],
            "absent": ["cough"] if number % 3 else [],
            "decisions": ["Red"] * 3 if number in (3, 7) else ["Yellow", "Green", "Green"],
            "split": "test" if number < 30 else "train",
            "tags": ["ward=a" if number % 2 else "ward=b"],
        }
        for number in range(130)
    ]
    return prepared(folder, lines, folder / "vocabulary.csv")


@pytest.fixture(scope="module")
def job(patients, tmp_path_factory):
    """A finished run of the preset `default`, made tiny."""
    values = {name: {**section, **TINY.get(name, {})} for name, section in preset("default").to_dict().items()}
    path = tmp_path_factory.mktemp("job")
    hooks = RunHooks(episode_metrics)
    open_run(path, DataDirectory.open(patients), TrainConfig.from_dict(values), hooks=hooks).train(lambda: False)
    return path


@pytest.fixture(scope="module")
def evaluated(job, patients, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluated")
    given = ["--job-dir", job, "--data", patients, "--orders", 2, "--slice", "cough"]
    return evaluated_with(folder, *given, "--html", folder / "report.html")


def test_slices_by_age_and_code_stand_beside_those_by_tag(evaluated):
    report = evaluated.figures
    sizes = {(each["by"], each["value"]): each["vignettes"] for each in report["slices"]}
    assert (sizes["age", "Child"], sizes["age", "Adult"]) == (12, 18)
    assert (sizes["code:cough", "absent"], sizes["code:cough", "(not stated)"]) == (20, 10)
    assert (sizes["tag:ward", "a"], sizes["majority", "Red"]) == (15, 2)
    # Child and adult, absent and not stated, two wards: six groups by two measures.
    assert report["gaps"]["comparisons"] == 12


def test_the_page_is_of_interviews_where_the_agent_can_lead_them(evaluated):
    rows = {row["measure"]: row for row in evaluated.figures["interviews"]["rows"]}
    assert rows["questions"]["agent"]["vignettes"] == rows["safety"]["agent"]["vignettes"] == 30
    assert rows["safety"]["clinicians"] == evaluated.figures["human"]["safety"]
    assert evaluated.figures["slice_names"] == {"cough": "Cough"}


def test_the_worst_cases_are_those_of_the_played_agent(evaluated):
    report = evaluated.figures
    assert report["operating_point"]["sure_enough"] is None
    for error in report["errors"]:
        assert error["steps"][-1]["action"] == error["decision"]
        assert set(error["steps"][0]["values"]) == {"Red", "Yellow", "Green", "Blue", "ask"}
    assert report["agent"]["safety"]["mean"] == 1.0 or report["errors"]


def test_the_page_says_what_does_not_fit_this_vocabulary(evaluated):
    page = (evaluated.folder / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert evaluated.figures["safety_rules"] is None
    assert "vocabulary of triage simulate" in page
    assert "<b>Fever</b>" not in page  # a name of the vocabulary is no markup
    assert "Not played: " in page
    assert f"result in {evaluated.folder / 'report.html'}, " in evaluated.err


@pytest.mark.usefixtures("eager")
def test_rules_and_textbook_cases_join_the_report(job, patients, tmp_path):
    (tmp_path / "rules.toml").write_text('[hot]\nreason = "Hot."\nurgency = "Red"\nall.present = ["fever"]\n')
    case = {"vignette_id": "c", "title": "Hot", "category": "emergency", "allowed": ["Red"], "present": ["fever"],
            "absent": []}  # fmt: skip
    (tmp_path / "cases.jsonl").write_text(json.dumps(case) + "\n")
    given = ["--job-dir", job, "--data", patients, "--orders", 2, "--rules", tmp_path / "rules.toml"]
    report = evaluated_with(tmp_path, *given, "--cases", tmp_path / "cases.jsonl").figures
    assert report["textbook_cases"]["with_rules"]["interview"]["categories"]["all"]["right"] == 1
    judged = report["safety_rules"]["as_clinicians"]["by_all_but_one"]
    assert judged["red_sensitivity"]["vignettes"] == report["as_clinicians"]["by_all_but_one"]["red_sensitivity"][
        "vignettes"
    ]  # fmt: skip


def test_something_to_evaluate_on_is_needed(job, capsys):
    assert triage_cli.main(["evaluate", "--job-dir", str(job)]) == 2
    assert "--data" in capsys.readouterr().err
    assert triage_cli.main(["evaluate", "--job-dir", str(job), "--cases", "c.jsonl", "--html", "r.html"]) == 2
    assert "--html" in capsys.readouterr().err
