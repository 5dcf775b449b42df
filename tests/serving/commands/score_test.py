"""`triage score` answers files, and goes on where it stopped."""

import json
import pathlib

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import triage_cli

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


def test_each_file_of_a_directory_gets_its_answers(guarded_base_path, inputs, tmp_path, capsys):
    out = tmp_path / "out"
    assert _score(guarded_base_path, inputs, out, "--json", str(tmp_path / "report.json")) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["cases"], report["scored_cases"], report["best_triage"]["Red"] >= 3) == (4, 4, True)
    assert sorted(path.name for path in out.iterdir()) == ["a.jsonl", "b.jsonl", "score.json"]
    answers = _answers(out / "a.jsonl") | _answers(out / "b.jsonl")
    assert {name: row["best_triage"] for name, row in answers.items() if name != "a2"} == dict.fromkeys(
        ("a1", "b1", "b2"), "Red"
    )
    assert answers["a1"]["fired_rules"] == ["pain"]
    record = json.loads((out / "score.json").read_text())
    assert (record["model_version"], record["files"]["b.jsonl"]["best_triage"]) == ("4", {"Red": 2})
    errors = capsys.readouterr().err
    assert f"4 cases; best triage Red 100.0%\nresult in {out}; next: join the answers" in errors


def test_what_is_done_is_left_alone_and_what_is_new_or_changed_is_scored(guarded_base_path, inputs, tmp_path, capsys):
    out = tmp_path / "out"
    _score(guarded_base_path, inputs, out)
    (out / "a.jsonl").write_text("kept")
    (inputs / "b.jsonl").write_text(GOOD.format("b9", "smoker"))
    (inputs / "c.jsonl").write_text(GOOD.format("c1", "chest_pain"))
    assert _score(guarded_base_path, inputs, out) == 0
    assert (out / "a.jsonl").read_text() == "kept"
    assert [*_answers(out / "b.jsonl"), *_answers(out / "c.jsonl")] == ["b9", "c1"]
    capsys.readouterr()
    assert _score(guarded_base_path, inputs, out) == 0
    assert "nothing to do: every input has its answers" in capsys.readouterr().err


def test_a_faulty_file_keeps_what_is_done_and_is_scored_when_it_is_mended(guarded_base_path, inputs, tmp_path, capsys):
    out, text = tmp_path / "out", (inputs / "b.jsonl").read_text()
    (inputs / "b.jsonl").write_text(text + "{\n")
    assert _score(guarded_base_path, inputs, out) == 2
    assert f"{inputs / 'b.jsonl'}: line 3: not JSON" in capsys.readouterr().err
    assert sorted(path.name for path in out.iterdir()) == ["a.jsonl", "score.json"]
    before = (out / "a.jsonl").stat().st_mtime_ns
    (inputs / "b.jsonl").write_text(text)
    assert _score(guarded_base_path, inputs, out) == 0
    assert list(_answers(out / "b.jsonl")) == ["b1", "b2"]
    assert (out / "a.jsonl").stat().st_mtime_ns == before


@pytest.mark.parametrize("kind", ["jsonl", "tfrecord"])
def test_a_full_disk_is_one_line_and_the_next_run_goes_on(guarded_base_path, inputs, tmp_path, full_disk, kind, capsys):
    out = tmp_path / "out"
    with full_disk(10):
        assert _score(guarded_base_path, inputs, out, "--output-format", kind) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith(f"triage score: error: {out}/")
    assert "File too large" in message
    assert list(out.iterdir()) == []
    assert _score(guarded_base_path, inputs, out, "--output-format", kind) == 0


def test_answers_do_not_depend_on_batches_and_come_in_any_format(guarded_base_path, inputs, tmp_path):
    _score(guarded_base_path, inputs / "a.jsonl", tmp_path / "one", "--batch-size", "1")
    _score(guarded_base_path, inputs / "a.jsonl", tmp_path / "all")
    assert _answers(tmp_path / "one" / "a.jsonl") == _answers(tmp_path / "all" / "a.jsonl")
    _score(guarded_base_path, inputs / "a.jsonl", tmp_path / "csv", "--output-format", "csv.gz")
    assert (tmp_path / "csv" / "a.csv.gz").exists()


def test_answers_of_two_models_or_options_do_not_mix(guarded_base_path, model_base_path, inputs, tmp_path, capsys):
    out = tmp_path / "out"
    _score(guarded_base_path, inputs, out)
    assert _score(model_base_path, inputs, out) == 2
    assert "holds answers with other values of model_version, manifest_sha256: give another" in capsys.readouterr().err
    assert _score(guarded_base_path, inputs, out, "--allow-unknown-codes") == 2
    assert "other values of allow_unknown_codes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "more", "complaint"),
    [
        ("none.jsonl", (), "none.jsonl: no such file or directory"),
        ("cases.txt", (), "cases.txt: unknown format: expected a name that ends in .jsonl, .csv, .tfrecord, .parquet"),
        ("empty", (), "no files that end in .jsonl"),
        ("empty.jsonl", (), "empty.jsonl: no cases in it"),
        ("a.jsonl", ("--questions", "11"), "--questions 11: expected 0 to 10"),
    ],
)
def test_what_cannot_be_scored_is_one_line(guarded_base_path, inputs, tmp_path, capsys, source, more, complaint):
    (inputs / "cases.txt").write_text("")
    (inputs / "empty.jsonl").write_text("\n")
    (inputs / "empty").mkdir()
    assert _score(guarded_base_path, inputs / source, tmp_path / "out", *more) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert complaint in line


def test_two_inputs_of_one_name_are_refused(guarded_base_path, inputs, tmp_path, capsys):
    other = pathlib.Path(tmp_path / "a.jsonl")
    other.write_text(GOOD.format("x", "fever"))
    assert _score(guarded_base_path, inputs / "a.jsonl", tmp_path / "out", "--input", str(other), str(inputs)) == 2
    assert "have the same name: score them into different directories" in capsys.readouterr().err


def test_a_version_that_is_not_signed_answers_nothing_where_signatures_are_required(
    guarded_base_path, inputs, tmp_path, capsys
):
    key = Ed25519PrivateKey.generate().public_key()
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    (tmp_path / "public.pem").write_bytes(key.public_bytes(*form))
    required = ["--require-signature", str(tmp_path / "public.pem")]
    assert _score(guarded_base_path, inputs, tmp_path / "out", *required) == 2
    assert f"error: {guarded_base_path / '4'}: is not signed" in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("*.jsonl"))
