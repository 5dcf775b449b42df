import csv
import io
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import triage_cli
from trainer.data.input_formats import CsvLong
from trainer.data.tfrecord import DataDirectory

CODES = ("fever", "cough", "chest_pain", "smoker")
VOCABULARY = "code,kind,name,question\n" + "".join(f"{code},symptom,{code},{code}?\n" for code in CODES)


def csv_text(rows, **dialect):
    text = io.StringIO()
    csv.writer(text, **dialect).writerows(rows)
    return text.getvalue()


def wide_rows(vignettes):
    yield ["vignette_id", *CODES, "decisions", "split", "tags"]
    for one in vignettes:
        words = {**dict.fromkeys(one["present"], "present"), **dict.fromkeys(one["absent"], "absent")}
        cells = [words.get(code, "") for code in CODES]
        yield [
            one["vignette_id"],
            *cells,
            ";".join(one["decisions"]),
            one.get("split", ""),
            ";".join(one.get("tags", [])),
        ]


def long_rows(vignettes):
    evidence, decisions = [], []
    for one in vignettes:
        rows = [[one["vignette_id"], code, "1" if code in one["present"] else "0"] for code in CODES]
        evidence += [row for row in rows if row[1] in (*one["present"], *one["absent"])]
        more = [one.get("split", ""), ";".join(one.get("tags", []))]
        decisions += [[one["vignette_id"], decision, *more] for decision in one["decisions"]]
    return [["vignette_id", "evidence", "presence"], *evidence], [
        ["vignette_id", "decision", "split", "tags"],
        *decisions,
    ]


def interleaved(rows, seed):
    """Returns the rows with each vignette's first one where it was, relative to the others', and the rest behind."""
    header, *rows = rows
    seen, first, rest = set(), [], []
    for row in rows:
        (rest if row[0] in seen else first).append(row)
        seen.add(row[0])
    names = [row[0] for row in rest]
    random.Random(seed).shuffle(names)  # noqa: S311
    queues = {name: iter([row for row in rest if row[0] == name]) for name in names}
    return [header, *first, *(next(queues[name]) for name in names)]


def run_prepare(directory, name, *more):
    options = {
        "jsonl": ["--vignettes", directory / "in.jsonl", "--vocabulary", directory / "vocabulary.csv"],
        "csv-wide": ["--vignettes", directory / "wide.csv"],
        "csv-long": ["--evidence-table", directory / "evidence.csv", "--decisions", directory / "decisions.csv"],
    }[name]
    arguments = ["prepare", "--format", name, *options, "--out", directory / name, *more]
    return triage_cli.main(list(map(str, arguments)))


def write_files(directory, vignettes, bom="", seed=0, **dialect):
    (directory / "in.jsonl").write_text("".join(json.dumps(one) + "\n" for one in vignettes), encoding="utf-8")
    (directory / "vocabulary.csv").write_text(VOCABULARY)
    evidence, decisions = long_rows(vignettes)
    files = {
        "wide": wide_rows(vignettes),
        "evidence": interleaved(evidence, seed),
        "decisions": interleaved(decisions, seed),
    }
    for name, rows in files.items():
        (directory / f"{name}.csv").write_text(bom + csv_text(rows, **dialect), encoding="utf-8", newline="")


def stats_of(directory):
    return json.loads((directory / "stats.json").read_text(encoding="utf-8"))


NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=6).filter(lambda t: t == t.strip())
VIGNETTES = st.lists(
    st.fixed_dictionaries(
        {
            "vignette_id": NAMES,
            "signs": st.lists(st.sampled_from([None, None, True, False]), min_size=4, max_size=4),
            "decisions": st.lists(st.sampled_from(["Red", "Yellow", "Green", "Blue"] * 4 + ["Pink"]), max_size=4),
        },
        optional={
            "split": st.sampled_from(["train", "train", "test", "dev"]),
            "tags": st.lists(NAMES.filter(lambda t: ";" not in t), min_size=1, max_size=3),
        },
    ).filter(lambda one: one["decisions"] or any(sign is not None for sign in one["signs"])),
    min_size=1, max_size=12, unique_by=lambda one: one["vignette_id"],
)  # fmt: skip


