"""benchmarks/stopping.py: rules end the interviews of the same patients after equally many questions in the mean."""

import numpy as np
import pytest

from benchmarks import stopping
from trainer.interviews.play import Interviews

RED, YELLOW = np.array([3, 0, 0, 0]), np.array([0, 3, 0, 0])
PATIENTS = 4
QUESTIONS = 8


@pytest.fixture
def interviews(monkeypatch):
    """Two patients are Red and two Yellow; the latter are sure at once, the others only after eight questions."""
    monkeypatch.setattr(stopping, "MEANS", (4, 6))
    q = np.zeros([QUESTIONS + 1, PATIENTS, 5], np.float32)
    for number in range(QUESTIONS + 1):
        for patient in range(PATIENTS):
            decided = 0 if patient < 2 and number == QUESTIONS else 1
            q[number, patient, decided] = 0.95 if patient >= 2 or number == QUESTIONS else 0.5 + 0.01 * number
            q[number, patient, 4] = 0.8 if patient < 2 and number < QUESTIONS else 0.0
    revealed = np.ones([QUESTIONS, PATIENTS, 1], np.int32)
    return Interviews({"q": q}, revealed, np.zeros([QUESTIONS + 1, PATIENTS], bool))


def test_all_rules_have_equally_many_questions(interviews):
    ends = stopping.ends_by_rule(interviews, 4)
    # Of four patients, two end at once and two after eight questions: four in the mean.
    assert {name: each.tolist() for name, each in ends.items()} == {
        "threshold": [8, 8, 0, 0],
        "q_ask": [8, 8, 0, 0],
        "fixed": [4, 4, 4, 4],
    }


def test_rules_are_compared_patient_by_patient(interviews):
    found = stopping.compare(interviews, np.array([RED, RED, YELLOW, YELLOW]), seed=0)
    assert list(found) == [4]  # no threshold has a mean of six: above .95 nobody ends before the last question
    found = found[4]
    # After four questions for everybody, the Red patients are still Yellow: neither appropriate nor safe.
    assert (found["fixed"]["appropriateness"].mean, found["fixed"]["safety"].mean) == (0.5, 0.5)
    assert (found["threshold"]["appropriateness"].mean, found["threshold"]["red_sensitivity"].mean) == (1, 1)
    assert found["fixed"]["difference"].mean == -1  # two of four patients lose both
    assert found["q_ask"]["difference"].mean == 0


def test_an_open_danger_sign_keeps_an_interview_going(interviews):
    flagged = interviews.flagged.copy()
    flagged[:2, 2:] = True  # those who are sure at once have two questions, so that all have five in the mean
    ends = stopping.ends_by_rule(interviews._replace(flagged=flagged), 5)
    assert ends["threshold"].tolist() == ends["q_ask"].tolist() == [8, 8, 2, 2]
