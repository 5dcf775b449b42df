import argparse
import contextlib
import io
import json
import shutil
import sys

import numpy as np
import pytest

import triage_cli
from schemas.errors import InputError
from schemas.triage import Action
from tests.builders import data_directory_of, symptoms
from trainer.commands import powerset as powerset_pipeline
from trainer.study import powerset_shards
from trainer.study.powerset import expand
from trainer.study.powerset_shards import Plan
from trainer.vignettes.state import sparse_states
from trainer.vignettes.tfrecord import DataDirectory, decode_example, read_records
from trainer.vignettes.vignette import Vignette
from triage_runtime.beam.runner import Runner
from triage_runtime.storage import files

needs_beam = pytest.mark.usefixtures("beam")
CODES = [f"e{index}" for index in range(14)]
VOCABULARY = symptoms(*CODES)
TRAIN = [
    Vignette("a", ("e0", "e1"), ("e2",), (Action.RED, Action.RED, Action.GREEN), tags=("heart",)),  # 8 rows
    Vignette("b", tuple(CODES[:7]), tuple(CODES[7:12]), (Action.YELLOW,)),  # twelve pieces: 2 * 1024 rows
    Vignette("c", (), ("e13",), (Action.BLUE,)),  # 2 rows
]
TEST = [Vignette("d", ("e3", "e4"), (), (Action.GREEN,))]  # 4 rows
TRAIN_ROWS = 8 + 2048 + 2


@pytest.fixture
def beam():
    return pytest.importorskip("apache_beam", reason="needs the extra `beam`")


@pytest.fixture
def data(tmp_path):
    return data_directory_of(tmp_path / "data", VOCABULARY, TRAIN, TEST)


def powerset(data, out, *options):
    parser = argparse.ArgumentParser()
    powerset_pipeline.add_arguments(parser)
    return powerset_pipeline.run(parser.parse_args(["--data", str(data), "--out", str(out), *map(str, options)]))


@pytest.fixture(scope="module")
def expanded(tmp_path_factory):
    """What the command makes of the data by default, and what it printed."""
    pytest.importorskip("apache_beam", reason="needs the extra `beam`")
    folder, printed = tmp_path_factory.mktemp("expanded"), io.StringIO()
    data = data_directory_of(folder / "data", VOCABULARY, TRAIN, TEST)
    with contextlib.redirect_stdout(printed):
        assert powerset(data, folder / "out", "--json", folder / "figures.json") == 0
    return folder / "out", printed.getvalue()


