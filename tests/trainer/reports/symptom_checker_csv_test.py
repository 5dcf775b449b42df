import csv

import numpy as np
import pytest

from schemas.errors import InputError
from trainer.reports.symptom_checker_csv import AGENT, CLINICIAN, write
from trainer.vignettes.arrays import VignetteArrays


def _vignettes(counts):
    ids = np.array([f'v,"{row}"' for row in range(len(counts))], object)
    offsets = np.arange(len(counts) + 1)
    return VignetteArrays(ids, offsets, np.ones(len(counts), np.int16), np.array(counts, np.uint8), ((),) * len(counts))


def _table(path, counts, decisions, seed=0):
    write(path, {AGENT: np.array(decisions)}, _vignettes(counts), 3, seed)
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_for_each_checker_and_vignette_with_enough_decisions(tmp_path):
    rows = _table(tmp_path / "t.csv", [[3, 0, 0, 0], [0, 1, 1, 0], [0, 0, 3, 0]], [[1, 0, 2], [3, 3, 3]])
    # The first evidence order decides; the second vignette has two decisions only.
    assert [tuple(row.values()) for row in rows] == [
        (AGENT, 'v,"0"', "Red", "Yellow", "FALSE"),
        (AGENT, 'v,"2"', "Green", "Green", "TRUE"),
        (CLINICIAN, 'v,"0"', "Red", "Red", "TRUE"),
        (CLINICIAN, 'v,"2"', "Green", "Green", "TRUE"),
    ]
    assert list(rows[0]) == [
        "App_name", "Vignette_id", "Goldstandard_solution", "Triage_advice_from_app",
        "Correct_Triage_Advice_provided_from_app",
    ]  # fmt: skip


def test_the_drawn_clinician_does_not_judge_and_is_the_same_for_all_checkers(tmp_path):
    rows = _table(tmp_path / "t.csv", [[0, 1, 2, 0]] * 300, [[2] * 300])
    agent, clinician = rows[:300], rows[300:]
    for ours, theirs in zip(agent, clinician, strict=True):
        # Without the Yellow one, Green and Green; without a Green one, Yellow and Green tie, and Yellow is more urgent.
        expected = "Green" if theirs["Triage_advice_from_app"] == "Yellow" else "Yellow"
        assert ours["Goldstandard_solution"] == theirs["Goldstandard_solution"] == expected
    yellow = sum(row["Triage_advice_from_app"] == "Yellow" for row in clinician)
    assert 70 < yellow < 130  # a third, 100 with a standard deviation of 8


def test_with_one_clinician_each_there_is_no_clinician_in_the_table(tmp_path):
    rows = _table(tmp_path / "t.csv", [[0, 0, 0, 1]], [[3]])
    assert [tuple(row.values())[:1] + tuple(row.values())[2:] for row in rows] == [(AGENT, "Blue", "Blue", "TRUE")]


def test_a_file_that_cannot_be_written_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match=r"--symptomcheckr .*: cannot write: Is a directory"):
        write(tmp_path, {}, _vignettes([[3, 0, 0, 0]]), 3, 0)
