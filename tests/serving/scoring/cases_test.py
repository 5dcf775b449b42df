"""The same cases are read from files of every format."""

import csv
import gzip
import io
import json
import struct

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import tensorflow as tf

from schemas.errors import InputError
from schemas.text_file import MAX_LINE_BYTES
from schemas.triage import NO_QUESTIONS_LEFT
from serving.scoring import cases

ROWS = [
    {"vignette_id": "v1", "present": ["fever", "cough"], "absent": [], "questions_asked": 3, "no_more_evidence": False},
    {"vignette_id": "v2", "present": [], "absent": ["fever"], "questions_asked": 0, "no_more_evidence": True},
    {"vignette_id": "ü, \"5\"", "present": ["e.1_@:/+()'-"], "absent": ["b"],
     "questions_asked": 0, "no_more_evidence": False},
]  # fmt: skip
ASKED = [3, NO_QUESTIONS_LEFT, 0]


def _json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _csv(rows):
    file = io.StringIO()
    writer = csv.DictWriter(file, cases.FIELDS)
    writer.writeheader()
    writer.writerows({**row, "present": " ".join(row["present"]), "absent": " ".join(row["absent"])} for row in rows)
    return file.getvalue().encode()


def _examples(path, rows):
    with tf.io.TFRecordWriter(str(path), "GZIP" if path.name.endswith(".gz") else "") as file:
        for row in rows:
            texts = {"vignette_id": [row["vignette_id"]], "present": row["present"], "absent": row["absent"]}
            feature = {
                name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode() for text in values]))
                for name, values in texts.items()
            }
            for name in ("questions_asked", "no_more_evidence"):
                feature[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=[int(row[name])]))
            file.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def write(path, rows):
    """Writes rows in the format that the name of the file says."""
    kind = cases.format_of(path)
    if kind == "tfrecord":
        _examples(path, rows)
    elif kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        content = (_json_lines if kind == "jsonl" else _csv)(rows)
        path.write_bytes(gzip.compress(content) if path.name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "csv", "csv.gz", "tfrecord", "tfrecord.gz", "parquet"])
def test_every_format_holds_the_same_cases(tmp_path, ending):
    path = write(tmp_path / f"cases.{ending}", ROWS)
    first, second = cases.read(path, 2)
    assert first.ids + second.ids == [row["vignette_id"] for row in ROWS]
    assert first.present + second.present == [row["present"] for row in ROWS]
    assert first.absent + second.absent == [row["absent"] for row in ROWS]
    assert np.concatenate([first.questions_asked, second.questions_asked]).tolist() == ASKED
    unit = "line" if ending.startswith(("csv", "jsonl")) else "record"
    numbers = range(2, 5) if ending.startswith("csv") else range(1, 4)  # a header is line 1
    expected = [f"{path}: {unit} {number}, {row['vignette_id']!r}" for number, row in zip(numbers, ROWS, strict=True)]
    assert first.places + second.places == expected


def test_vignettes_are_cases_whose_decisions_are_not_read(tmp_path):
    path = tmp_path / "v.jsonl"
    path.write_text('\n{"vignette_id": "a", "present": ["x"], "absent": [], "decisions": ["Red"], "tags": ["t"]}\n')
    [read] = cases.read(path, 10)
    assert (read.ids, read.places) == (["a"], [f"{path}: line 2, 'a'"])


def test_a_number_of_a_spreadsheet_may_have_a_fraction_of_0_and_an_empty_cell_says_nothing(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("vignette_id,present,questions_asked,no_more_evidence\n17,a,3.0,\nb,a,,yes\n")
    [read] = cases.read(path, 10)
    assert (read.ids, read.questions_asked.tolist()) == (["17", "b"], [3, NO_QUESTIONS_LEFT])


def _parquet(**columns):
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"vignette_id": ["v"], **columns}), file)
    return file.getvalue()


