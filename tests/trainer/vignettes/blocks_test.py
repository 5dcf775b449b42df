"""A block's files say all about a run of the input, and are the same whoever writes them."""

import io
import json

import pytest

from schemas.beam import files
from schemas.evidence import Evidence, Vocabulary
from schemas.triage import Action
from trainer.vignettes.blocks import Block, join_rejects, records, summaries, write_block
from trainer.vignettes.source import Line, Rejected
from trainer.vignettes.tfrecord import encode_example
from trainer.vignettes.vignette import Vignette

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

VOCABULARY = Vocabulary([Evidence("a", "symptom", "A", "A?"), Evidence("b", "risk_factor", "B", "B?")])
RED, BLUE = Action.RED, Action.BLUE
VIGNETTES = [
    Vignette("v1", ("a",), ("b",), (RED, BLUE)),
    Vignette("v2", ("b",), (), (BLUE,)),
    Vignette("v3", ("a",), (), (BLUE,), split="test"),
]


def filled(vignettes=(), rejects=0, blank_lines=0):
    def fill(spool, log):
        for vignette in vignettes:
            spool.add(vignette)
        for number in range(rejects):
            log.add(Rejected(Line("in.jsonl", number, 0, 1, b"x"), None, "faulty"))
        return blank_lines

    return fill


@pytest.fixture
def scratch(tmp_path):
    (tmp_path / "scratch").mkdir()
    return str(tmp_path / "scratch")


def test_a_block_counts_what_it_holds_and_its_files_have_it(scratch):
    block = write_block("00007", scratch, VOCABULARY, filled(VIGNETTES, rejects=2, blank_lines=4), ("0", "sha"))
    # Of v1 and v2 the split will be drawn: the majority is Red for v1, the more urgent of two, and Blue for v2.
    assert block == Block("00007", 3, (1, 0, 0, 1), (0, 1), 2, 4, ("0", "sha"))
    assert list(records("00007", scratch)) == [encode_example(vignette) for vignette in VIGNETTES]
    assert [tuple(each) for each in summaries(block, scratch)] == [
        (None, 1, 0, 0, 1, (1, 0, 0, 1)),
        (None, 0, 0, 1, 0, (0, 0, 0, 1)),
        ("test", 1, 0, 0, 0, (0, 0, 0, 1)),
    ]


def test_blocks_without_rejects_have_no_list_of_them(scratch):
    write_block("1", scratch, VOCABULARY, filled(VIGNETTES))
    names = [entry.location.removeprefix(f"{scratch}/") for entry in files.entries(f"{scratch}/*")]
    assert names == ["1.summaries", "1.vignettes.tfrecord"]


def test_lists_of_rejects_are_joined_in_order(scratch):
    for name, rejects in (("1", 1), ("2", 3)):
        write_block(name, scratch, VOCABULARY, filled(rejects=rejects))
    joined = io.BytesIO()
    join_rejects(["2", "1"], scratch, joined)
    assert [json.loads(line)["line"] for line in joined.getvalue().splitlines()] == [0, 1, 2, 0]


def test_blocks_sort_by_name_and_a_block_with_a_fault_has_no_files(scratch):
    def faulty(spool, log):
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        write_block("1", scratch, VOCABULARY, faulty)
    assert files.entries(f"{scratch}/*") == []
    assert sorted([Block("2"), Block("1", fault="faulty")])[0].name == "1"
