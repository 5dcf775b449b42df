import hashlib
from fractions import Fraction

import pytest

from schemas.errors import InputError
from schemas.triage import Action
from tests.builders import symptoms
from trainer.data.arrays import ShardReader
from trainer.data.data_writer import write_splits
from trainer.data.tfrecord import encode_example
from trainer.data.vignette import Vignette

VOCABULARY = symptoms("a")


def vignette(name, decision=Action.GREEN, split=None):
    return Vignette(name, ("a",), (), (decision,), split)


def write(vignettes, directory, fraction="0.1", seed=0, shard_size=100):
    return write_splits(vignettes, directory, Fraction(fraction), seed, shard_size=shard_size)


def written(directory, split):
    return ShardReader(VOCABULARY).read(sorted(directory.glob(f"{split}-*"))).vignette_ids.tolist()


def test_the_split_is_stratified_exact_and_keeps_the_order(tmp_path):
    decisions = [Action.RED, Action.GREEN, Action.GREEN, Action.GREEN] * 10
    vignettes = [vignette(f"{i:02}", decision) for i, decision in enumerate(decisions)]

    stats = write(vignettes, tmp_path, fraction="0.2")["splits"]

    # 0.2 of 10 Red and 30 Green
    assert stats["test"]["decisions"] == {"Red": 2, "Yellow": 0, "Green": 6, "Blue": 0}
    assert stats["train"]["decisions"] == {"Red": 8, "Yellow": 0, "Green": 24, "Blue": 0}
    train, test = written(tmp_path, "train"), written(tmp_path, "test")
    assert (train, test) == (sorted(train), sorted(test))
    assert sorted(train + test) == [f"{i:02}" for i in range(40)]


def test_a_given_split_is_kept_and_takes_no_part_in_the_draw(tmp_path):
    given = [vignette(f"train-{i}", split="train") for i in range(7)] + [vignette("test-0", split="test")]
    vignettes = [*given, *(vignette(f"drawn-{i}") for i in range(4))]

    write(vignettes, tmp_path, fraction="0.5")

    test = written(tmp_path, "test")
    assert test[0] == "test-0"
    assert [name.split("-")[0] for name in test[1:]] == ["drawn", "drawn"]  # half of four
    assert len(written(tmp_path, "train")) == 7 + 2


def test_the_seed_decides_the_draw(tmp_path):
    vignettes = [vignette(f"v{i}") for i in range(100)]
    splits = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        write(vignettes, tmp_path / name, fraction="0.3", seed=seed)
        splits.append(written(tmp_path / name, "test"))

    assert splits[0] == splits[1] != splits[2]


def test_the_fingerprint_covers_content_order_and_split_but_not_the_form(tmp_path):
    vignettes = [vignette("v1", split="train"), vignette("v2", split="test")]
    expected = hashlib.sha256()
    for one in vignettes:
        expected.update(f"{one.split} {len(encode_example(one))}\n".encode() + encode_example(one))

    def fingerprint(name, vignettes, **form):
        (tmp_path / name).mkdir()
        return write(vignettes, tmp_path / name, **form)["data_fingerprint"]

    assert fingerprint("same", vignettes) == f"sha256:{expected.hexdigest()}"
    assert fingerprint("form", vignettes, shard_size=1) == f"sha256:{expected.hexdigest()}"
    assert fingerprint("order", vignettes[::-1]) != f"sha256:{expected.hexdigest()}"
    other = [vignettes[0], vignette("v2", split="train")]
    assert fingerprint("split", other) != f"sha256:{expected.hexdigest()}"


@pytest.mark.parametrize("one", [vignette("v", split="test"), vignette("v")])
def test_without_a_vignette_for_training_nothing_is_written(tmp_path, one):
    with pytest.raises(InputError, match="1 in the test"):
        write([one], tmp_path, fraction="0.5")

    assert not list(tmp_path.glob("*.tfrecord"))
