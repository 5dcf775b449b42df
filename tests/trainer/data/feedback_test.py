"""Which of several outcomes of a card counts, and whose time is refused."""

import json

import pytest

from schemas.triage import Action
from tests.builders import symptoms
from trainer.data.feedback import read_feedback
from trainer.data.source import LineReader

CARD = {"card": "c", "present": ["cough"], "absent": [], "decision": "Green"}


def read(folder, *times_and_decisions, card=CARD):
    """What is read of a card and these outcomes; without a decision, the model's is accepted."""
    lines = [
        {"card": "c", "outcome": "overridden" if decision else "accepted", "decision": decision, "time": time}
        for time, decision in times_and_decisions
    ]
    path = folder / "f.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (card, *lines)))
    return list(read_feedback([LineReader(path)], symptoms("cough")))


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
        [outcome] = read(tmp_path, *order)
        assert outcome.vignette.decisions == (Action.RED,)


def test_of_outcomes_at_the_same_time_the_last_one_counts(tmp_path):
    same = ("2026-01-01T10:00:00.000+01:00", "Red"), ("2026-01-01T09:00:00Z", None)
    decided = [read(tmp_path, *order)[0].vignette.tags for order in (same, same[::-1])]
    assert decided == [("feedback:accepted",), ("feedback:overridden",)]


def test_a_card_that_handed_over_has_no_decision_to_accept_but_a_clinicians_counts(tmp_path):
    card = {**CARD, "decision": None}
    assert read(tmp_path, ("2026-01-01T09:00:00Z", None), card=card) == []
    [outcome] = read(tmp_path, ("2026-01-01T09:00:00Z", "Red"), card=card)
    assert outcome.vignette.decisions == (Action.RED,)


@pytest.mark.parametrize("time", ["2026-01-01T09:00:00", "2026-01-01", "2026", "today", "", "2026-01-01T09:00:00ZZ"])
def test_an_outcome_whose_time_has_no_offset_or_cannot_be_read_is_rejected_with_its_line(tmp_path, time):
    [rejected] = read(tmp_path, (time, "Red"))
    assert (rejected.line.file, rejected.line.number) == (str(tmp_path / "f.jsonl"), 2)
    assert rejected.reason == (
        "time: expected a date and a time with its offset from UTC, such as 2026-01-01T09:00:00Z or "
        f"2026-01-01T10:00:00+01:00, found {time!r}"
    )
