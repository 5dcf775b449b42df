import json

import numpy as np
import pytest

import triage_cli
from tests.builders import ddxplus_patients, ddxplus_release, prepared
from tests.trainer.conftest import TINY_PAPER
from trainer.data.tfrecord import DataDirectory
from trainer.graph.decide import NEUTRAL
from trainer.graph.operating_point import FLOORS
from trainer.interviews.patients import Patients
from trainer.interviews.play import Interviews
from trainer.reports.question_report import (
    policy_figures,
    print_report,
    stopping_otherwise,
)
from trainer.training.session import open_run
from triage_runtime.command_line.json_output import plain

RED, BLUE = [0.9, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.8]
ASKS, DECIDES = 1.0, 0.0  # Q(ask), which is compared with (.9 + 1) / 2, or (.8 + 1) / 2


def _heads(said):
    """Heads after each question, from Q(ask) and the P(appropriate) of each decision for each patient; all are safe."""
    asking = np.float32([[[asks] for asks, _ in patients] for patients in said])
    appropriate = np.float32([[each for _, each in patients] for patients in said])
    q = np.concatenate([(appropriate + 1) / 2, asking], axis=2)
    return {"q": q, "appropriate": appropriate, "safe": np.ones_like(appropriate)}


@pytest.fixture(scope="module")
def patients():
    """Two emergencies with the finding 2, and a harmless patient without it; all come with 0."""
    answers = np.array([[1, -1, 1], [1, 1, 1], [1, -1, -1]], np.int8)
    counts = np.array([[3, 0, 0, 0], [2, 1, 0, 0], [0, 0, 0, 2]])
    return Patients(np.array([[True, False, False]] * 3), answers, counts)


@pytest.fixture(scope="module")
def interviews():
    """The first is asked about 2 and decided Red at once; the second is asked about 1; the third never is decided."""
    said = [
        [(ASKS, BLUE), (ASKS, BLUE), (ASKS, BLUE)],
        [(DECIDES, RED), (ASKS, BLUE), (ASKS, BLUE)],
        [(ASKS, BLUE), (DECIDES, RED), (ASKS, BLUE)],
    ]
    return Interviews(
        _heads(said),
        np.array([[[3], [2], [-2]], [[0], [3], [-3]]], np.int32),
        np.zeros([3, 3], bool),
    )


@pytest.fixture(scope="module")
def found(interviews, patients):
    against = {name: np.zeros([3, 3], bool) for name in ("appropriateness", "safety")}
    return policy_figures(interviews, patients, NEUTRAL, against, minimum_decisions=2, seed=0)


def test_quality_is_that_of_the_decision_after_each_number_of_questions(found):
    # Blue is right for the third patient alone; Red, for the first after one question, for the second after two.
    assert [each.mean for each in found["appropriateness"]] == pytest.approx([1 / 3, 2 / 3, 2 / 3])
    assert [each.mean for each in found["appropriateness_difference"]] == pytest.approx([1 / 3, 2 / 3, 2 / 3])


def test_interviews_end_where_the_agent_decides_or_nothing_is_left(found):
    # After 1, 2 and all 2 questions, with Red, Red and Blue: all appropriate.
    stopping = found["stopping"]
    assert stopping["questions"].mean == pytest.approx(5 / 3)
    assert stopping["appropriateness"].mean == 1
    # It says .9 of Red, .9 of Red and .8 of Blue, and that all are safe.
    assert [stopping["says"][name].mean for name in ("appropriateness", "safety")] == pytest.approx([2.6 / 3, 1])
    assert stopping["red_sensitivity"].mean == 1
    # Known then is all of two present pieces, two of three (1 and 2 were said to be present, and 0 before), one of one.
    assert stopping["evidence_recall"].mean == pytest.approx((1 + 1 + 1) / 3)
    assert stopping["evidence_seen"].mean == pytest.approx((2 / 3 + 1 + 1) / 3)


def test_at_the_end_the_agent_is_judged_as_the_clinicians_are(found):
    # All three were judged by two clinicians or more. Without the one Yellow all others said Red; so the agent's Red is
    # right for the second patient by any two of three, and clinicians are right but for that Yellow: 2 of 3 times.
    stopping = found["stopping"]
    assert stopping["as_clinicians"]["appropriateness"].mean == 1
    assert stopping["less_clinicians"]["appropriateness"].mean == pytest.approx(1 / 3 / 3)


