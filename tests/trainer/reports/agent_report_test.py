"""The figures of one agent beyond `triage evaluate` without further options, and its page."""

import pytest

from tests.builders import evaluated_with, prepared
from tests.trainer.conftest import tiny_default
from trainer.data.tfrecord import DataDirectory
from trainer.training.session import open_run


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
        for number in range(160)
    ]
    return prepared(folder, lines, folder / "vocabulary.csv")


@pytest.fixture(scope="module")
def job(patients, tmp_path_factory):
    """A finished run of the preset `default`, made tiny."""
    path = tmp_path_factory.mktemp("job")
    open_run(path, DataDirectory.open(patients), tiny_default()).train(lambda: False)
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
