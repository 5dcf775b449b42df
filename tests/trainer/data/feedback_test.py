"""Which of several outcomes of a card counts, whose time is refused, and what is left out."""

import json

import pytest

from schemas.triage import Action
from tests.builders import symptoms
from trainer.data.feedback import read_feedback
from trainer.data.source import Accepted, LineReader, Rejected

NINE = "2026-01-01T09:00:00Z"
CARD = {"card": "c", "present": ["cough"], "absent": [], "decision": "Green"}
HANDED_OVER = {**CARD, "decision": None}
ACCEPTED = {"card": "c", "outcome": "accepted", "decision": None, "time": NINE}


def read(folder, *times_and_decisions, card=CARD):
    """What is read of a card and these outcomes; without a decision, the model's is accepted."""
    lines = [
        {"card": "c", "outcome": "overridden" if decision else "accepted", "decision": decision, "time": time}
        for time, decision in times_and_decisions
    ]
    return read_lines(folder, card, *lines)


def read_lines(folder, *lines):
    path = folder / "f.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return list(read_feedback([LineReader(path)], symptoms("cough")))


def accepted(folder, *times_and_decisions, **more):
    [one] = [each for each in read(folder, *times_and_decisions, **more) if isinstance(each, Accepted)]
    return one.vignette


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("2026-01-01T10:30:00+02:00", "2026-01-01T09:00:00Z"),  # 08:30 in UTC
        ("2026-01-01T09:00:00.1Z", "2026-01-01T08:30:00.123456789-00:30"),  # 09:00:00.123456 in UTC
        ("2026-01-01T09:00:00.12Z", "2026-01-01T09:00:00.1200019Z"),  # a microsecond
        ("2025-12-31T23:30Z", "2026-01-01T00:00:00+00:00"),
    ],
)
def test_the_outcome_that_is_latest_in_utc_counts_wherever_it_stands(tmp_path, earlier, later):
    said = [(earlier, None), (later, "Red")]
    for order in (said, said[::-1]):
        assert accepted(tmp_path, *order).decisions == (Action.RED,)


def test_of_outcomes_at_the_same_time_the_last_one_counts(tmp_path):
    same = ("2026-01-01T10:00:00.000+01:00", "Red"), ("2026-01-01T09:00:00Z", None)
    decided = [accepted(tmp_path, *order).tags for order in (same, same[::-1])]
    assert decided == [("feedback:accepted",), ("feedback:overridden",)]


def test_a_clinicians_decision_counts_where_the_card_handed_over(tmp_path):
    assert accepted(tmp_path, (NINE, "Red"), card=HANDED_OVER).decisions == (Action.RED,)


@pytest.mark.parametrize(
    ("lines", "left_out"),
    [
        ([CARD], "nobody answered"),
        ([HANDED_OVER, ACCEPTED], "accepted without a decision"),
        ([CARD, {**ACCEPTED, "outcome": "overridden"}], "overridden without a decision"),
        ([ACCEPTED], "not in the files"),
        ([ACCEPTED, {**ACCEPTED, "decision": "Red"}, CARD], "later one"),
    ],
)
def test_what_gives_no_vignette_is_named(tmp_path, lines, left_out):
    [named] = [each for each in read_lines(tmp_path, *lines) if isinstance(each, str)]
    assert left_out in named


def test_a_card_that_is_there_twice_is_rejected_and_the_first_one_counts(tmp_path):
    rejected, first = read_lines(tmp_path, CARD, {**CARD, "decision": "Red"}, ACCEPTED)
    assert isinstance(rejected, Rejected)
    assert (rejected.line.number, rejected.vignette_id) == (2, "c")
    assert first.vignette.decisions == (Action.GREEN,)


@pytest.mark.parametrize("time", ["2026-01-01T09:00:00", "2026-01-01", "2026", "today", "", "2026-01-01T09:00:00ZZ"])
def test_an_outcome_whose_time_has_no_offset_or_cannot_be_read_is_rejected_with_its_line(tmp_path, time):
    rejected, _ = read(tmp_path, (time, "Red"))
    assert (rejected.line.file, rejected.line.number) == (str(tmp_path / "f.jsonl"), 2)
    assert rejected.reason.startswith("time: ")
    assert rejected.reason.endswith(f"found {time!r}")
