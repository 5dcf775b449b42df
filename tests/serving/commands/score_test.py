"""`triage score` answers files of cases."""

import json
import os

import pytest

import triage_cli
from serving.scoring import file

GOOD = '{{"vignette_id": "{0}", "present": ["{1}"], "absent": []}}\n'


@pytest.fixture
def inputs(tmp_path):
    """Two files of cases: one Red and one Blue, and two that are Red."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text(GOOD.format("a1", "chest_pain") + GOOD.format("a2", "smoker"))
    (folder / "b.jsonl").write_text(GOOD.format("b1", "chest_pain") + GOOD.format("b2", "chest_pain"))
    (folder / "vocabulary.csv").write_text("not cases\n")
    return folder


def _score(base, source, out, *more):
    return triage_cli.main(["score", "--model", str(base), "--input", str(source), "--output", str(out), *more])


def _answers(path):
    return {row["vignette_id"]: row for row in map(json.loads, path.read_text().splitlines())}


def test_each_file_of_a_directory_gets_its_answers(guarded_base_path, inputs, tmp_path):
    out = tmp_path / "out"
    (inputs / "c.jsonl").write_text('{"vignette_id": "nothing known"}')
    assert _score(guarded_base_path, inputs, out, "--json", str(tmp_path / "report.json")) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["output"], report["cases"], report["answers"]) == (str(out), 5, {"Red": 4, "ask": 1})
    assert sorted(path.name for path in out.iterdir()) == ["a.jsonl", "b.jsonl", "c.jsonl"]
    answers = _answers(out / "a.jsonl") | _answers(out / "b.jsonl")
    assert {name: row["best_triage"] for name, row in answers.items() if name != "a2"} == dict.fromkeys(
        ("a1", "b1", "b2"), "Red"
    )
    assert answers["a1"]["fired_rules"] == ["pain"]


def test_a_faulty_file_has_no_answers_and_those_before_it_keep_theirs(guarded_base_path, inputs, tmp_path, capsys):
    out = tmp_path / "out"
    with (inputs / "b.jsonl").open("a") as file:
        file.write("{\n")
    assert _score(guarded_base_path, inputs, out) == 2
    assert f"{inputs / 'b.jsonl'}: line 3: " in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["a.jsonl"]


@pytest.fixture
def one_by_one(monkeypatch):
    monkeypatch.setattr(file, "BATCH_SIZE", 1)


@pytest.mark.usefixtures("one_by_one")
def test_an_id_that_names_two_cases_is_refused(guarded_base_path, inputs, tmp_path, capsys):
    lines = (inputs / "b.jsonl").read_text()
    (inputs / "b.jsonl").write_text(lines + lines.splitlines()[0] + "\n")
    assert _score(guarded_base_path, inputs, tmp_path / "out") == 2
    assert f"{inputs / 'b.jsonl'}: line 3, 'b1': " in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["jsonl", "tfrecord"])
def test_a_full_disk_is_one_line_and_leaves_no_half_file(guarded_base_path, inputs, tmp_path, full_disk, kind, capsys):
    out = tmp_path / "out"
    with full_disk(10):
        assert _score(guarded_base_path, inputs, out, "--output-format", kind) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith(f"triage score: error: {out}/")
    assert "File too large" in message
    assert list(out.iterdir()) == []


def test_answers_do_not_depend_on_batches_and_come_in_any_format(guarded_base_path, inputs, tmp_path, request):
    _score(guarded_base_path, inputs / "a.jsonl", tmp_path / "all")
    request.getfixturevalue("one_by_one")
    _score(guarded_base_path, inputs / "a.jsonl", tmp_path / "one")
    assert _answers(tmp_path / "one" / "a.jsonl") == _answers(tmp_path / "all" / "a.jsonl")
    _score(guarded_base_path, inputs / "a.jsonl", tmp_path / "csv", "--output-format", "csv.gz")
    assert (tmp_path / "csv" / "a.csv.gz").exists()


@pytest.mark.parametrize("name", ["empty.jsonl", "pipe.jsonl"])
def test_what_holds_no_cases_is_one_line(guarded_base_path, inputs, tmp_path, capsys, name):
    (inputs / "empty.jsonl").write_text("\n")
    os.mkfifo(inputs / "pipe.jsonl")
    assert _score(guarded_base_path, inputs / name, tmp_path / "out") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"{name}: " in line
