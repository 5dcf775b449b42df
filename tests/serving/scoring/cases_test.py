"""The same cases are read from files of every format."""

import csv
import gzip
import io
import json
import os
import struct

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import tensorflow as tf

from schemas.errors import InputError
from schemas.triage import NO_QUESTIONS_LEFT
from serving.scoring import cases

ROWS = [
    {"vignette_id": "v1", "present": ["fever", "cough"], "absent": [], "questions_asked": 3, "no_more_evidence": False},
    {"vignette_id": "v2", "present": [], "absent": ["fever"], "questions_asked": 0, "no_more_evidence": True},
    {"vignette_id": "ü, \"5\"", "present": ["a"], "absent": ["b"], "questions_asked": 0, "no_more_evidence": False},
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
    first, second = cases.read(write(tmp_path / f"cases.{ending}", ROWS), 2)
    assert first.ids + second.ids == [row["vignette_id"] for row in ROWS]
    assert first.present + second.present == [row["present"] for row in ROWS]
    assert first.absent + second.absent == [row["absent"] for row in ROWS]
    assert np.concatenate([first.questions_asked, second.questions_asked]).tolist() == ASKED
    header = ending.startswith("csv")  # the first case stands in line 2
    assert first.places + second.places == ([2, 3, 4] if header else [1, 2, 3])


_CODES = st.lists(st.from_regex(r"[a-z0-9_.@:/+()'-]{1,8}", fullmatch=True), max_size=4)
_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "vignette_id": st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=8),
            "present": _CODES,
            "absent": _CODES,
            "questions_asked": st.integers(0, 2**31 - 1),
            "no_more_evidence": st.booleans(),
        }
    ),
    min_size=1,
    max_size=5,
)


