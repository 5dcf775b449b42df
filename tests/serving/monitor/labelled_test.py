"""What labelled cases say of a promise, counted by hand."""

import dataclasses
import json

import pytest

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from serving.monitor.audit_reader import ServedCase
from serving.monitor.labelled import Labelled
from triage_runtime.promise import Count, lower_bound

RED, BLUE = 0, 3
VOCABULARY = Vocabulary(
    [
        Evidence("fever", "symptom", "Fever", "Fever?", band="temperature >=38 <45 °C"),
        Evidence("cold", "symptom", "Cold", "Cold?", band="temperature >=20 <35 °C"),
    ]
)


def labels(tmp_path, rows):
    """Writes vignettes: each with one code of its own, decisions and tags."""
    path = tmp_path / "labels.jsonl"
    path.write_text(
        "".join(
            json.dumps({"vignette_id": code, "present": [code], "absent": [], "decisions": decisions, "tags": tags})
            + "\n"
            for code, decisions, tags in rows
        )
    )
    return path


def served(code, action, unknown=()):
    return ServedCase(3, frozenset([code, *unknown]), frozenset(), action, frozenset(unknown))


def test_each_label_counts_once_for_all_and_for_its_groups(tmp_path):
    rows = [(f"r{number}", ["Red", "Red", "Blue"], ["sex=f"] if number < 10 else []) for number in range(20)]
    labelled = Labelled(
        labels(tmp_path, [*rows, ("b", ["Blue"], []), ("gone", ["Red"], [])]), {"red": 0.2, "over": 0.5}, VOCABULARY
    )
    for number in range(20):
        labelled.add(served(f"r{number}", BLUE if number < 10 else RED, unknown=["x"]))
        labelled.add(served(f"r{number}", RED))  # the same case again
    labelled.add(served("b", RED))
    labelled.add(served("nobody labelled this", RED))
    report = labelled.compare(0.05)
    assert (report["labelled"], report["not_served"], report["broken"]) == (21, 1, True)
    by_name = {(risk["group"], risk["risk"]): risk for risk in report["risks"]}
    assert [(key, risk["errors"], risk["patients"]) for key, risk in by_name.items()] == [
        ((None, "red"), 10, 20), ((None, "over"), 1, 21), (("sex=f", "red"), 10, 10), (("sex=f", "over"), 0, 10),
    ]  # fmt: skip
    # Four intervals, each with two sides.
    assert by_name[None, "red"]["interval"][0] == pytest.approx(lower_bound(Count(10, 20), 0.05 / 8))
    assert [risk["above"] for risk in report["risks"]] == [True, False, True, False]


def test_a_group_above_the_level_breaks_no_promise_as_none_was_made_for_it(tmp_path):
    """30 errors of 400, which .2 permits; all of them among the 60 of a group."""
    rows = [(f"r{number}", ["Red"], ["site=a" if number < 60 else "site=b"]) for number in range(400)]
    labelled = Labelled(labels(tmp_path, rows), {"red": 0.2}, VOCABULARY)
    for number in range(400):
        labelled.add(served(f"r{number}", BLUE if number < 30 else RED))
    report = labelled.compare(0.05)
    assert [(risk["group"], risk["above"]) for risk in report["risks"]] == [
        (None, False), ("site=a", True), ("site=b", False),
    ]  # fmt: skip
    assert report["broken"] is False
    # Half of the error for all patients, half for both groups; two sides each.
    assert report["risks"][0]["interval"][0] == pytest.approx(lower_bound(Count(30, 400), 0.05 / 4))
    assert report["risks"][1]["interval"][0] == pytest.approx(lower_bound(Count(30, 60), 0.05 / 8))


@pytest.mark.parametrize(
    ("hand_over_from", "red", "decision", "errors"),
    [
        (0.25, 0.25, BLUE, [0, 1]),
        (0.25, 0.24, BLUE, [1, 0]),  # a caller's own threshold handed it over, which the promise does not permit
        (0.25, 0.25, RED, [0, 0]),
        (0.25, None, BLUE, [1, 0]),
        (None, 0.25, BLUE, [1, 0]),
    ],
)
def test_only_what_the_promise_hands_over_is_no_error(tmp_path, hand_over_from, red, decision, errors):
    levels = {"red": 0.2, "handed_over": 0.5}
    labelled = Labelled(labels(tmp_path, [("r", ["Red"], [])]), levels, VOCABULARY, hand_over_from)
    labelled.add(dataclasses.replace(served("r", decision), deferred_red=red))
    assert [risk["errors"] for risk in labelled.compare(0.05)["risks"]] == errors


def test_a_label_with_a_number_is_found_by_the_codes_that_were_served(tmp_path):
    labelled = Labelled(labels(tmp_path, [("temperature=39.2", ["Red"], [])]), {"red": 0.2}, VOCABULARY)
    labelled.add(dataclasses.replace(served("fever", BLUE), absent=frozenset(["cold"])))
    report = labelled.compare(0.05)
    assert (report["labelled"], report["not_served"], report["risks"][0]["errors"]) == (1, 0, 1)


def test_patients_with_the_same_evidence_count_each(tmp_path):
    rows = [("r", ["Red"], ["sex=f"]), ("r", ["Blue", "Blue"], []), ("gone", ["Red"], []), ("gone", ["Red"], [])]
    labelled = Labelled(labels(tmp_path, rows), {"red": 0.2, "over": 0.5}, VOCABULARY)
    labelled.add(served("r", BLUE))
    report = labelled.compare(0.05)
    assert (report["labelled"], report["not_served"]) == (2, 2)
    # Pooled, they would be called Blue, and nobody Red.
    assert [(risk["group"], risk["errors"], risk["patients"]) for risk in report["risks"]] == [
        (None, 1, 1), (None, 0, 2), ("sex=f", 1, 1), ("sex=f", 0, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"present": [], "absent": []}',
        '{"present": [], "absent": [], "decisions": ["x"]}',
        '{"present": "fever", "absent": [], "decisions": ["Red"]}',
        '{"present": ["temperature=99"], "absent": [], "decisions": ["Red"]}',
    ],
)
def test_a_line_that_is_no_label_is_named(tmp_path, line):
    path = tmp_path / "labels.jsonl"
    path.write_text(line)
    with pytest.raises(InputError, match=r"labels\.jsonl: line 1: "):
        Labelled(path, {"red": 0.1}, VOCABULARY)