def error_of(data, out, *options):
    with pytest.raises(InputError) as raised:
        powerset(data, out, *options)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def files_of(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


def rows_of(path, split):
    return [
        decode_example(record) for shard in DataDirectory.open(path).shards(split) for record in read_records(shard)
    ]


def by_id(rows):
    return sorted(rows, key=lambda row: row.vignette_id)


def test_the_result_is_a_data_directory_of_all_rows(expanded):
    out, printed = expanded
    assert sorted(files_of(out)) == [
        "schema.pbtxt",
        "stats.json",
        "test-00000-of-00001.tfrecord",
        "train-00000-of-00001.tfrecord",
        "vocabulary.csv",
    ]
    for split, vignettes in (("train", TRAIN), ("test", TEST)):
        assert by_id(rows_of(out, split)) == by_id(r for v in vignettes for r in expand(v, 0))
    assert "train 2,058, test 4 rows" in printed


def test_the_empty_set_is_read_into_arrays_and_sparse_states(expanded):
    arrays = DataDirectory.open(expanded[0]).read("train")
    states = sparse_states(arrays, len(VOCABULARY))
    assert states.shape == (TRAIN_ROWS, 14)
    empty = np.flatnonzero(states.getnnz(axis=1) == 0)
    # "a" and "c" have one each, "b" has more than ten pieces.
    assert sorted(arrays.vignette_ids[empty]) == ["a/0", "c/0"]
    assert arrays.decision_counts[empty].tolist() == [[2, 0, 1, 0], [0, 0, 0, 1]]
    # e13 is absent in one row, "c/1"; e0 is present in half of the rows of "a" and in half or all of those of "b".
    assert states[:, 13].sum() == -1
    assert states[:, 0].sum() in (4 + 1024, 4 + 2048)


@needs_beam
def test_the_files_are_the_same_bytes_however_the_work_is_divided(tmp_path):
    one = data_directory_of(tmp_path / "one", VOCABULARY, TRAIN, TEST, shard_size=100)
    other = data_directory_of(tmp_path / "other", VOCABULARY, TRAIN[::-1], TEST, shard_size=1, compressed=True)
    threads = ["--beam-options", "--direct_running_mode=multi_threading", "--direct_num_workers=2"]

    powerset(one, tmp_path / "out1", "--shards", 2, "--gzip")
    powerset(other, tmp_path / "out2", "--shards", 2, "--gzip", *threads)

    assert files_of(tmp_path / "out1") == files_of(tmp_path / "out2")
    assert len(DataDirectory.open(tmp_path / "out1").read("train").vignette_ids) == TRAIN_ROWS


@needs_beam
@pytest.mark.parametrize("gzip", [[], ["--gzip"]])
def test_shards_that_no_vignette_falls_to_are_there_and_are_read(data, tmp_path, gzip):
    powerset(data, tmp_path / "out", "--shards", 7, *gzip)

    assert len([name for name in files_of(tmp_path / "out") if name.startswith("test-")]) == 7
    assert DataDirectory.open(tmp_path / "out").read("test").vignette_ids.tolist() == [f"d/{n}" for n in range(4)]


@needs_beam
def test_a_split_alone_leaves_the_other_empty(data, tmp_path):
    powerset(data, tmp_path / "out", "--split", "test")

    made = DataDirectory.open(tmp_path / "out")
    assert made.shards("train") == []
    assert len(made.read("train").vignette_ids) == 0
    assert len(made.read("test").vignette_ids) == 4


@needs_beam
def test_a_sample_is_a_part_of_the_rows_and_is_written_down(expanded, data, tmp_path):
    powerset(data, tmp_path / "out", "--sample", 0.25, "--split", "train")

    sample = rows_of(tmp_path / "out", "train")
    # 2058 rows: 514 on average, with an SD of sqrt(2058 * .25 * .75) = 19.6; four of them to each side.
    assert 436 <= len(sample) <= 593
    assert {row.vignette_id for row in sample} < {row.vignette_id for row in rows_of(expanded[0], "train")}
    stats = json.loads((tmp_path / "out" / "stats.json").read_text())
    assert stats["options"] == {"sample": 0.25}
    assert (
        stats["splits"]["train"]["vignettes"] == sum(stats["splits"]["train"]["vignettes_by_evidence"]) == len(sample)
    )


def test_the_figures_tell_rows_speed_memory_and_the_sizes_of_the_evidence(expanded):
    written = json.loads(expanded[0].with_name("figures.json").read_text())
    assert written["rows"] == TRAIN_ROWS + 4
    assert written["rows_per_second"] == pytest.approx(written["rows"] / written["seconds"])
    # An interpreter that has loaded TensorFlow: above 100 MiB, and below what this machine can have.
    assert 100 * 2**20 < written["peak_memory_bytes"] < 2**40
    # Two pieces: 1, 2 and 1 sets of 0, 1 and 2.
    assert written["splits"]["test"] == {"vignettes": 4, "generated_from": 1, "vignettes_by_evidence": [1, 2, 1]}
    assert written["splits"]["train"]["generated_from"] == 3
    assert written["sources"] == [{"data_fingerprint": "sha256:0"}]


@needs_beam
def test_another_seed_or_sample_has_another_fingerprint(expanded, data, tmp_path):
    for name, value in (("seed", 1), ("sample", 0.9)):
        powerset(data, tmp_path / name, f"--{name}", value)

    made = (expanded[0], tmp_path / "seed", tmp_path / "sample")
    assert len({DataDirectory.open(each).data_fingerprint for each in made}) == 3


@needs_beam
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seed", -1], "--seed -1: expected 0 or more"),
        (["--seed", 2**64], "less than 2^64"),
        (["--sample", 0], "--sample 0: expected more than 0"),
        (["--sample", 1.5], "--sample 1.5: expected more than 0, and at most 1"),
        (["--sample", "nan"], "--sample nan: expected more than 0"),
        (["--sample", 1e-9], "--sample 1e-09: no rows were drawn: give a larger probability"),
        (["--shards", 0], "--shards 0: expected 1 to 99999"),
        (["--shards", 100_000], "--shards 100000: expected 1 to 99999"),
        (["--runner", "Walker"], "--runner Walker: Unexpected pipeline runner: Walker"),
        (
            ["--beam-options", "--direct_running_mode=x"],
            "--beam-options: argument --direct_running_mode: invalid choice",
        ),
        (["--beam-options", "--json", "x"], "--json: an option of triage powerset: give it before --beam-options"),
        (["--beam-options", "--runner=x"], "--runner=x: an option of triage powerset"),
        (
            ["--runner", "DataflowRunner", "--beam-options", "--template_location=gs://bucket/job"],
            "--template_location: this command has work to do when its workers are done",
        ),
    ],
)
def test_a_bad_option_is_one_clear_line_and_nothing_is_made(data, tmp_path, options, message):
    assert message in error_of(data, tmp_path / "out", *options)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_an_expanded_data_set_is_not_expanded_again(expanded, tmp_path):
    assert "made by triage powerset, for classifiers" in error_of(expanded[0], tmp_path / "again")


