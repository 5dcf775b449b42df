import dataclasses
import json

import pytest

from schemas.triage import Action
from trainer.study.powerset import expand
from trainer.study.powerset_shards import Plan, finished_shards, keyed_vignettes, write_shard
from trainer.vignettes.tfrecord import ShardWriter, decode_example, encode_example, read_records
from trainer.vignettes.vignette import Vignette

# 4, 2 and 2 rows.
VIGNETTES = [
    Vignette("b", ("fever",), ("cough",), (Action.RED, Action.BLUE), tags=("heart",)),
    Vignette("a", ("rash",), (), (Action.GREEN,)),
    Vignette("été", (), ("rash",), (Action.YELLOW,)),
]
NAME = "train-00000-of-00001.tfrecord"


@pytest.fixture
def plan(tmp_path):
    for name in ("staging", "scratch"):
        (tmp_path / name).mkdir()
    return Plan(str(tmp_path / "staging"), str(tmp_path / "scratch"), 0, 1.0, False, {"train": 1})


def rows_of(plan, name=NAME):
    return [decode_example(record) for record in read_records(f"{plan.staging}/{name}")]


def test_a_shard_holds_the_rows_of_its_vignettes_in_the_order_of_their_ids(plan):
    write_shard((NAME, [encode_example(vignette) for vignette in VIGNETTES]), plan)

    b, a, summer = VIGNETTES
    assert rows_of(plan) == [row for vignette in (a, b, summer) for row in expand(vignette, 0)]


def test_the_order_of_arrival_makes_no_difference_to_a_byte(plan, tmp_path):
    contents = []
    for vignettes in (VIGNETTES, VIGNETTES[::-1]):
        write_shard((NAME, [b"", *map(encode_example, vignettes)]), plan)
        contents.append(
            [path.read_bytes() for path in (tmp_path / "staging" / NAME, tmp_path / "scratch" / f"{NAME}.json")]
        )

    assert contents[0] == contents[1]
    # Nothing unfinished is left.
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == [NAME, f"{NAME}.json"]


def test_the_figures_count_vignettes_and_rows_by_their_pieces_of_evidence(plan):
    write_shard((NAME, [encode_example(vignette) for vignette in VIGNETTES]), plan)

    figures = finished_shards(plan)[NAME]
    assert figures.vignettes == 3
    # Of two pieces: 1, 2 and 1 rows of 0, 1 and 2 pieces; of one piece, twice: 1 and 1.
    assert figures.rows_by_evidence == [1 + 1 + 1, 2 + 1 + 1, 1]
    assert figures.rows == 8


def test_a_shard_without_vignettes_is_an_empty_file(plan):
    write_shard((NAME, [b""]), plan)

    assert rows_of(plan) == []
    assert finished_shards(plan)[NAME].rows == 0


def test_only_a_part_of_the_rows_is_written_where_a_sample_is_wanted(plan):
    sampled = dataclasses.replace(plan, sample=0.5)
    write_shard((NAME, [encode_example(VIGNETTES[0])]), sampled)

    assert rows_of(plan) == list(expand(VIGNETTES[0], 0, 0.5))


def test_shards_are_compressed_where_that_is_wanted(plan, tmp_path):
    write_shard((f"{NAME}.gz", [encode_example(VIGNETTES[1])]), dataclasses.replace(plan, compressed=True))

    assert (tmp_path / "staging" / f"{NAME}.gz").read_bytes().startswith(b"\x1f\x8b")
    assert [row.vignette_id for row in rows_of(plan, f"{NAME}.gz")] == ["a/0", "a/1"]


@pytest.mark.parametrize("compressed", [False, True])
def test_a_vignette_goes_to_the_shard_of_its_id_whatever_is_beside_it(plan, tmp_path, compressed):
    three = dataclasses.replace(plan, shards={"train": 3})
    shards_seen = []
    for number, vignettes in enumerate((VIGNETTES, VIGNETTES[:0:-1])):
        directory = tmp_path / str(number)
        directory.mkdir()
        with ShardWriter(directory, "train", len(vignettes), 100, compressed) as writer:
            for vignette in vignettes:
                writer.write(encode_example(vignette))
        [path] = directory.iterdir()
        keyed = keyed_vignettes(str(path), three)
        shards_seen.append({decode_example(serialized).vignette_id: name for name, serialized in keyed})

    everything, part = shards_seen
    assert set(everything) == {"a", "b", "été"}
    assert part == {vignette_id: everything[vignette_id] for vignette_id in ("a", "été")}
    assert set(everything.values()) <= {f"train-0000{shard}-of-00003.tfrecord" for shard in range(3)}


def test_a_shard_counts_as_finished_when_its_figures_stand(plan, tmp_path):
    two = dataclasses.replace(plan, shards={"train": 2, "test": 0})
    assert finished_shards(two) == {}

    write_shard(("train-00001-of-00002.tfrecord", []), two)
    (tmp_path / "scratch" / "foreign.json").write_text(json.dumps({}))

    assert list(finished_shards(two)) == ["train-00001-of-00002.tfrecord"]


def test_figures_that_are_known_are_not_read_again(plan):
    two = dataclasses.replace(plan, shards={"train": 2})
    for name in two.shard_names("train"):
        write_shard((name, []), two)
    first = dict(list(finished_shards(two).items())[:1])
    marked = {name: figures._replace(sha256="known") for name, figures in first.items()}

    assert [figures.sha256 == "known" for figures in finished_shards(two, marked).values()] == [True, False]


def test_a_directory_that_does_not_exist_is_an_error(plan):
    lost = dataclasses.replace(plan, staging=f"{plan.staging}/lost")

    with pytest.raises(OSError, match=r"lost.*No such file"):
        write_shard((NAME, []), lost)
