"""The record knows which inputs are done, and of what the answers are."""

import json

import pytest

from schemas.errors import InputError
from serving.scoring.options import ScoreOptions
from serving.scoring.record import Record
from serving.scoring.shards import Shard

GIVEN = ScoreOptions("m", ["in"], "out", None, 0, 1, False, None, None, None, False, [])
SHARD, OTHER = Shard("in/b.csv", "out/b.csv", 10, 1.0), Shard("in/a.csv", "out/a.csv", 10, 1.0)


def test_an_input_is_done_until_it_changes_also_after_the_record_was_written():
    record = Record(GIVEN, "4", b"{}", None)
    record.add(SHARD, {"Red": 2, "Blue": 1})
    record.add(OTHER, {"Red": 1})
    again = Record(GIVEN, "4", b"{}", json.loads(record.text))
    assert again.is_done(SHARD)
    assert not again.is_done(Shard("in/b.csv", "out/b.csv", 10, 2.0))
    assert again.counts == {"Red": 3, "Blue": 1}
    assert again.cases([SHARD]) == 3


def test_the_order_of_the_work_does_not_show():
    one, two = Record(GIVEN, "4", b"{}", None), Record(GIVEN, "4", b"{}", None)
    for record, shards in ((one, (SHARD, OTHER)), (two, (OTHER, SHARD))):
        for shard in shards:
            record.add(shard, {"Red": 1})
    assert one.text == two.text


def test_another_model_is_refused():
    earlier = json.loads(Record(GIVEN, "4", b"{}", None).text)
    with pytest.raises(InputError, match=r"^out: holds answers with other values of manifest_sha256: give another"):
        Record(GIVEN, "4", b"{ }", earlier)