DAMAGED = bytearray(gzip.compress(_json_lines([{"vignette_id": f"v{number}"} for number in range(1000)]), mtime=0))
DAMAGED[20:40] = b"\xff" * 20
LONG = b" " * (MAX_LINE_BYTES + 1)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.jsonl", b'{"vignette_id": "a"}\n{"vignette_id": }\n', "line 2"),
        ("a.jsonl", b'[1]\n', "line 1"),
        ("a.jsonl", b'{"present": ["x"]}\n', "line 1: no vignette_id"),
        ("a.jsonl", b'{"vignette_id": "a", "presnt": []}\n', "line 1: unknown field 'presnt'"),
        ("a.jsonl", b'{"vignette_id": "a", "questions_asked": -1}\n', "line 1, 'a': questions_asked"),
        ("a.jsonl", b'{"vignette_id": "a", "no_more_evidence": 1}\n', "line 1, 'a': no_more_evidence"),
        ("a.jsonl", b'{"vignette_id": "v", "present": ["fever"], "present": ["cough"]}', "line 1: .*repeated"),
        ("a.jsonl", b'{"vignette_id": "v", "present": ["fever", ""]}', "line 1, 'v': present: .* found ''"),
        ("a.jsonl", b'\xff\n', "line 1"),
        ("a.jsonl", b'{"vignette_id": "\\ud800"}', "line 1"),
        ("a.jsonl", b'{"vignette_id": "v", "present": ["\\udc00x"]}', "line 1"),
        ("a.jsonl", b"[" * 100_000, "line 1"),
        ("a.jsonl.gz", gzip.compress(LONG, mtime=0), "line 1: .*longer than 1,048,576 bytes"),
        ("a.jsonl.gz", b"no gzip", "cannot read"),
        ("a.jsonl.gz", gzip.compress(b'{"vignette_id": "a"}\n' * 9, mtime=0)[:-9], "cannot read"),
        ("a.jsonl.gz", bytes(DAMAGED), "cannot read"),
        ("a.csv", b"vignette_id,present\na\n", "line 2: .*2 columns"),
        ("a.csv", b"vignette_id,questions_asked\na,many\n", "line 2, 'a': questions_asked"),
        ("a.csv", b"vignette_id,present\nv1," + LONG, "line 2: .*longer than 1,048,576 bytes"),
        ("a.csv", b"vignette_id\n\xff\n", "not UTF-8"),
        ("a.tfrecord", b"this is no record of TensorFlow", "TFRecord"),
        ("a.tfrecord", struct.pack("<QI", 2**62, 0) + b"x" * 100, "TFRecord"),  # longer than the memory
        ("a.tfrecord.gz", gzip.compress(b"", mtime=0)[:-9], "cannot read"),
        ("a.parquet", b"no table", "Parquet"),
        ("a.parquet", _parquet(present=[[["a"]]]), "record 1, 'v': present"),
        ("a.parquet", _parquet(Present=[["a"]]), "unknown field 'Present'"),
    ],
    ids=map(str, range(26)),
)  # fmt: skip
def test_a_faulty_case_is_named_by_file_and_line(tmp_path, name, content, complaint):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"^{path}: .*{complaint}") as error:
        list(cases.read(path, 10))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.jsonl", gzip.compress(b"{}", mtime=0), "gzip"),
        ("a.csv.gz", b"vignette_id,present\n", "not compressed"),
        ("a.csv", "vignette_id".encode("utf-16"), "UTF-16"),
        ("a.jsonl", b"vignette_id,present\n", "JSON Lines"),
        ("a.jsonl", b'[\n{"vignette_id": "v1"}]', "JSON Lines"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_refused(name, content, complaint, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"^{tmp_path / name}: .*{complaint}"):
        cases.check_kind(tmp_path / name)


@pytest.mark.parametrize(
    ("codes", "id_length", "sizes"),
    [
        ([200_000] * 8, 1, [5, 3]),  # a sixth case would make 1,200,000 codes, above 1,048,576
        ([1] * 5 + [200_000, 1], 1, [5, 2]),  # to which the others are padded: 6 * 200,000 is above, 2 * 200,000 is not
        ([0] * 20, 1_000_000, [16, 4]),  # 16 MiB are 16.8 of them
    ],
)
def test_a_batch_of_many_codes_or_long_texts_ends_early(tmp_path, codes, id_length, sizes):
    path = tmp_path / "cases.jsonl"
    path.write_bytes(_json_lines([{"vignette_id": "v" * id_length, "present": ["a"] * number} for number in codes]))
    assert [len(batch.ids) for batch in cases.read(path, 100)] == sizes


def _present(path, rows):
    """Writes `rows`, lists of codes that are present, in the format that the name of the file says."""
    return write(path, [{**ROWS[0], "vignette_id": f"v{number}", "present": row} for number, row in enumerate(rows)])


@pytest.mark.parametrize("open_file", [open, gzip.open])
def test_a_file_that_ends_in_the_length_of_a_record_does_not_lose_the_record(tmp_path, open_file):
    whole, two = (write(tmp_path / f"{len(rows)}.tfrecord", rows).read_bytes() for rows in (ROWS, ROWS[:2]))
    path = tmp_path / ("a.tfrecord.gz" if open_file is gzip.open else "a.tfrecord")
    with open_file(path, "wb") as file:
        file.write(whole[: len(two) + 5])
    with pytest.raises(InputError, match=f"^{path}: .*within a record"):
        list(cases.read(path, 10))


def test_a_compressed_file_of_several_parts_is_read_whole(tmp_path):
    parts = [write(tmp_path / f"{place}.tfrecord.gz", [row]).read_bytes() for place, row in enumerate(ROWS)]
    path = tmp_path / "a.tfrecord.gz"
    path.write_bytes(b"".join(parts))
    [read] = cases.read(path, 10)
    assert read.ids == [row["vignette_id"] for row in ROWS]


def test_a_file_of_records_is_read_once(tmp_path, monkeypatch):
    path = write(tmp_path / "a.tfrecord.gz", ROWS)
    monkeypatch.setattr(gzip, "open", lambda *_: pytest.fail("TensorFlow reads the file"))
    assert len(list(cases.read(path, 1))) == len(ROWS)


@pytest.mark.parametrize("field", ["questions_asked", "no_more_evidence"])
def test_several_values_of_one_are_refused(tmp_path, field):
    feature = {"vignette_id": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"v"]))}
    feature[field] = tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 0]))
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as file:
        file.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    with pytest.raises(InputError, match=f"record 1, 'v': {field}"):
        list(cases.read(tmp_path / "a.tfrecord", 10))


@pytest.mark.parametrize("ending", ["tfrecord.gz", "parquet"])
def test_records_that_are_long_together_are_read_in_parts(tmp_path, ending):
    path = _present(tmp_path / f"a.{ending}", [["a" * 1_000_000]] * 40)
    assert [len(batch.ids) for batch in cases.read(path, 4096)] == [16, 16, 8]


@pytest.mark.parametrize(
    "kind",
    [
        pyarrow.list_(pyarrow.dictionary(pyarrow.int32(), pyarrow.string())),
        pyarrow.large_list(pyarrow.large_string()),
    ],
)
def test_lists_of_any_kind_are_codes_and_columns_of_vignettes_are_allowed(tmp_path, kind):
    path = tmp_path / "a.parquet"
    values = pyarrow.array([["a", "b"], None, ["b", "b"]]).cast(kind)
    columns = {"vignette_id": ["v", "w", "x"], "present": values, "tags": [["t"]] * 3}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    [read] = cases.read(path, 10)
    assert read.present == [["a", "b"], [], ["b", "b"]]