@needs_beam
def test_faulty_data_are_found_before_the_pipeline_runs(data, tmp_path):
    shard = data / "train-00001-of-00002.tfrecord"
    shard.write_bytes(shard.read_bytes()[:-1] + b"!")  # a wrong checksum

    assert "train-00001-of-00002.tfrecord: record " in error_of(data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@needs_beam
def test_a_split_without_vignettes_is_an_error(tmp_path):
    data = data_directory_of(tmp_path / "data", VOCABULARY, TRAIN, [])

    assert "there are no vignettes in the test split" in error_of(data, tmp_path / "out", "--split", "test")


@needs_beam
def test_what_stands_at_the_place_is_replaced_only_where_the_user_says_so(expanded, data, tmp_path):
    out = shutil.copytree(expanded[0], tmp_path / "out")
    assert "not empty: choose another directory, or give --overwrite" in error_of(data, out)

    powerset(data, out, "--overwrite", "--shards", 3)
    assert len(DataDirectory.open(out).shards("train")) == 3


@pytest.fixture
def stored(data, bucket):
    """The data directory in a bucket."""
    for path in data.iterdir():
        with path.open("rb") as content:
            files.replace(f"{bucket}/data/{path.name}", content, f"{bucket}/scratch")
    return f"{bucket}/data"


def _triage(*arguments):
    return triage_cli.main(["powerset", *map(str, arguments)])


@needs_beam
def test_data_and_result_can_be_in_a_bucket(expanded, stored, bucket, capsys):
    there = ("--data", stored, "--out", f"{bucket}/pow", "--json", f"{bucket}/figures.json")

    assert _triage(*there) == 0
    assert f"result in {bucket}/pow; next" in capsys.readouterr().err
    names = [entry.location.removeprefix(f"{bucket}/") for entry in files.entries(f"{bucket}/**")]
    made = {name: files.read(f"{bucket}/{name}") for name in names if name.startswith("pow/")}
    assert made == {f"pow/{name}": content for name, content in files_of(expanded[0]).items()}
    # Nothing else: neither parts of shards nor figures about them.
    assert {name for name in names if not name.startswith("data/")} == {*made, "figures.json"}
    assert json.loads(files.read(f"{bucket}/figures.json"))["out"] == f"{bucket}/pow"

    assert _triage(*there) == 2
    assert f"--out {bucket}/pow: not empty" in capsys.readouterr().err


@needs_beam
def test_faults_of_data_in_a_bucket_name_the_address_and_leave_nothing(stored, bucket, capsys):
    shard = f"{stored}/train-00001-of-00002.tfrecord"
    files.replace(shard, io.BytesIO(files.read(shard)[:-1] + b"!"), f"{bucket}/scratch")  # a wrong checksum

    assert _triage("--data", stored, "--out", f"{bucket}/pow") == 2
    assert f"triage powerset: error: {shard}: record " in capsys.readouterr().err
    assert _triage("--data", f"{bucket}/lost", "--out", f"{bucket}/pow") == 2
    assert f"triage powerset: error: {bucket}/lost: no such data directory" in capsys.readouterr().err
    assert {entry.location.split("/")[4] for entry in files.entries(f"{bucket}/**")} == {"data"}


@needs_beam
def test_a_worker_that_is_lost_is_replaced_and_the_bytes_are_the_same(expanded, data, tmp_path, monkeypatch):
    from apache_beam.io.filesystems import FileSystems

    losses = {"train-00000-of-00001.tfrecord": "before", "test-00000-of-00001.tfrecord": "after"}

    def rename(sources, targets, real=FileSystems.rename):
        loss = losses.pop(targets[0].rpartition("/")[2], None)
        if loss != "before":
            real(sources, targets)
        if loss:
            raise OSError("the worker is lost")

    monkeypatch.setattr(FileSystems, "rename", staticmethod(rename))
    powerset(data, tmp_path / "lossy", "--runner", "BundleBasedDirectRunner")  # tries bundles again
    assert losses == {}
    assert files_of(tmp_path / "lossy") == files_of(expanded[0])


@needs_beam
def test_a_dry_run_prints_the_job_and_makes_nothing(data, tmp_path, capsys):
    flink = ("--dry-run", "--runner", "FlinkRunner", "--beam-options", "--flink_master=host:8081")
    powerset(data, tmp_path / "out", "--split", "train", "--sample", 0.5, *flink)

    sent = json.loads(capsys.readouterr().out)
    assert sent["files"] == [str(data / f"train-0000{shard}-of-00002.tfrecord") for shard in range(2)]
    assert (sent["job"]["sample"], sent["job"]["shards"]) == (0.5, {"train": 1})
    assert sent["options"] == {"runner": "FlinkRunner", "flink_master": "host:8081"}
    assert sent["pipeline"]["components"]["transforms"]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@needs_beam
def test_a_worker_that_cannot_write_is_one_clear_line(tmp_path, monkeypatch):
    plan = Plan(str(tmp_path / "lost"), str(tmp_path / "scratch"), 0, 1.0, False, {"train": 1})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    with pytest.raises(InputError, match=r"^the Beam pipeline failed on DirectRunner: .*lost.*No such file") as raised:
        Runner("DirectRunner", []).run(lambda pipeline: powerset_pipeline.build(pipeline, [], plan))
    assert "\n" not in str(raised.value)


@needs_beam
def test_rows_that_were_lost_on_the_way_are_noticed(data, tmp_path, monkeypatch):
    finished = powerset_shards.finished_shards
    monkeypatch.setattr(powerset_shards, "finished_shards", lambda *given: dict(list(finished(*given).items())[:1]))

    complaint = error_of(data, tmp_path / "out", "--split", "train", "--shards", 2)
    assert "the workers wrote only 2,058 train rows of 3 vignettes: run again" in complaint  # into the first shard


def test_without_beam_the_error_says_what_to_install(data, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)  # what an import of a package that is not there meets

    assert "pip install 'dyqn-triage[beam]'" in error_of(data, tmp_path / "out")
    assert not (tmp_path / "out").exists()