def test_interviews_that_stop_otherwise_are_judged_where_they_do(interviews, patients):
    # A Q-value of .95 is enough for floors below it.
    at_once = interviews._replace(heads=_heads([[(DECIDES, RED)] * 3] * 3))
    found = stopping_otherwise(at_once, patients.decision_counts, NEUTRAL, seed=0)
    assert [each["sure_enough"] for each in found] == list(FLOORS)
    higher = [each for each in found if (each["sure_enough"] or 0) > 0.95]
    assert {each["questions"].mean for each in found if each not in higher} == {0}
    last = higher[-1]
    assert last["questions"].mean == pytest.approx((1 + 2 + 2) / 3)
    # Red for all: right for two of three, and safe for everybody.
    assert last["appropriateness"].mean == pytest.approx(2 / 3)
    assert [last[name].mean for name in ("safety", "red_sensitivity")] == [1, 1]


def test_the_report_prints_a_row_for_each_number_of_questions(found, capsys):
    of_first = {name: value for name, value in plain(found).items() if not name.endswith("_difference")}
    report = {
        "split": "test",
        "track": "own-card",
        "patients": 3,
        "clinicians": None,
        "policies": {"learned": of_first, "random": plain(found)},
    }
    print_report(report, details=True)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "none 1.7 1.000 / 1.000 1.000" in lines
    for line in ("0 .333 / .333 .333 / .333", "and says .867 / 1.000 .867 / 1.000", "Red found 100% 100%"):
        assert line in lines


@pytest.fixture(scope="module")
def ddxplus(tmp_path_factory):
    """A data directory of DDXPlus: storms (Red) are hot and numb, colds (Blue) hot with a cough; and its agent."""
    folder = tmp_path_factory.mktemp("ddxplus")
    conditions = {"Cold": (5, ("hot", "cough")), "Storm": (1, ("hot", "numb"))}
    release = ddxplus_release(folder, **conditions)
    patients = [
        {"AGE": 30, "SEX": "F", "PATHOLOGY": name, "DIFFERENTIAL_DIAGNOSIS": "", "EVIDENCES": [*has[::-1]]}
        for name, (_, has) in conditions.items()
    ]
    ddxplus_patients(folder / "people.csv", *patients * 80)
    given = [
        "prepare",
        *release,
        "--patients",
        folder / "people.csv",
        "--test-fraction",
        0.25,
        "--out",
        folder / "data",
    ]
    assert triage_cli.main([*map(str, given)]) == 0
    data = DataDirectory.open(folder / "data")
    open_run(folder / "job", data, TINY_PAPER).train(lambda: False)
    return folder


def _compared(folder, data, *more):
    arguments = ["--job-dir", str(folder / "job"), "--data", str(data), "--questions", "learned", "static"]
    return triage_cli.main(["evaluate", *arguments, *more])


def test_complete_patients_are_measured_by_what_they_come_with(ddxplus, capsys):
    path = ddxplus / "report.json"
    assert _compared(ddxplus, ddxplus / "data", "--track", "whole-patient", "--json", str(path)) == 0
    assert json.loads(path.read_text())["patients"] == 40
    assert _compared(ddxplus, ddxplus / "data", "--track", "ddxplus", "--json", str(path)) == 0
    report = json.loads(path.read_text())
    assert (report["track"], report["patients"]) == ("ddxplus", 40)
    # Of four pieces that are present, heat, age and sex are known: what is left is cough for a cold, numbness for a
    # storm. Whoever has the one lacks the other; the better policy asks one of them first.
    stopping = report["policies"]["learned"]["stopping"]
    assert 0.75 <= stopping["evidence_recall"]["mean"] <= 1
    assert stopping["questions"]["mean"] <= 2
    assert report["clinicians"]["safety"]["mean"] == 1  # all five decisions of a patient are the same
    assert "knowing" in capsys.readouterr().out


def test_a_track_that_the_data_do_not_fit_is_refused(ddxplus, tmp_path, capsys):
    line = {"vignette_id": "v", "present": ["hot"], "absent": ["numb"], "decisions": ["Red"], "split": "test"}
    lines = [line, {**line, "vignette_id": "w", "split": "train"}]
    data = prepared(tmp_path, lines, ddxplus / "job" / "vocabulary.csv")
    for track, complaint in (("ddxplus", "not of triage prepare --format ddxplus"), ("whole-patient", "cannot answer")):
        assert _compared(ddxplus, data, "--track", track) == 2
        assert complaint in capsys.readouterr().err
