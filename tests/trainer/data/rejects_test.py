import dataclasses
import json

from schemas.triage import Action
from trainer.data.source import SHOWN, Accepted, Line, Rejected, RejectLog, accept
from trainer.data.vignette import Vignette


def rejected(number=3, vignette_id="v1", reason="a reason", content=b'{"x": 1}'):
    return Rejected(Line("in.jsonl", number, len(content), content), vignette_id, reason)


def test_without_an_id_or_with_one_that_is_not_a_text_the_line_stays_one_line(tmp_path):
    shown = []
    with RejectLog(tmp_path / "r", shown.append) as log:
        log.add(rejected(vignette_id=None))
        log.add(rejected(vignette_id="a\n\x1b[31m"))
        log.add(rejected(vignette_id="v" * 1_000_000))

    assert shown[0] == "in.jsonl:3: no vignette id: a reason"
    assert all(text.isprintable() and len(text) < 200 for text in shown)


def test_bytes_and_characters_that_are_no_utf8_survive_in_the_file(tmp_path):
    with RejectLog(tmp_path / "r", lambda _: None) as log:
        log.add(rejected(vignette_id="\ud800", content=b"caf\xc3\xa9 \xff"))

    record = json.loads((tmp_path / "r").read_bytes())
    expected = {"file": "in.jsonl", "line": 3, "vignette_id": "\ud800", "reason": "a reason", "text": "café \\xff"}
    assert record == expected


def test_the_file_has_all_rejects_and_the_screen_each_reason_once_with_a_count(tmp_path):
    shown = []
    with RejectLog(tmp_path / "r", shown.append) as log:
        for number in range(1_235):
            log.add(rejected(number))
        log.add(rejected(2_000, reason="another reason"))

    assert len((tmp_path / "r").read_bytes().splitlines()) == log.count == 1_236
    assert shown == [
        "in.jsonl:0: vignette v1: a reason",
        "in.jsonl:2000: vignette v1: another reason",
        "... and 1,234 more: a reason",
    ]


def test_many_reasons_are_shown_up_to_a_limit(tmp_path):
    shown = []
    with RejectLog(tmp_path / "r", shown.append) as log:
        for number in range(SHOWN + 3):
            log.add(rejected(number, reason=f"reason {number}"))

    assert len(shown) == SHOWN + 1
    assert shown[-1].startswith("... and 3 more ")


def test_without_rejects_there_is_no_file(tmp_path):
    with RejectLog(tmp_path / "r", lambda _: None):
        pass

    assert not (tmp_path / "r").exists()


def test_every_line_is_accepted_logged_or_counted(tmp_path):
    vignette = Vignette("v1", ("a",), (), (Action.RED,))
    lines = [Line("f", number, 1, b"x") for number in range(5)]
    outcomes = [
        Accepted(lines[0], vignette),
        None,
        "cards without an answer",
        Rejected(lines[2], None, "bad"),
        Accepted(lines[3], vignette),
        Accepted(lines[4], dataclasses.replace(vignette, vignette_id="v2")),
    ]
    shown = []
    with RejectLog(tmp_path / "r", shown.append) as log:
        accepted, left_out = accept(outcomes, log)

    assert ([one.vignette_id for one in accepted], log.count) == (["v1", "v2"], 2)
    assert left_out == {"blank lines": 1, "cards without an answer": 1}
    assert shown == ["f:2: no vignette id: bad", "f:3: vignette v1: duplicate vignette_id: first used in f:0"]