def with_lists(one):
    signs = dict(zip(CODES, one["signs"], strict=True))
    lists = {"present": [c for c in CODES if signs[c]], "absent": [c for c in CODES if signs[c] is False]}
    return {key: value for key, value in one.items() if key != "signs"} | lists


@settings(max_examples=20)
@given(
    VIGNETTES.map(lambda made: [with_lists(one) for one in made]),
    st.sampled_from(",;\t"), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\ufeff"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), st.integers(0, 99),
)  # fmt: skip
def test_all_formats_make_the_same_data(tmp_path_factory, vignettes, delimiter, end, bom, quoting, seed):
    directory = tmp_path_factory.mktemp("formats")
    # One good vignette, for a data directory needs one.
    first = {"vignette_id": "the first", "present": list(CODES), "absent": [], "decisions": ["Red"], "split": "train"}
    write_files(directory, [first, *vignettes], bom, seed, delimiter=delimiter, lineterminator=end, quoting=quoting)

    for name in ("jsonl", "csv-wide", "csv-long"):
        assert run_prepare(directory, name, "--allow-rejects") == 0

    all_stats = [stats_of(directory / name) for name in ("jsonl", "csv-wide", "csv-long")]
    assert len({stats["data_fingerprint"] for stats in all_stats}) == 1
    assert len({stats["rejected"] for stats in all_stats}) == 1
    assert [stats["blank_lines"] for stats in all_stats] == [0, 0, 0]


GOOD = [{"vignette_id": f"v{n}", "present": ["fever"], "absent": ["smoker"], "decisions": ["Red"]} for n in range(20)]


@pytest.mark.parametrize("name", ["csv-wide", "csv-long"])
def test_a_derived_vocabulary_goes_into_the_data_directory_and_is_announced(tmp_path, capsys, name):
    write_files(tmp_path, GOOD)

    assert run_prepare(tmp_path, name, "--risk-factors", "smoker") == 0

    vocabulary = DataDirectory.open(tmp_path / name).vocabulary
    assert [(entry.code, entry.kind) for entry in vocabulary if entry.code in ("fever", "smoker")] == [
        ("fever", "symptom"),
        ("smoker", "risk_factor"),
    ]
    shown = capsys.readouterr()
    assert shown.out == f"{tmp_path / name}: train 18, test 2 vignettes; 0 rejected, 0 blank lines\n"
    assert "derived from the data" in shown.err
    assert f" {tmp_path / name / 'vocabulary.csv'}, review" in shown.err


@pytest.mark.parametrize("name", ["csv-wide", "csv-long"])
def test_a_reviewed_vocabulary_is_given_from_then_on(tmp_path, capsys, name):
    write_files(tmp_path, GOOD)
    run_prepare(tmp_path, name)
    reviewed = (tmp_path / name / "vocabulary.csv").read_text().replace("Fever: is it present?", "Do you feel hot?")
    (tmp_path / "reviewed.csv").write_text(reviewed)
    before = stats_of(tmp_path / name)
    capsys.readouterr()

    assert run_prepare(tmp_path, name, "--overwrite", "--vocabulary", tmp_path / "reviewed.csv") == 0

    after = stats_of(tmp_path / name)
    assert {key: after[key] for key in ("vocabulary_fingerprint", "data_fingerprint")} == {
        key: before[key] for key in ("vocabulary_fingerprint", "data_fingerprint")
    }
    assert (tmp_path / name / "vocabulary.csv").read_text() == reviewed
    assert (before["options"], after["options"]) == (
        {"vocabulary": "derived", "risk_factors": []},
        {"vocabulary": "given"},
    )
    assert "derived" not in capsys.readouterr().err


def test_rows_of_the_long_format_are_counted_while_they_are_loaded(tmp_path):
    write_files(tmp_path, GOOD)
    counted = []
    source = CsvLong(tmp_path / "evidence.csv", tmp_path / "decisions.csv").open(0)
    source.read(lambda rows, unit: (counted.append(unit) for _ in rows))
    assert counted == ["rows"] * 60  # 40 of evidence and 20 of decisions
