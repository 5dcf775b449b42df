import zipfile

import triage_cli
from tests.builders import ddxplus_patients, ddxplus_release
from trainer.data.tfrecord import DataDirectory


def prepare_ddxplus(tmp_path, *more):
    release = ddxplus_release(tmp_path, Cold=(5, ("hot", "cough")), Storm=(1, ("hot",)))
    return triage_cli.main(["prepare", *map(str, [*release, "--out", tmp_path / "out", *more])])


def test_a_ddxplus_release_becomes_a_data_directory(tmp_path):
    ddxplus_patients(tmp_path / "people.csv", *[{}] * 20)

    assert prepare_ddxplus(tmp_path, "--patients", tmp_path / "people.csv") == 0

    data = DataDirectory.open(tmp_path / "out")
    train = data.read("train")
    assert train.vignette_ids[0].startswith("people-")
    # Cold (Blue) 0.6 and Storm (Red) 0.4 of 5 decisions
    assert train.decision_counts.tolist() == [[2, 0, 0, 3]] * 18
    present = {data.vocabulary.codes[signed - 1] for signed in train.signed_codes if signed > 0}
    absent = {data.vocabulary.codes[-signed - 1] for signed in train.signed_codes if signed < 0}
    assert (present, absent) == ({"hot", "age_5_14", "sex_male"}, {"cough"})
    assert data.vocabulary[0].question == "hot?"
    assert [source["file"] for source in data.stats["sources"]] == ["conditions.json", "evidences.json", "people.csv"]
    assert data.stats["options"] == {
        "absent_evidence": 3, "absent_from": "differential", "decisions_per_vignette": 5,
    }  # fmt: skip


def test_the_release_s_own_test_patients_may_be_the_test_split(tmp_path):
    ddxplus_patients(tmp_path / "train.csv", *[{}] * 4)
    ddxplus_patients(tmp_path / "held_out", {}, {})
    with zipfile.ZipFile(tmp_path / "held_out.zip", "w") as archive:
        archive.write(tmp_path / "held_out", "held_out")

    files = ["--patients", tmp_path / "train.csv", "--test-patients", tmp_path / "held_out.zip"]
    more = ["--absent-from", "release"]
    assert prepare_ddxplus(tmp_path, *files, *more) == 0

    data = DataDirectory.open(tmp_path / "out")
    assert data.read("train").vignette_ids.tolist() == ["train-1", "train-2", "train-3", "train-4"]
    assert data.read("test").vignette_ids.tolist() == ["held_out-1", "held_out-2"]
    assert data.read("test").decision_counts.tolist() == [[2, 0, 0, 3]] * 2


def test_two_patients_files_of_one_name_are_refused(tmp_path, capsys):
    (tmp_path / "more").mkdir()
    for path in (tmp_path / "people.csv", tmp_path / "more" / "people.csv"):
        ddxplus_patients(path, {})

    assert prepare_ddxplus(tmp_path, "--patients", tmp_path / "people.csv", tmp_path / "more" / "people.csv") == 2

    assert "'people'" in capsys.readouterr().err
