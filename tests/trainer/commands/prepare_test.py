import gzip
import hashlib
import importlib.resources
import json
import os
import random
import re
import sys

import pytest

import triage_cli
from trainer.data.tfrecord import DataDirectory

VOCABULARY = "code,kind,name,question\na,symptom,A,A?\nb,symptom,B,B?\nc,risk_factor,C,C?\n"
STATS_KEYS = [
    "format", "sources", "options", "seed", "test_fraction", "vocabulary_fingerprint", "data_fingerprint", "splits",
    "rejected", "blank_lines", "left_out", "contradictory",
]  # fmt: skip


def line(name, **change):
    fields = {"vignette_id": name, "present": ["a"], "absent": ["b"], "decisions": ["Red", "Green", "Green"]}
    return json.dumps(fields | change)


def write_input(tmp_path, *lines):
    (tmp_path / "vocabulary.csv").write_text(VOCABULARY)
    content = b"".join((one.encode() if isinstance(one, str) else one) + b"\n" for one in lines)
    (tmp_path / "in.jsonl").write_bytes(content)


def prepare(tmp_path, *lines, more=(), out="out"):
    """Runs `triage prepare` on a file of these lines, and returns its exit code."""
    write_input(tmp_path, *lines)
    return run_prepare(tmp_path, more, out)


def run_prepare(tmp_path, more=(), out="out"):
    files = ["--vignettes", tmp_path / "in.jsonl", "--vocabulary", tmp_path / "vocabulary.csv", "--out", tmp_path / out]
    return triage_cli.main(["prepare", *map(str, files), *map(str, more)])


def names_in(path):
    return sorted(os.listdir(path))


def rejects_in(path):
    return [json.loads(record) for record in path.read_bytes().splitlines()]


def stats_of(path):
    return json.loads((path / "stats.json").read_text(encoding="utf-8"))


def test_vignettes_become_a_data_directory(tmp_path, capsys):
    code = prepare(tmp_path, *(line(f"v{i}", tags=["t"]) for i in range(20)), "")

    assert code == 0
    out = tmp_path / "out"
    assert names_in(out) == [
        "schema.pbtxt",
        "stats.json",
        "test-00000-of-00001.tfrecord",
        "train-00000-of-00001.tfrecord",
        "vocabulary.csv",
    ]
    data = DataDirectory.open(out)
    assert len(data.read("train").vignette_ids) == 18  # the test split is 0.1 of 20
    assert data.read("test").decision_counts.tolist() == [[1, 0, 2, 0]] * 2
    assert data.read("test").tags == (("t",), ("t",))
    assert (out / "vocabulary.csv").read_text() == VOCABULARY
    schema = importlib.resources.files("schemas").joinpath("vignette.pbtxt")
    assert (out / "schema.pbtxt").read_bytes() == schema.read_bytes()
    assert capsys.readouterr().out == f"{out}: train 18, test 2 vignettes; 0 rejected, 1 blank lines\n"
    assert prepare(tmp_path, "", " ", more=["--overwrite"]) == 2
    assert "no vignettes" in capsys.readouterr().err
    assert len(names_in(out)) == 5, "what was there is left alone"


def test_stats_say_where_the_data_comes_from_and_what_is_in_it(tmp_path, capsys):
    prepare(tmp_path, *(line(f"v{i}", absent=["c"] * (i % 2)) for i in range(10)), more=["--seed", 3, "--json", "-"])

    stats = stats_of(tmp_path / "out")
    assert json.loads(capsys.readouterr().out) == {"out": str(tmp_path / "out"), **stats}
    assert list(stats) == STATS_KEYS
    assert [source["file"] for source in stats["sources"]] == ["in.jsonl"]
    read = (tmp_path / "in.jsonl").read_bytes()
    assert stats["sources"][0]["sha256"] == hashlib.sha256(read).hexdigest()
    assert (stats["format"], stats["seed"], stats["test_fraction"]) == ("jsonl", 3, 0.1)
    decisions = {"Red": 9, "Yellow": 0, "Green": 18, "Blue": 0}
    assert stats["splits"]["train"] == {"vignettes": 9, "decisions": decisions}


def test_contradictory_vignettes_are_counted_and_one_is_named(tmp_path, capsys):
    write_input(tmp_path, line("v1"), line("v2", present=["a"], absent=["b"]), line("v3"), line("v4", absent=[]))
    rows = VOCABULARY.splitlines()
    related = [f"{rows[0]},parent", *(f"{row},{'b' if row.startswith('a,') else ''}" for row in rows[1:])]
    (tmp_path / "vocabulary.csv").write_text("\n".join(related) + "\n")
    assert run_prepare(tmp_path, [], "out") == 0
    warning = " ".join(capsys.readouterr().err.split())
    assert re.search("contradictory .* 3 vignettes; vignette v1: 'a' .*'b'", warning)
    assert stats_of(tmp_path / "out")["contradictory"]["vignettes"] == 3


def test_the_same_input_and_seed_give_the_same_bytes(tmp_path):
    lines = [line(f"v{i}") for i in range(30)]
    for out in ("one", "other"):
        assert prepare(tmp_path, *lines, out=out) == 0

    for name in names_in(tmp_path / "one"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes(), name


def test_rejects_stop_the_run_and_are_listed(tmp_path, capsys):
    code = prepare(tmp_path, line("v1"), line("v2", present=["x"]), b"\xff", line("v1"))

    assert code == 2
    assert names_in(tmp_path) == ["in.jsonl", "out", "vocabulary.csv"]
    assert names_in(tmp_path / "out") == ["rejects.jsonl"]
    source = str(tmp_path / "in.jsonl")
    assert [(r["file"], r["line"], r["vignette_id"]) for r in rejects_in(tmp_path / "out" / "rejects.jsonl")] == [
        (source, 2, "v2"),
        (source, 3, None),
        (source, 4, "v1"),
    ]
    *shown, error = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[0] for line in shown] == [f"{source}:{number}" for number in (2, 3, 4)]
    assert "3 of 4 " in error
    assert str(tmp_path / "out" / "rejects.jsonl") in error


