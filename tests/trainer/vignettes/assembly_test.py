"""Blocks in any order become what the two passes over the same vignettes write."""

import itertools
import pathlib
from fractions import Fraction

import pytest

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from schemas.triage import Action
from trainer.vignettes import passes
from trainer.vignettes.blocks import Block, write_block
from trainer.vignettes.passes import WriteOptions, second_pass
from trainer.vignettes.spool import Spool
from trainer.vignettes.vignette import Vignette

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

from trainer.vignettes.assembly import Plan, draw, result, write

VOCABULARY = Vocabulary([Evidence("a", "symptom", "A", "A?")])


def vignette(number, split=None):
    return Vignette(f"v{number}", ("a",), (), (Action(number % 4), Action(number % 3)), split)


def blocks_of(sizes, scratch, split_of=lambda number: None):
    """Writes blocks of so many vignettes each, numbered throughout."""
    numbers = itertools.count()
    for place, size in enumerate(sizes):

        def fill(spool, log, size=size):
            for number in itertools.islice(numbers, size):
                spool.add(vignette(number, split_of(number)))
            return 0

        yield write_block(f"{place:03d}", str(scratch), VOCABULARY, fill)


def assembled(blocks, plan):
    for task in reversed(list(draw(blocks, plan))):
        write(task, plan)
    return result(plan)


def folders(base):
    for name in ("scratch", "data"):
        (base / name).mkdir(parents=True)
    return str(base / "data"), str(base / "scratch")


@pytest.mark.parametrize(
    ("sizes", "shard_size"),
    [
        ([3, 0, 4, 1, 5], 2),  # shards that end inside of blocks and between them, and span a block without vignettes
        ([9, 9], 3),  # several shards of a block
        ([1, 0], 7),
    ],
)
def test_the_shards_are_those_of_the_second_pass(tmp_path, sizes, shard_size):
    base, how = tmp_path, WriteOptions(Fraction(1, 3) if sum(sizes) > 1 else Fraction(0), 5, shard_size, False)
    plan = Plan(*folders(base), how)
    split_of = {0: "train", 4: "test", 5: "train"}.get
    blocks = list(blocks_of(sizes, plan.scratch, split_of))
    found = assembled(reversed(blocks), plan)

    (base / "expected").mkdir()
    with Spool(base, VOCABULARY) as spool:
        for number in range(sum(sizes)):
            spool.add(vignette(number, split_of(number)))
    assert found["written"] == second_pass(spool, spool, how, base / "expected")
    shards, expected = (
        {path.name: path.read_bytes() for path in (base / name).iterdir()} for name in ("data", "expected")
    )
    assert shards == expected


def test_a_fault_in_the_input_is_the_first_one_and_nothing_is_written(tmp_path):
    plan = Plan(*folders(tmp_path), WriteOptions(Fraction(0), 0, 1, False))
    blocks = [Block("2", fault="second"), Block("3", rejected=1), Block("1", fault="first")]
    assert list(draw(blocks, plan)) == []
    found = result(plan)
    assert (found["fault"], found["rejected"]) == ("first", 0)


def test_too_many_shards_are_a_fault(tmp_path, monkeypatch):
    monkeypatch.setattr(passes, "MAX_SHARDS", 3)
    plan = Plan(*folders(tmp_path), WriteOptions(Fraction(0), 0, 1, False))
    found = assembled(list(blocks_of([4], plan.scratch)), plan)
    assert found["fault"].startswith("--shard-size 1: would make more than 3 shards")


def test_what_workers_have_not_written_is_missed(tmp_path):
    plan = Plan(*folders(tmp_path), WriteOptions(Fraction(0), 0, 1, False))
    with pytest.raises(InputError, match="the workers have not left all of their files: run again"):
        result(plan)
    assembled(list(blocks_of([3], plan.scratch)), plan)
    (pathlib.Path(plan.staging) / "train-00001-of-00003.tfrecord").unlink()
    with pytest.raises(InputError, match="the workers have not left all of their files: run again"):
        result(plan)
