"""A data directory appears whole at an address, too, as far as a store without folders allows."""

import io

import pytest

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from trainer.study.beam_output import BeamOutput, output_at
from trainer.vignettes.output import OutputDirectory
from triage_runtime.storage import files, locations

pytest.importorskip("apache_beam", reason="needs the extra `beam`")
from apache_beam.io.filesystems import FileSystems

DATA = ("rejects.jsonl", "stats.json", "train-00000-of-00002.tfrecord", "train-00001-of-00002.tfrecord")
NEW = ("stats.json", "train-00000-of-00001.tfrecord")


@pytest.fixture(params=["folders", "store"])
def base(request, tmp_path):
    """Where file systems with and without folders keep their files."""
    return request.getfixturevalue("bucket") if request.param == "store" else str(tmp_path / "made")


def fill(folder, *names, content=b"old"):
    for name in names:
        files.replace(f"{folder}/{name}", io.BytesIO(content), f"{folder}/{name}.new")


def files_in(folder):
    return {
        entry.location.removeprefix(f"{folder}/"): files.read(entry.location) for entry in files.entries(f"{folder}/**")
    }


def publish(base, overwrite=False):
    with BeamOutput(f"{base}/data", overwrite) as output:
        fill(output.staging, *NEW, content=b"new")
        fill(output.scratch, "block")
        output.publish()


def test_the_directory_appears_whole_and_nothing_else_stays(base):
    publish(base)
    assert files_in(base) == dict.fromkeys((f"data/{name}" for name in NEW), b"new")


def test_the_description_is_that_of_a_local_directory(base, tmp_path):
    vocabulary = Vocabulary([Evidence("fever", "symptom", "Fever", "Fever?")])
    with OutputDirectory(tmp_path / "local", overwrite=False) as local:
        local.describe(vocabulary, {"seed": 1})
        local.publish()
    with BeamOutput(f"{base}/data", overwrite=False) as output:
        output.describe(vocabulary, {"seed": 1})
        output.publish()
    assert files_in(f"{base}/data") == {path.name: path.read_bytes() for path in (tmp_path / "local").iterdir()}


def test_data_is_replaced_only_where_the_user_says_so_and_nothing_of_it_stays(base):
    fill(f"{base}/data", *DATA)
    with pytest.raises(InputError, match=r"--out .*/data: not empty: choose another directory, or give --overwrite"):
        BeamOutput(f"{base}/data", overwrite=False)
    publish(base, overwrite=True)
    assert files_in(base) == dict.fromkeys((f"data/{name}" for name in NEW), b"new")


def test_counts_go_first_and_come_last(bucket, monkeypatch):
    fill(f"{bucket}/data", *DATA)
    done = []

    def noting(name, real):
        def noted(names, *targets):
            done.append((name, sorted(each.rpartition("/")[2] for each in names)))
            real(names, *targets)

        monkeypatch.setattr(FileSystems, name, staticmethod(noted))

    noting("delete", FileSystems.delete)
    noting("rename", FileSystems.rename)
    with BeamOutput(f"{bucket}/data", overwrite=True) as output:
        fill(output.staging, *NEW)
        done.clear()
        output.publish()
        assert done == [
            ("delete", ["stats.json"]),
            ("delete", [name for name in DATA if name != "stats.json"]),
            ("rename", ["train-00000-of-00001.tfrecord"]),
            ("rename", ["stats.json"]),
        ]


@pytest.mark.parametrize("error", [OSError("no space"), KeyboardInterrupt()])
def test_new_files_that_cannot_be_moved_stay_and_are_named(base, monkeypatch, error):
    fill(f"{base}/data", *DATA)
    with BeamOutput(f"{base}/data", overwrite=True) as output:
        fill(output.staging, *NEW, content=b"new")
        moves = []

        def rename(sources, targets, real=FileSystems.rename):
            moves.append(targets)
            if len(moves) == 2:
                raise error
            real(sources, targets)

        monkeypatch.setattr(FileSystems, "rename", staticmethod(rename))
        with pytest.raises(OSError, match=f"; the files that are not there yet are in {output.staging}: move them to "):
            output.publish()
    left = output.staging.removeprefix(f"{base}/")
    assert files_in(base) == {"data/train-00000-of-00001.tfrecord": b"new", f"{left}/stats.json": b"new"}


def test_an_error_on_the_way_leaves_what_was_there(base):
    fill(f"{base}/data", *DATA)

    def interrupted():
        with BeamOutput(f"{base}/data", overwrite=True) as output:
            fill(output.staging, *NEW, content=b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert files_in(base) == dict.fromkeys((f"data/{name}" for name in DATA), b"old")


def test_what_is_not_a_data_directory_is_never_deleted(base):
    fill(f"{base}/data", *DATA, "thesis/main.tex")
    with pytest.raises(InputError, match=r"holds 'thesis/main\.tex', which is not part of a data directory"):
        BeamOutput(f"{base}/data", overwrite=True)


def test_a_directory_that_filled_meanwhile_is_not_replaced(base):
    with BeamOutput(f"{base}/data", overwrite=False) as output:
        fill(f"{base}/data", *DATA)
        with pytest.raises(InputError, match="not empty"):
            output.publish()
    assert files_in(base) == dict.fromkeys((f"data/{name}" for name in DATA), b"old")


def test_a_bucket_that_is_not_there_is_one_line(bucket):
    with pytest.raises(InputError, match=r"^--out gs://lost/data: cannot use it: gs://lost/data.*: GET http") as raised:
        BeamOutput("gs://lost/data", overwrite=False)
    assert "\n" not in str(raised.value)


def test_a_path_has_the_directory_that_one_rename_makes(tmp_path):
    assert isinstance(output_at(tmp_path / "data", overwrite=False), OutputDirectory)
    with pytest.raises(InputError, match="no path can have any of the characters"):
        output_at(tmp_path / "data[1]", overwrite=False)


def test_an_address_has_the_other_one(bucket):
    assert isinstance(output_at(locations.result(f"{bucket}/data/"), overwrite=False), BeamOutput)
