"""The record knows which inputs are done, and of what the answers are."""

import pytest

from schemas.errors import InputError
from serving.scoring.options import ScoreOptions
from serving.scoring.record import Record
from serving.scoring.shards import Shard

GIVEN = ScoreOptions("m", ["in"], "out", None, 0, 1, False, None, None, None, None, False, [])
SHARD, OTHER = Shard("in/b.csv", "out/b.csv", 10, 1.0), Shard("in/a.csv", "out/a.csv", 10, 1.0)


def _record(earlier=None):
    return Record.continued(GIVEN, "4", b"{}", earlier)


def test_an_input_is_done_until_it_changes_also_after_the_record_was_written():
    record = _record()
    record.add(SHARD.name, SHARD.state, {"Red": 2, "Blue": 1})
    record.add(OTHER.name, OTHER.state, {"Red": 1})
    again = _record(Record.read(record.text.encode(), "score.json"))
    assert again.is_done(SHARD)
    assert not again.is_done(Shard("in/b.csv", "out/b.csv", 10, 2.0))
    assert again.counts == {"Red": 3, "Blue": 1}
    assert again.cases([SHARD]) == 3


def test_the_order_of_the_work_does_not_show():
    one, two = _record(), _record()
    for record, shards in ((one, (SHARD, OTHER)), (two, (OTHER, SHARD))):
        for shard in shards:
            record.add(shard.name, shard.state, {"Red": 1})
    assert one.text == two.text


def test_another_model_is_refused():
    with pytest.raises(InputError, match=r"^out: holds answers with other values of manifest_sha256: give another"):
        Record.continued(GIVEN, "4", b"{ }", _record())


@pytest.mark.parametrize(("content", "complaint"), [(b"{", "not valid JSON"), (b"[]", "expected a JSON object")])
def test_a_damaged_file_is_one_line(content, complaint):
    with pytest.raises(InputError, match=f"^out/score.json: {complaint}"):
        Record.read(content, "out/score.json")
