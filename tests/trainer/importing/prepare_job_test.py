"""`triage prepare --runner` does what it does without a runner, to the byte, whatever happens to its workers."""

import csv
import io
import json
import os
import pathlib
import random
import signal
import sys
import zipfile

import pytest

import triage_cli
from schemas import locations
from schemas.beam import files
from trainer.importing import prepare_job, units
from trainer.importing.input_formats import CsvWide, Jsonl

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

from apache_beam.io.filesystems import FileSystems

CODES = [f"e{number}" for number in range(12)]
VOCABULARY = "code,kind,name,question\n" + "".join(f"{code},symptom,{code},{code}?\n" for code in CODES)
BEAM = ("--runner", "DirectRunner")
RETRIES = ("--runner", "BundleBasedDirectRunner")  # gives a bundle that failed to another thread, up to four times


def vignettes(first, count):
    """Returns the fields of vignettes that differ in all that the split and the statistics depend on."""
    generator = random.Random(first)  # noqa: S311
    for number in range(first, first + count):
        codes = generator.sample(CODES, generator.randint(1, 7))
        cut = generator.randint(0, len(codes))
        decisions = generator.choices(["Red", "Yellow", "Green", "Blue"], k=generator.randint(1, 5))
        split = {"split": generator.choice(["train", "test"])} if number % 9 == 0 else {}
        yield {
            "vignette_id": f"v{number}",
            "present": codes[:cut],
            "absent": codes[cut:],
            "decisions": decisions,
        } | split


