import hashlib
from fractions import Fraction

import pytest

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from schemas.triage import Action
from trainer.vignettes.passes import WriteOptions, first_pass, second_pass
from trainer.vignettes.rejects import RejectLog
from trainer.vignettes.source import Accepted, Line, Rejected
from trainer.vignettes.spool import IdRegistry, Spool
from trainer.vignettes.tfrecord import decode_example, encode_example, read_records
from trainer.vignettes.vignette import Vignette

VOCABULARY = Vocabulary([Evidence("a", "symptom", "A", "A?")])


def vignette(name, decision=Action.GREEN, split=None):
    return Vignette(name, ("a",), (), (decision,), split)


def options(fraction="0.1", seed=0, shard_size=100, compressed=False):
    return WriteOptions(Fraction(fraction), seed, shard_size, compressed)


def spool_of(directory, vignettes):
    directory.mkdir()
    with Spool(directory, VOCABULARY) as spool:
        for one in vignettes:
            spool.add(one)
    return spool


def written(directory, split):
    return [decode_example(r).vignette_id for path in sorted(directory.glob(f"{split}-*")) for r in read_records(path)]


def test_the_first_pass_spools_logs_and_counts_every_line(tmp_path):
    lines = [Line("f", number, 0, 1, b"x") for number in range(5)]
    outcomes = [
        Accepted(lines[0], vignette("v1")),
        None,
        Rejected(lines[2], None, "bad"),
        Accepted(lines[3], vignette("v1")),
        Accepted(lines[4], vignette("v2")),
    ]
    shown = []
    ids = IdRegistry(tmp_path / "ids")
    with Spool(tmp_path, VOCABULARY) as spool, RejectLog(tmp_path / "r", shown.append) as log:
        blank_lines = first_pass(outcomes, spool, ids, log)
    ids.close()

    assert (spool.count, log.count, blank_lines) == (2, 2, 1)
    assert shown == ["f:2: no vignette id: bad", "f:3: vignette v1: duplicate vignette_id: first used in f:0"]


def test_the_split_is_stratified_exact_and_keeps_the_order(tmp_path):
    decisions = [Action.RED, Action.GREEN, Action.GREEN, Action.GREEN] * 10
    spool = spool_of(tmp_path / "spool", [vignette(f"{i:02}", decision) for i, decision in enumerate(decisions)])

    stats = second_pass(spool, spool, options("0.2"), tmp_path)["splits"]

    # 0.2 of 10 Red and 30 Green
    assert stats["test"]["majority"] == {"Red": 2, "Yellow": 0, "Green": 6, "Blue": 0}
    assert stats["train"]["majority"] == {"Red": 8, "Yellow": 0, "Green": 24, "Blue": 0}
    train, test = written(tmp_path, "train"), written(tmp_path, "test")
    assert (train, test) == (sorted(train), sorted(test))
    assert sorted(train + test) == [f"{i:02}" for i in range(40)]


def test_a_given_split_is_kept_and_takes_no_part_in_the_draw(tmp_path):
    given = [vignette(f"train-{i}", split="train") for i in range(7)] + [vignette("test-0", split="test")]
    spool = spool_of(tmp_path / "spool", [*given, *(vignette(f"drawn-{i}") for i in range(4))])

    second_pass(spool, spool, options("0.5"), tmp_path)

    test = written(tmp_path, "test")
    assert test[0] == "test-0"
    assert [name.split("-")[0] for name in test[1:]] == ["drawn", "drawn"]  # half of four
    assert len(written(tmp_path, "train")) == 7 + 2


def test_the_seed_decides_the_draw(tmp_path):
    spool = spool_of(tmp_path / "spool", [vignette(f"v{i}") for i in range(100)])
    splits = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        second_pass(spool, spool, options("0.3", seed), tmp_path / name)
        splits.append(written(tmp_path / name, "test"))

    assert splits[0] == splits[1] != splits[2]


def test_the_fingerprint_covers_content_order_and_split_but_not_the_form(tmp_path):
    vignettes = [vignette("v1", split="train"), vignette("v2", split="test")]
    expected = hashlib.sha256()
    for one in vignettes:
        expected.update(f"{one.split} {len(encode_example(one))}\n".encode() + encode_example(one))

    def fingerprint(name, vignettes, **form):
        (tmp_path / name).mkdir()
        spool = spool_of(tmp_path / f"spool-{name}", vignettes)
        return second_pass(spool, spool, options(**form), tmp_path / name)["data_fingerprint"]

    assert fingerprint("same", vignettes) == f"sha256:{expected.hexdigest()}"
    assert fingerprint("form", vignettes, shard_size=1, compressed=True) == f"sha256:{expected.hexdigest()}"
    assert fingerprint("order", vignettes[::-1]) != f"sha256:{expected.hexdigest()}"
    other = [vignettes[0], vignette("v2", split="train")]
    assert fingerprint("split", other) != f"sha256:{expected.hexdigest()}"


@pytest.mark.parametrize("one", [vignette("v", split="test"), vignette("v")])
def test_without_a_vignette_for_training_nothing_is_written(tmp_path, one):
    spool = spool_of(tmp_path / "spool", [one])

    with pytest.raises(InputError, match="no vignette is left for training: 1 in the test split"):
        second_pass(spool, spool, options("0.5"), tmp_path)

    assert not list(tmp_path.glob("*.tfrecord"))


def test_more_shards_than_a_name_can_count_are_refused(tmp_path):
    spool = spool_of(tmp_path / "spool", [vignette("v")])
    spool.strata[Action.GREEN] = 100_001

    with pytest.raises(InputError, match="--shard-size 1: would make more than 99,999 shards"):
        second_pass(spool, spool, options("0", shard_size=1), tmp_path)
