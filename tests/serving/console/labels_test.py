"""Vignettes to label, and the file of those that are labelled."""

import json
import pathlib

import pytest

from schemas.errors import InputError
from schemas.triage import Action
from serving.console.labels import Labels, read_vignettes
from trainer.vignettes.vignette import from_fields, parse_object

LINES = (
    {"vignette_id": "v1", "present": ["fever"], "absent": []},
    {"vignette_id": "v2", "present": ["chest_pain"], "absent": ["smoker"], "decisions": ["Red"], "tags": ["a"]},
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "vignettes.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES), encoding="utf-8")
    return path


@pytest.fixture
def labels(file, vocabulary, tmp_path):
    """Makes Labels as a start of the console does."""
    return lambda: Labels(tmp_path / "out.jsonl", read_vignettes(file, vocabulary), vocabulary)


def test_what_is_labelled_is_a_vignette_file_with_one_decision_more(labels, vocabulary, tmp_path):
    begun = labels()
    assert (begun.done, begun.total, begun.next().vignette_id) == (0, 2, "v1")
    begun.decide("v1", "Green")
    begun.decide("v2", "Yellow")
    assert (begun.done, begun.next()) == (2, None)
    # The trainer's own reader, which `triage prepare` uses.
    first, second = (
        from_fields(parse_object(line), vocabulary)
        for line in (tmp_path / "out.jsonl").read_bytes().splitlines(keepends=False)
    )
    assert first.decisions == (Action.GREEN,)
    assert second.decisions == (Action.RED, Action.YELLOW)
    assert (second.present, second.absent, second.tags) == (("chest_pain",), ("smoker",), ("a",))


def test_labelling_goes_on_where_it_stopped(labels):
    labels().decide("v1", "Green")
    resumed = labels()
    assert (resumed.done, resumed.next().vignette_id) == (1, "v2")
    resumed.decide("v2", "Red")
    assert labels().done == 2


def test_a_decision_stays(labels, tmp_path):
    begun = labels()
    begun.decide("v1", "Green")
    text = (tmp_path / "out.jsonl").read_text()
    begun.decide("v1", "Green")  # a form that was sent twice
    for each in (begun, labels()):
        with pytest.raises(InputError, match="you decided Green on this vignette"):
            each.decide("v1", "Blue")
    assert (tmp_path / "out.jsonl").read_text() == text


@pytest.mark.parametrize(
    ("vignette_id", "decision", "message"),
    [("v3", "Red", "no vignette of the file"), ("v1", "red", "'red' is not one of"), ("v1", "", "is not one of")],
)
def test_other_ids_and_decisions_are_refused(labels, tmp_path, vignette_id, decision, message):
    with pytest.raises(InputError, match=message):
        labels().decide(vignette_id, decision)
    assert not (tmp_path / "out.jsonl").exists()


def test_a_write_that_fails_leaves_the_file_and_the_vignette_as_they_were(labels, tmp_path, monkeypatch):
    begun = labels()
    begun.decide("v1", "Green")
    text = (tmp_path / "out.jsonl").read_text()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "replace", full)
        with pytest.raises(InputError, match="cannot write: No space left on device"):
            begun.decide("v2", "Red")
    assert (tmp_path / "out.jsonl").read_text() == text
    assert begun.next().vignette_id == "v2"
    begun.decide("v2", "Red")
    assert labels().done == 2


def test_two_consoles_do_not_overwrite_each_other(labels, tmp_path):
    first, second = labels(), labels()
    first.decide("v1", "Green")
    with pytest.raises(InputError, match="another program changed it"):
        second.decide("v1", "Red")
    assert labels().done == 1


def test_a_line_without_its_end_is_completed(labels, tmp_path):
    (tmp_path / "out.jsonl").write_text(json.dumps(LINES[0] | {"decisions": ["Green"]}))
    labels().decide("v2", "Red")
    assert labels().done == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not valid JSON"),
        ("[1]", "line 2: expected a JSON object"),
        ('{"present": ["fever"], "absent": []}', "line 2: vignette_id: expected"),
        ('{"vignette_id": "v", "present": "fever", "absent": []}', "line 2: present: expected a list of codes"),
        ('{"vignette_id": "v", "present": ["fevre"], "absent": []}', "line 2: unknown evidence code 'fevre'.*fever"),
        ('{"vignette_id": "v", "present": ["fever", "fever"], "absent": []}', "line 2: present: a code is there twice"),
        ('{"vignette_id": "v", "present": [], "absent": []}', "line 2: vignette 'v': expected evidence"),
        ('{"vignette_id": "v", "present": ["fever"], "absent": ["fever"]}', "line 2: vignette 'v': expected evidence"),
        (
            '{"vignette_id": "v", "present": ["fever"], "absent": [], "decisions": ["red"]}',
            "decisions: expected a list",
        ),
        ('{"vignette_id": "v1", "present": ["fever"], "absent": []}', "line 2: vignette_id 'v1' is there twice"),
    ],
)
def test_lines_that_are_no_vignettes_are_named(file, vocabulary, line, message):
    file.write_text(json.dumps(LINES[0]) + "\n" + line + "\n")
    with pytest.raises(InputError, match=message):
        read_vignettes(file, vocabulary)


def test_files_that_are_no_vignette_files_are_named(tmp_path, vocabulary, labels):
    with pytest.raises(InputError, match="nowhere: cannot read: No such file"):
        read_vignettes(tmp_path / "nowhere", vocabulary)
    (tmp_path / "empty").write_text("\n\n")
    with pytest.raises(InputError, match="empty: no vignettes"):
        read_vignettes(tmp_path / "empty", vocabulary)
    (tmp_path / "utf16").write_bytes("{}".encode("utf-16"))
    with pytest.raises(InputError, match="byte 0: not UTF-8"):
        read_vignettes(tmp_path / "utf16", vocabulary)
    (tmp_path / "out.jsonl").write_text(json.dumps(LINES[0]) + "\n")
    with pytest.raises(InputError, match="vignette 'v1' has no decision: name another file"):
        labels()


def test_a_byte_order_mark_and_other_line_ends_are_read(file, vocabulary):
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(LINES[0]).encode() + b"\r\n\r\n")
    assert list(read_vignettes(file, vocabulary)) == ["v1"]
