"""`triage evaluate --cases`, from a job directory and a file of cases to the report."""

import json

import pytest

import triage_cli
from tests.builders import job_of, network_of, symptoms
from trainer.config import TrainConfig

VOCABULARY = symptoms("cough", "fever")
CASES = (
    ("sepsis", "emergency", ["Red"], ["cough", "fever"]),
    ("[bold]cold", "self_care", ["Green", "Blue"], ["cough"]),
    ("mark", "self_care", ["Blue"], ["fever"]),
)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """An agent that asks nothing and always says Green."""
    network = network_of(([[0], [0]], 0), ([[0] * 5], [0, 0, 3, 0, 0]))
    config = TrainConfig.from_dict({"network": {"hidden_sizes": [1]}})
    return job_of(tmp_path_factory.mktemp("job"), network, VOCABULARY, config).path


@pytest.fixture
def cases(tmp_path):
    lines = [
        {"vignette_id": name, "title": f"Case {name}", "category": category, "allowed": allowed, "present": present,
         "absent": []}
        for name, category, allowed, present in CASES
    ]  # fmt: skip
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text('[hot]\nreason = "Hot."\nurgency = "Red"\nall.present = ["cough", "fever"]\n')
    return path


def run(capsys, *arguments):
    capsys.readouterr()
    code = triage_cli.main(["evaluate", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_the_report_has_both_readings_without_and_with_rules(job, cases, rules, capsys):
    code, out, _ = run(capsys, "--job-dir", job, "--cases", cases, "--rules", rules, "--json", "-")
    report = json.loads(out)
    assert code == 0
    assert report["cases"] == str(cases)
    assert report["training"]["steps"] == 40
    assert [rule["rule_id"] for rule in report["safety_rules"]["rules"]] == ["hot"]
    for reading in ("all_evidence", "interview"):
        # Always Green: too late for sepsis, right for the cold, too early for the mark.
        without = report["without_rules"][reading]
        assert [(row["vignette_id"], row["verdict"]) for row in without["misses"]] == [
            ("sepsis", "too_late"), ("mark", "too_early"),
        ]  # fmt: skip
        assert without["categories"]["all"]["right"] == 1
    # The rule sees cough and fever together; the interview is over at the cough.
    assert report["with_rules"]["all_evidence"]["categories"]["emergency"]["right"] == 1
    assert report["with_rules"]["interview"]["categories"]["emergency"]["too_late"] == 1


def test_misses_are_printed_by_title(job, cases, rules, capsys):
    code, out, _ = run(capsys, "--job-dir", job, "--cases", cases, "--rules", rules)
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "Case sepsis Red Green ! Green ! Green !" in lines  # not with all + rules
    assert "Case mark Blue Green Green Green Green" in lines
    assert "Case [bold]cold" not in out
    assert any(line.startswith("emergency 1 0 (1 late, 0 early)") for line in lines)