def test_rejects_may_be_left_out(tmp_path, capsys):
    code = prepare(tmp_path, line("v1"), "{", line("v2"), more=["--allow-rejects"])

    assert code == 0
    assert DataDirectory.open(tmp_path / "out").read("train").vignette_ids.tolist() == ["v1", "v2"]
    assert [record["text"] for record in rejects_in(tmp_path / "out" / "rejects.jsonl")] == ["{"]
    assert stats_of(tmp_path / "out")["rejected"] == 1
    assert "split is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{", "["], "no vignettes"),
        (["{", line("v1", split="test")], "no vignette is left"),
    ],
)
def test_the_list_of_rejects_is_kept_even_if_nothing_is_left(tmp_path, capsys, lines, message):
    assert prepare(tmp_path, *lines, more=["--allow-rejects"]) == 2

    assert message in capsys.readouterr().err
    assert names_in(tmp_path / "out") == ["rejects.jsonl"]


def mutated(generator, content):
    """Returns `content` with a few bytes deleted, repeated, or replaced by ones that matter to a parser."""
    content = bytearray(content)
    for _ in range(generator.randint(0, 3)):
        start = generator.randrange(len(content))
        end = start + generator.choice([0, 1, 1, 5])
        junk = [b"", b'"', b"[", b"{", b"\\", b"\xff", b"\x00", b"\xf0\x9f\x98\x80", b"NaN", b"\\ud800", b"\r"]
        content[start:end] = generator.choice([*junk, bytes(content[start:end]) * 2, generator.randbytes(2)])
    return bytes(content).replace(b"\n", b" ")


FUZZED_LINES = 400


def test_of_fuzzed_lines_each_is_accepted_rejected_or_blank(tmp_path):
    generator = random.Random(20)  # noqa: S311
    good = line("id", tags=["t"], split="train").encode()
    lines = [mutated(generator, good.replace(b'"id"', b'"id%d"' % i)) for i in range(FUZZED_LINES)]

    assert prepare(tmp_path, line("first"), *lines, more=["--allow-rejects"]) == 0

    stats = stats_of(tmp_path / "out")
    accepted = sum(part["vignettes"] for part in stats["splits"].values())
    assert accepted + stats["rejected"] + stats["blank_lines"] == 1 + FUZZED_LINES
    assert len(rejects_in(tmp_path / "out" / "rejects.jsonl")) == stats["rejected"]
    assert min(accepted, stats["rejected"]) > FUZZED_LINES / 5
    assert len(DataDirectory.open(tmp_path / "out").read("train").vignette_ids) == accepted


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (line("v1").encode("utf-16"), "UTF-16"),
        (gzip.compress(line("v1").encode(), mtime=0), "compressed with gzip"),
        (b"vignette_id,a,decisions\nv1,1,Red\n", "a CSV file, .*--format csv-wide"),
        (b"[\n" + line("v1").encode() + b"\n]\n", "a JSON array"),
    ],
)
def test_a_file_of_another_kind_is_one_line_before_tensorflow_loads(tmp_path, monkeypatch, capsys, content, message):
    write_input(tmp_path)
    (tmp_path / "in.jsonl").write_bytes(content)
    monkeypatch.setitem(sys.modules, "tensorflow", None)  # importing it would fail
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    assert run_prepare(tmp_path) == 2
    error = capsys.readouterr().err
    assert re.match(f"triage prepare: error: {tmp_path / 'in.jsonl'}: {message}", error)
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_small_data_are_warned_about_and_the_next_command_is_named(tmp_path, capsys):
    assert prepare(tmp_path, *(line(f"v{i}", decisions=["Green"]) for i in range(20))) == 0
    shown = capsys.readouterr().err
    for warned in ("only 2 test vignettes: .*50", "train split are Green", "test split has one decision"):
        assert re.search(f"warning: .*{warned}", shown)
    assert f"result in {tmp_path / 'out'}; next: triage stats {tmp_path / 'out'} --validate" in shown


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (["--format", "jsonl", "--vignettes", "in"],
         {"in": '{"vignette_id": "v1", "present": ["t=39", "a"], "absent": [], "decisions": ["Red"]}\n'}),
        (["--format", "csv-wide", "--vignettes", "in"], {"in": "vignette_id,t,a,decisions\nv1,39,1,Red\n"}),
        (["--format", "csv-long", "--evidence-table", "in", "--decisions", "of"],
         {"in": "vignette_id,evidence,presence\nv1,t,39\nv1,a,present\n", "of": "vignette_id,decision\nv1,Red\n"}),
    ],
    ids=["jsonl", "csv-wide", "csv-long"],
)  # fmt: skip
def test_numbers_become_codes_in_every_format(arguments, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bands = {"b": "t >=38 <45", "c": "t <35"}
    rows = [f"{row},{bands.get(row[0], '')}" for row in VOCABULARY.splitlines()[1:]]
    (tmp_path / "vocabulary.csv").write_text("\n".join(["code,kind,name,question,band", *rows]) + "\n")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    more = ["--vocabulary", "vocabulary.csv", "--out", "out", "--test-fraction", "0"]
    assert triage_cli.main(["prepare", *arguments, *more]) == 0
    train = DataDirectory.open(tmp_path / "out").read("train")
    assert sorted(train.signed_codes.tolist()) == [-3, 1, 2]  # a and b are present, c is absent