@hypothesis.given(rows=_ROWS)
@hypothesis.settings(max_examples=30)
def test_whatever_a_case_holds_both_texts_say_the_same(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("cases")
    read = [
        next(cases.read(write(folder / f"cases.{kind}", rows), 10))._replace(places=[]) for kind in ("jsonl", "csv")
    ]
    assert read[0]._replace(questions_asked=[]) == read[1]._replace(questions_asked=[])
    assert read[0].questions_asked.tolist() == read[1].questions_asked.tolist()


def test_vignettes_are_cases_whose_decisions_are_not_read(tmp_path):
    path = tmp_path / "v.jsonl"
    path.write_text('\n{"vignette_id": "a", "present": ["x"], "absent": [], "decisions": ["Red"], "tags": ["t"]}\n')
    [read] = cases.read(path, 10)
    assert (read.ids, read.places) == (["a"], [2])


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.jsonl", b'{"vignette_id": "a"}\n{"vignette_id": }\n', "a.jsonl: line 2: not JSON"),
        ("a.jsonl", b'[1]\n', "a.jsonl: line 1: expected an object with vignette_id, present, absent"),
        ("a.jsonl", b'{"present": ["x"]}\n', "a.jsonl: line 1: no vignette_id"),
        ("a.jsonl", b'{"vignette_id": "a", "presnt": []}\n', "a.jsonl: line 1: unknown field 'presnt'"),
        ("a.jsonl", b'{"vignette_id": "a", "present": "x"}\n', "line 1, 'a': present: expected a list of codes"),
        ("a.jsonl", b'{"vignette_id": "a", "questions_asked": -1}\n', "questions_asked: expected a number"),
        ("a.jsonl", b'{"vignette_id": "a", "no_more_evidence": 1}\n', "no_more_evidence: expected true or false"),
        ("a.jsonl", b'\xff\n', "a.jsonl: line 1: not JSON"),
        ("a.jsonl.gz", b"no gzip", "a.jsonl.gz: cannot read"),
        ("a.jsonl.gz", gzip.compress(b'{"vignette_id": "a"}\n' * 9, mtime=0)[:-9], "a.jsonl.gz: cannot read"),
        ("a.csv", b"vignette_id,present\na,x,y\n", "a.csv: line 2: expected 2 columns"),
        ("a.csv", b"vignette_id,present\na\n", "a.csv: line 2: expected 2 columns"),
        ("a.csv", b"id,present\na,x\n", "a.csv: line 2: unknown field 'id'"),
        ("a.csv", b'vignette_id,present\n"a,x\n', "not valid CSV"),
        ("a.csv", b"vignette_id,questions_asked\na,many\n", "line 2: questions_asked: expected a number from 0"),
        ("a.csv", b"vignette_id\n\xff\n", "a.csv: not UTF-8"),
        ("a.tfrecord", b"this is no record of TensorFlow", "a.tfrecord: not a TFRecord file of cases, or damaged"),
        ("a.parquet", b"no table", "a.parquet: not a Parquet file, or damaged"),
    ],
)  # fmt: skip
def test_a_faulty_case_is_named_by_file_and_line(tmp_path, name, content, complaint):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        list(cases.read(path, 10))
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_the_name_says_the_format(tmp_path):
    names = ["a.jsonl", "a.csv.gz", "train-00000-of-00001.tfrecord.gz", "a.parquet", "a.txt", "jsonl"]
    assert [cases.format_of(tmp_path / name) for name in names] == ["jsonl", "csv", "tfrecord", "parquet", None, None]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.jsonl", gzip.compress(b"{}"), "compressed with gzip: rename it to a.jsonl.gz"),
        ("a.csv.gz", b"vignette_id,present\n", "the name ends in .gz, but the file is not compressed: rename it"),
        ("a.csv", "vignette_id".encode("utf-16"), "UTF-16 text: save the file as UTF-8"),
        ("a.jsonl", b"vignette_id,present\n", "not JSON Lines: expected an object on each line"),
        ("a.jsonl", b'[\n{"vignette_id": "v1"}]', "not JSON Lines: expected an object on each line"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_refused(name, content, complaint, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as refused:
        cases.check_kind(tmp_path / name)
    assert str(refused.value) == f"{tmp_path / name}: {complaint}"


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.jsonl", b""), ("a.jsonl", b"\xef\xbb\xbf\n {}"), ("a.jsonl.gz", gzip.compress(b"{}")), ("a.parquet", b"PAR1")],
)
def test_a_file_that_may_be_what_its_name_says_passes(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    cases.check_kind(tmp_path / name)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"vignette_id": "v", "present": ["fever"], "present": ["cough"]}', "line 1: not JSON: a key comes twice"),
        (b'{"vignette_id": "\\ud800"}', "line 1: not JSON: 'utf-8' codec can't encode character"),
        (b'{"vignette_id": "v", "present": ["\\udc00x"]}', "line 1: not JSON: 'utf-8' codec can't encode character"),
        (b"[" * 100_000, "line 1: not JSON: "),
        (b" " * (cases.MOST_LINE_BYTES + 1), "line 1: longer than 1048576 bytes: expected a case on each line"),
    ],
    ids=["key twice", "id", "code", "nested", "long"],
)
def test_a_line_that_would_be_misread_or_fill_the_memory_is_named(tmp_path, line, message):
    path = tmp_path / "cases.jsonl.gz"
    path.write_bytes(gzip.compress(line))
    with pytest.raises(InputError) as error:
        list(cases.read(path, 10))
    assert message in str(error.value)


def test_a_long_line_of_csv_is_named(tmp_path):
    path = tmp_path / "cases.csv"
    path.write_bytes(b"vignette_id,present\nv1," + b"a " * cases.MOST_LINE_BYTES)
    with pytest.raises(InputError, match="line 2: longer than 1048576 bytes"):
        list(cases.read(path, 10))


def test_a_batch_of_many_codes_ends_early(tmp_path):
    path = tmp_path / "cases.jsonl"
    codes = ["a"] * 200_000  # a sixth case would make 1,200,000, above 1,048,576
    path.write_text("".join(json.dumps({"vignette_id": f"v{number}", "present": codes}) + "\n" for number in range(8)))
    assert [len(batch.ids) for batch in cases.read(path, 100)] == [5, 3]


def test_a_batch_ends_before_a_case_to_whose_many_codes_the_others_would_be_padded(tmp_path):
    path = tmp_path / "cases.jsonl"
    rows = [{"vignette_id": "v", "present": ["a"] * number} for number in (1, 1, 1, 1, 1, 200_000, 1)]
    path.write_bytes(_json_lines(rows))
    # 6 * 200,000 is above 1,048,576, and 2 * 200,000 is not.
    assert [len(batch.ids) for batch in cases.read(path, 100)] == [5, 2]


