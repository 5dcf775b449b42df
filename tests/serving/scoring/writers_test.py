"""Every format holds the columns that were written, batch after batch."""

import csv
import gzip
import json
import re
import time

import pyarrow.parquet
import pytest
import tensorflow as tf

from schemas.errors import InputError
from serving.scoring.writers import writing

BATCHES = [
    {"vignette_id": ["a", "b"], "forced": [True, False], "q_red": [0.25, 0.5], "fired_rules": [["pain", "hot"], []]},
    {"vignette_id": ["ü"], "forced": [False], "q_red": [1.0], "fired_rules": [[]]},
]
ROWS = [("a", True, 0.25, ["pain", "hot"]), ("b", False, 0.5, []), ("ü", False, 1.0, [])]


def _written(path):
    with writing(path) as write:
        for batch in BATCHES:
            write(batch)
    return path


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_json_lines(tmp_path, ending):
    path = _written(tmp_path / f"answers.{ending}")
    text = gzip.decompress(path.read_bytes()).decode() if ending.endswith("gz") else path.read_text(encoding="utf-8")
    assert [tuple(json.loads(line).values()) for line in text.splitlines()] == ROWS
    assert list(json.loads(text.splitlines()[0])) == list(BATCHES[0])


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_csv(tmp_path, ending):
    path = _written(tmp_path / f"answers.{ending}")
    opened = gzip.open if ending.endswith("gz") else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == list(BATCHES[0])
    assert rows == [["a", "true", "0.25", "pain hot"], ["b", "false", "0.5", ""], ["ü", "false", "1.0", ""]]


def test_parquet(tmp_path):
    table = pyarrow.parquet.read_table(_written(tmp_path / "answers.parquet"))
    assert [tuple(row.values()) for row in table.to_pylist()] == ROWS
    assert [str(field.type) for field in table.schema] == ["string", "bool", "double", "list<element: string>"]


@pytest.mark.parametrize("ending", ["tfrecord", "tfrecord.gz"])
def test_tfrecord(tmp_path, ending):
    path = _written(tmp_path / f"answers.{ending}")
    records = tf.data.TFRecordDataset(str(path), "GZIP" if ending.endswith("gz") else "")
    parsed = [tf.train.Example.FromString(record.numpy()).features.feature for record in records]
    assert [
        (
            each["vignette_id"].bytes_list.value[0].decode(),
            bool(each["forced"].int64_list.value[0]),
            each["q_red"].float_list.value[0],
            [rule.decode() for rule in each["fired_rules"].bytes_list.value],
        )
        for each in parsed
    ] == ROWS


@pytest.mark.parametrize("ending", ["jsonl.gz", "csv.gz"])
def test_compressed_bytes_depend_on_neither_name_nor_time(tmp_path, monkeypatch, ending):
    now = _written(tmp_path / f"answers.{ending}")
    monkeypatch.setattr(time, "time", lambda: 1e9)
    assert _written(tmp_path / f"again.{ending}").read_bytes() == now.read_bytes()


@pytest.mark.parametrize("vignette_id", ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\tx"])
def test_what_a_spreadsheet_would_run_is_not_written_as_csv(tmp_path, vignette_id):
    batch = {"vignette_id": ["a", vignette_id]}
    with (
        pytest.raises(InputError, match=re.escape(repr(vignette_id))),
        writing(tmp_path / "a.csv") as write,
    ):
        write(batch)
    with writing(tmp_path / "a.jsonl") as write:
        write(batch)
    with writing(tmp_path / "b.csv") as write:
        write({"vignette_id": ["-12", "+3.5", "a=b"]})
    assert (tmp_path / "b.csv").read_text() == "vignette_id\n-12\n+3.5\na=b\n"
