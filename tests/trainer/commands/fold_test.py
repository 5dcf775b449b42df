import json
import shutil

import numpy as np

import triage_cli
from trainer.data.arrays import fold_rows
from trainer.data.tfrecord import DataDirectory


def _fold(data, out, *flags, folds=4, fold=0):
    given = ["--data", data, "--out", out, "--folds", folds, "--fold", fold, *flags]
    return triage_cli.main(["fold", *map(str, given)])


def _ids(data, split):
    return DataDirectory.open(data).read(split).vignette_ids.tolist()


def test_the_folds_hold_out_each_vignette_of_the_training_split_once(data_directory, tmp_path):
    everyone = _ids(data_directory, "train")
    held_out = []
    for fold, size in enumerate((14, 13, 13)):
        out = tmp_path / str(fold)
        assert _fold(data_directory, out, folds=3, fold=fold) == 0
        train, test = _ids(out, "train"), _ids(out, "test")
        assert (len(train), len(test)) == (40 - size, size)
        assert sorted(train + test) == sorted(everyone)
        # The same division as that of a study.
        rows = fold_rows(40, 3, fold, seed=0)
        assert (train, test) == tuple(np.array(everyone)[part].tolist() for part in rows)
        held_out += test
    assert sorted(held_out) == sorted(everyone)
    assert not set(held_out) & set(_ids(data_directory, "test"))


def test_vignettes_are_unchanged_and_the_statistics_are_their_own(data_directory, tmp_path, capsys):
    assert _fold(data_directory, tmp_path / "out", "--json", "-", "--seed", "3") == 0
    reported = json.loads(capsys.readouterr().out)
    whole, part = DataDirectory.open(data_directory), DataDirectory.open(tmp_path / "out")
    assert reported["splits"] == part.stats["splits"]
    assert part.stats["fold"] == {"folds": 4, "fold": 0, "seed": 3}
    assert part.stats["fold_of"] == whole.data_fingerprint != part.data_fingerprint
    assert part.vocabulary == whole.vocabulary
    before, after = whole.read("train"), part.read("test")
    row = before.vignette_ids.tolist().index(after.vignette_ids[0])
    np.testing.assert_array_equal(
        after.signed_codes[: after.offsets[1]], before.signed_codes[before.offsets[row] : before.offsets[row + 1]]
    )
    np.testing.assert_array_equal(after.decision_counts[0], before.decision_counts[row])


def test_a_shard_that_is_damaged_gives_no_fold(data_directory, tmp_path, capsys):
    shutil.copytree(data_directory, tmp_path / "data")
    shard = tmp_path / "data" / "train-00000-of-00001.tfrecord"
    shard.write_bytes(shard.read_bytes()[:-5])
    assert _fold(tmp_path / "data", tmp_path / "out") == 2
    assert f"{shard.name}: record 40 " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