def test_a_batch_of_long_texts_ends_early(tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_bytes(_json_lines([{"vignette_id": "v" * 1_000_000}] * 20))  # 16 MiB are 16.8 of them
    assert [len(batch.ids) for batch in cases.read(path, 100)] == [16, 4]


def _bomb(path, rows):
    """Writes `rows`, lists of codes that are present, in the format that the name of the file says."""
    write(path, [{**ROWS[0], "vignette_id": f"v{number}", "present": codes} for number, codes in enumerate(rows)])


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        (
            "a.tfrecord",
            [["a"], ["a" * 2**20]],
            "not a TFRecord file of cases, or damaged: record 2 is longer than 10485",
        ),
        (
            "a.tfrecord.gz",
            [["a"], ["a"] * 2**19],
            "not a TFRecord file of cases, or damaged: record 2 is longer than 1",
        ),
        ("a.parquet", [["a"], ["a"] * (2**20 + 1)], "records 1 to 2: one of them has 1048577 codes"),
        ("a.parquet", [["a"], ["a" * 1000] * 2000], "record 2: longer than 1048576 bytes"),
        ("a.parquet", [["a"], ["a" * 2**20] * 300], "record 2: longer than 1048576 bytes"),
    ],
)
def test_a_record_that_would_fill_the_memory_is_named(tmp_path, name, rows, message):
    _bomb(tmp_path / name, rows)
    with pytest.raises(InputError) as error:
        list(cases.read(tmp_path / name, 4096))
    assert message in str(error.value)


@pytest.mark.parametrize("length", [2**31, 2**36, 2**62])
def test_a_record_that_says_it_is_longer_than_the_memory_is_refused(tmp_path, length):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(struct.pack("<QI", length, 0) + b"x" * 100)
    with pytest.raises(InputError, match="record 1 is longer than 1048576 bytes"):
        list(cases.read(path, 10))


@pytest.mark.parametrize("ending", ["tfrecord.gz", "parquet"])
def test_records_that_are_long_together_are_read_in_parts(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    _bomb(path, [["a" * 1_000_000]] * 40)
    assert [len(batch.ids) for batch in cases.read(path, 4096)] == [16, 16, 8]


def test_a_row_group_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    _bomb(path, [["a", "b"], ["a"]])
    monkeypatch.setattr(cases, "MOST_VALUES", 2)
    with pytest.raises(InputError, match=r"row group 1, present.list.element: more than 2 values, or 268435456 bytes"):
        list(cases.read(path, 10))


def test_columns_of_other_types_are_refused(tmp_path):
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"vignette_id": ["v"], "present": [[["a"]]]}), path)
    with pytest.raises(InputError, match="records 1 to 1: expected columns of texts, lists of texts"):
        list(cases.read(path, 10))


def test_an_unknown_column_is_refused_and_one_of_a_vignette_is_not(tmp_path):
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"vignette_id": ["v"], "Present": [["a"]], "absent": [["b"]]}), path)
    with pytest.raises(InputError, match=r"a\.parquet: unknown field 'Present': expected vignette_id, present, absent"):
        list(cases.read(path, 10))
    pyarrow.parquet.write_table(pyarrow.table({"vignette_id": ["v"], "present": [["a"]], "tags": [["t"]]}), path)
    [read] = cases.read(path, 10)
    assert read.present == [["a"]]


@pytest.mark.parametrize(
    "kind",
    [
        pyarrow.list_(pyarrow.dictionary(pyarrow.int32(), pyarrow.string())),
        pyarrow.large_list(pyarrow.large_string()),
    ],
)
def test_lists_of_any_kind_are_codes(tmp_path, kind):
    path = tmp_path / "a.parquet"
    values = pyarrow.array([["a", "b"], None, ["b", "b"]]).cast(kind)
    pyarrow.parquet.write_table(pyarrow.table({"vignette_id": ["v", "w", "x"], "present": values}), path)
    [read] = cases.read(path, 10)
    assert read.present == [["a", "b"], [], ["b", "b"]]


def test_a_damaged_gzip_file_is_named(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    content = bytearray(gzip.compress(_json_lines([{"vignette_id": f"v{number}"} for number in range(1000)])))
    content[20:40] = b"\xff" * 20
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a.jsonl.gz: cannot read"):
        list(cases.read(path, 10))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "cases.jsonl")
    with pytest.raises(InputError, match="not a file: write what comes from a pipe or a device to one"):
        cases.check_kind(tmp_path / "cases.jsonl")