def lines(first, count):
    return [json.dumps(fields).encode() for fields in vignettes(first, count)]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Files with everything that a line can be, and ids that come again on another line, in another unit or file."""
    folder = tmp_path_factory.mktemp("in")
    first, second, third = lines(0, 60), lines(60, 25), lines(85, 10)
    first[7:7] = [b"", b"  ", b"{", first[2], b"\xff\xfe not text"]
    first += [first[0], b'{"vignette_id": "v\\ud800", "present": ["e1"], "absent": [], "decisions": ["Red"]}']
    (folder / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(first))
    (folder / "b.jsonl").write_bytes(b"\n".join([*second, first[20], second[3], *second[:2], b""]))
    with zipfile.ZipFile(folder / "c.zip", "w") as archive:
        archive.writestr("c.jsonl", b"\n".join([*third, third[9], second[1]]))
    (folder / "empty.jsonl").write_bytes(b"")
    (folder / "test.jsonl").write_bytes(first[0].replace(b'"train"', b'"test"') + b"\n}")
    (folder / "vocabulary.csv").write_text(VOCABULARY)
    return folder


def jsonl(folder, *names):
    return ("--vignettes", *(f"{folder}/{name}" for name in names), "--vocabulary", f"{folder}/vocabulary.csv")


@pytest.fixture
def small_units(monkeypatch):
    monkeypatch.setattr(units, "UNIT_BYTES", 1_500)


def prepare(out, *arguments):
    return triage_cli.main(["prepare", "--out", str(out), *map(str, arguments)])


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def same(tmp_path, capsys, monkeypatch, small_units):
    """Compares files, texts and exit codes of the command with those of the command without a runner."""
    monkeypatch.chdir(tmp_path)

    def compared(*arguments):
        codes, texts, made = [], [], []
        for out, runner in (("made-1", ()), ("made-2", BEAM)):
            codes.append(prepare(out, *arguments, *runner))
            shown = capsys.readouterr()
            said = [line for line in shown.err.splitlines() if not line.startswith("preparing ")]
            texts.append([text.replace(out, "OUT") for text in (*said, shown.out)])
            made.append(content(pathlib.Path(out)) if pathlib.Path(out).exists() else None)
        assert made[1] == made[0]
        assert texts[1] == texts[0]
        assert codes[1] == codes[0]
        assert sorted(set(os.listdir()) - {"made-1", "made-2"}) == []
        return codes[0], made[0]

    return compared


FILES = ("a.jsonl", "empty.jsonl", "b.jsonl", "c.zip", "b.jsonl")


def test_all_files_are_those_of_the_command_without_a_runner(inputs, same):
    code, made = same(*jsonl(inputs, *FILES), "--allow-rejects", "--gzip", "--shard-size", 7, "--test-fraction", 0.3)
    assert code == 0
    rejects = [json.loads(line) for line in made["rejects.jsonl"].splitlines()]
    repeated = [
        f"{pathlib.Path(each['file']).name}:{each['line']}" for each in rejects if "first used" in each["reason"]
    ]
    # Within a file, from file to file, and then all of a file that is given again.
    assert repeated[:6] == ["a.jsonl:11", "a.jsonl:66", "b.jsonl:26", "b.jsonl:27", "b.jsonl:28", "b.jsonl:29"]
    assert len(repeated) == 6 + 2 + 29
    assert json.loads(made["stats.json"])["splits"]["train"]["vignettes"] > 50
    assert sum(name.startswith("test-") for name in made) > 3, "several shards, each from several units"


def test_rejects_stop_it_and_are_listed(inputs, same):
    code, made = same(*jsonl(inputs, *FILES))
    assert code == 2
    assert made.keys() == {"rejects.jsonl"}


@pytest.mark.parametrize(("name", "left"), [("empty.jsonl", None), ("test.jsonl", ["rejects.jsonl"])])
def test_what_cannot_be_divided_is_refused_in_the_same_words(inputs, same, name, left):
    code, made = same(*jsonl(inputs, name), "--allow-rejects")
    assert code == 2
    assert (made and list(made)) == left


def test_a_damaged_archive_is_refused_in_the_same_words(inputs, same, tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    archive = (inputs / "c.zip").read_bytes()
    (folder / "c.zip").write_bytes(archive[:100] + b"xxxx" + archive[104:])
    (folder / "vocabulary.csv").write_text(VOCABULARY)
    assert same(*jsonl(folder, "c.zip"), "--allow-rejects") == (2, None)


def test_wide_tables_are_read_in_parts_with_their_headings(same, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wide")
    text = io.StringIO()
    table = csv.writer(text, delimiter=";")
    table.writerow(["decisions", *CODES, "vignette_id", "note"])
    for one in vignettes(0, 60):
        words = dict.fromkeys(one["present"], "1") | dict.fromkeys(one["absent"], "0")
        table.writerow(["; ".join(one["decisions"]), *(words.get(code, "") for code in CODES), one["vignette_id"], "x"])
    (folder / "a.csv").write_text("\ufeff" + text.getvalue() + 'stray "quote\n;;\n\nRed;1\n', encoding="utf-8")
    wide = ("--format", "csv-wide", "--vignettes", folder / "a.csv", "--ignore-columns", "note", "--allow-rejects")
    code, made = same(*wide)
    assert code == 0
    assert [json.loads(line)["line"] for line in made["rejects.jsonl"].splitlines()] == [62, 65]


def test_patients_keep_the_ids_and_draws_of_their_lines(same, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ddxplus")
    kind = {"is_antecedent": False, "default_value": 0, "value_meaning": {}, "possible-values": [], "data_type": "B"}
    evidences = {code: {"question_en": f"{code}?", "question_fr": f"{code}?", **kind, "name": code} for code in CODES}
    conditions = {
        name: {"cond-name-fr": name, "severity": severity, "symptoms": {code: {} for code in codes}, "antecedents": {}}
        for name, severity, codes in (("Cold", 5, CODES[:8]), ("Storm", 1, CODES[4:]))
    }
    for name, values in (("evidences", evidences), ("conditions", conditions)):
        (folder / f"{name}.json").write_text(json.dumps(values))
    for name, count in (("train", 50), ("held_out", 12)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["AGE", "DIFFERENTIAL_DIAGNOSIS", "SEX", "PATHOLOGY", "EVIDENCES"])
            for number in range(count):
                table.writerow([number, "[['Cold', 0.6], ['Storm', 0.4]]", "M", "Cold", [CODES[number % 12]]])
    release = ("--conditions", folder / "conditions.json", "--evidences", folder / "evidences.json")
    patients = ("--patients", folder / "train.csv", "--test-patients", folder / "held_out.csv")
    code, _ = same("--format", "ddxplus", *release, *patients)
    assert code == 0


@pytest.fixture(scope="module")
def expected(inputs, tmp_path_factory):
    """What the command makes of two files without a runner."""
    out = tmp_path_factory.mktemp("expected") / "out"
    assert prepare(out, *jsonl(inputs, "a.jsonl", "b.jsonl"), "--allow-rejects", "--shard-size", 40) == 0
    return content(out)


LOST = "the worker is lost"


def losing(monkeypatch, losses):
    """Loses the worker that gives a file its name, just before or after, once for each of `losses`."""

    def rename(sources, targets, real=FileSystems.rename):
        loss = losses.pop(next((end for end in losses if targets[0].endswith(end)), None), None)
        if loss != "before":
            real(sources, targets)
        if loss:
            raise OSError(LOST)

    monkeypatch.setattr(FileSystems, "rename", staticmethod(rename))


def test_work_of_lost_workers_is_done_again_to_the_same_bytes(inputs, expected, tmp_path, monkeypatch, small_units):
    losses = {
        "vignettes.tfrecord": "before", "summaries": "after", "-unique.rejects.jsonl": "before", "splits": "after",
        "drawn.json": "after", "data/rejects.jsonl": "before", "train-00000-of-00002.tfrecord": "after",
        "fingerprint": "before",
    }  # fmt: skip
    losing(monkeypatch, losses)
    two = jsonl(inputs, "a.jsonl", "b.jsonl")
    assert prepare(tmp_path / "out", *two, "--allow-rejects", "--shard-size", 40, *RETRIES) == 0
    assert losses == {}
    assert content(tmp_path / "out") == expected
    assert os.listdir(tmp_path) == ["out"]


def test_a_pipeline_that_fails_leaves_nothing_behind(inputs, tmp_path, monkeypatch, capsys):
    losing(monkeypatch, {"splits": "before"})
    assert prepare(tmp_path / "out", *jsonl(inputs, "b.jsonl"), "--allow-rejects", *BEAM) == 2
    assert LOST in capsys.readouterr().err.splitlines()[-1]
    assert os.listdir(tmp_path) == []


def test_sigterm_leaves_nothing_behind_as_ctrl_c(inputs, tmp_path, monkeypatch, capsys):
    def stopped(task, plan):
        assert callable(signal.getsignal(signal.SIGTERM)), "it would end the tests"
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where Beam's log is
    monkeypatch.setattr("trainer.vignettes.assembly.write", stopped)
    assert prepare(tmp_path / "out", *jsonl(inputs, "b.jsonl"), "--allow-rejects", *BEAM) == 143
    assert capsys.readouterr().err.splitlines()[-1] == "triage prepare: interrupted"
    assert os.listdir(tmp_path) == []
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_files_that_are_missing_in_the_end_are_noticed(inputs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("trainer.vignettes.assembly.write", lambda task, plan: None)
    assert prepare(tmp_path / "out", *jsonl(inputs, "b.jsonl"), "--allow-rejects", *BEAM) == 2
    assert "the workers have not left all of their files: run again" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def put(folder, address):
    for path in folder.iterdir():
        with path.open("rb") as file:
            files.replace(f"{address}/{path.name}", file, f"{address}/scratch")


def test_everything_can_be_in_a_bucket(inputs, expected, bucket, capsys, small_units):
    put(inputs, f"{bucket}/in")
    two = jsonl(f"{bucket}/in", "a.jsonl", "b.jsonl")
    more = ("--allow-rejects", "--shard-size", 40, "--json", f"{bucket}/figures.json", *BEAM)
    assert prepare(f"{bucket}/out/", *two, *more) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"{bucket}/out: train ")
    assert f"{bucket}/in/a.jsonl:10: no vignette id: not valid JSON" in said.err
    made = {
        entry.location.removeprefix(f"{bucket}/"): files.read(entry.location)
        for entry in files.entries(f"{bucket}/**")
        if not entry.location.startswith(f"{bucket}/in/")
    }
    assert json.loads(made.pop("figures.json"))["out"] == f"{bucket}/out"
    rejects = made["out/rejects.jsonl"].replace(f"{bucket}/in".encode(), str(inputs).encode())
    assert made | {"out/rejects.jsonl": rejects} == {f"out/{name}": each for name, each in expected.items()}

    assert prepare(f"{bucket}/out", *two, *BEAM) == 2
    assert f"--out {bucket}/out: not empty: choose another directory, or give --overwrite" in capsys.readouterr().err
    assert prepare(f"{bucket}/new", *two, *BEAM) == 2
    assert f"{bucket}/new/rejects.jsonl lists the rejected lines" in capsys.readouterr().err
    assert [entry.location for entry in files.entries(f"{bucket}/new/**")] == [f"{bucket}/new/rejects.jsonl"]


def test_files_at_addresses_are_checked_before_the_pipeline_starts(inputs, bucket, tmp_path, capsys):
    put(inputs, f"{bucket}/in")
    wide = ("--format", "csv-wide", "--vignettes")
    for arguments, fault in (
        (jsonl(f"{bucket}/in", "lost.jsonl"), f"{bucket}/in/lost.jsonl: no such file"),
        ((*wide, f"{bucket}/in/a.jsonl"), f"{bucket}/in/a.jsonl: line 1: "),
        ((*wide, f"{bucket}/in/c.zip"), f"{bucket}/in/c.zip: line 1: "),
    ):
        assert prepare(tmp_path / "out", *arguments, *BEAM) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert fault in line
    assert os.listdir(tmp_path) == []


def test_only_the_start_of_files_at_addresses_is_fetched_to_check_them(inputs, bucket):
    put(inputs, f"{bucket}/in")
    addresses = [locations.source(f"{bucket}/in/{name}") for name in ("a.jsonl", "c.zip", "vocabulary.csv")]
    with prepare_job.opened(Jsonl(addresses[:2], addresses[2]), seed=0) as (source, _):
        fetched = [reader.path.read_bytes() for reader in source.readers]
    assert fetched == [(inputs / name).read_bytes()[:1_000] for name in ("a.jsonl", "c.zip")]
    header = ",".join(["vignette_id,decisions", *(f"e{number}_{'x' * 100}" for number in range(12))])
    files.replace(f"{bucket}/in/wide.csv", io.BytesIO(f"{header}\n{'v1,Red,1' * 999}".encode()), f"{bucket}/scratch")
    with prepare_job.opened(CsvWide([locations.source(f"{bucket}/in/wide.csv")]), seed=0) as (source, _):
        assert source.readers[0].path.read_text() == f"{header}\n"  # 1,272 bytes
        assert len(source.evidence_columns) == 12


def test_a_dry_run_prints_the_job_and_writes_nothing(inputs, tmp_path, capsys):
    flink = ("--dry-run", "--runner", "FlinkRunner", "--beam-options", "--flink_master=host:8081")
    assert prepare(tmp_path / "out", *jsonl(inputs, "a.jsonl", "b.jsonl"), *flink) == 0
    sent = json.loads(capsys.readouterr().out)
    assert [file["location"] for file in sent["job"]["files"]] == [str(inputs / "a.jsonl"), str(inputs / "b.jsonl")]
    assert sent["job"]["how"] == {"test_fraction": "1/10", "seed": 0, "shard_size": 50_000, "compressed": False}
    assert sent["options"] == {"runner": "FlinkRunner", "flink_master": "host:8081"}
    names = {each["uniqueName"] for each in sent["pipeline"]["components"]["transforms"].values()}
    assert {"cut", "read", "draw", "write"} <= names
    assert os.listdir(tmp_path) == []


def test_what_a_runner_cannot_do_is_one_line(inputs, tmp_path, capsys):
    (tmp_path / "long.csv").write_text("vignette_id,evidence,presence\n")
    (tmp_path / "decisions.csv").write_text("vignette_id,decision\n")
    os.mkfifo(tmp_path / "pipe")
    tables = ("--evidence-table", tmp_path / "long.csv", "--decisions", tmp_path / "decisions.csv")
    long = ("--format", "csv-long", *tables)
    pipe = ("--vignettes", tmp_path / "pipe", "--vocabulary", inputs / "vocabulary.csv")
    good = jsonl(inputs, "b.jsonl")
    for arguments, fault in (
        ((*long, *BEAM), "--format csv-long: one process groups the rows of vignettes: leave out --runner"),
        ((*pipe, *BEAM), "with --runner every input must be a regular file"),
        ((*good, "--dry-run"), "--dry-run: needs --runner, such as --runner DirectRunner"),
        ((*good, *BEAM, "--json", "lost/x.json"), "--json lost/x.json: cannot write: lost is not a directory"),
        ((*good, *BEAM, "--beam-options", "--vocabulary=x"), "--vocabulary=x: an option of triage prepare"),
    ):
        assert prepare(tmp_path / "out", *arguments) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert fault in line


@pytest.mark.slow
def test_processes_share_the_work(inputs, expected, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, sys.path)))
    processes = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")
    two = jsonl(inputs, "a.jsonl", "b.jsonl")
    options = ("--allow-rejects", "--shard-size", 40, *BEAM, "--beam-options", *processes)
    assert prepare(tmp_path / "out", *two, *options) == 0
    assert content(tmp_path / "out") == expected
    assert os.listdir(tmp_path) == ["out"]
