"""Writes columns batch by batch: JSON Lines, CSV, TFRecord or Parquet."""

import contextlib
import csv
import gzip
import io
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from schemas.errors import InputError
from serving.scoring.answers import Columns
from serving.scoring.cases import COMPRESSED, CSV, JSONL, PARQUET, format_of, import_parquet
from triage_runtime.storage.whole_file import path_replacing

Write = Callable[[Columns], None]
_FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d.]+$)")  # a number with its sign is none


@contextlib.contextmanager
def writing(path: pathlib.Path) -> Iterator[Write]:
    """Yields a function that appends columns to a file, which is there as a whole when the block ends, or not at all.

    Raises:
        InputError: Parquet needs a package that is not installed.
        OSError: the file cannot be written.
    """
    with path_replacing(path) as unfinished, _WRITERS.get(format_of(path), _examples)(unfinished) as write:
        yield write


@contextlib.contextmanager
def _opened(path: pathlib.Path) -> Iterator[Any]:
    """Yields a file to write, whose bytes depend neither on its name nor on the time, as gzip's would."""
    with contextlib.ExitStack() as stack:
        file: Any = stack.enter_context(open(path, "wb"))
        if path.name.endswith(COMPRESSED):
            file = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        yield file


@contextlib.contextmanager
def _json_lines(path: pathlib.Path) -> Iterator[Write]:
    encode = msgspec.json.Encoder().encode_lines
    with _opened(path) as file:

        def write(columns: Columns) -> None:
            file.write(encode([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]))

        yield write


@contextlib.contextmanager
def _csv_rows(path: pathlib.Path) -> Iterator[Write]:
    """Lists become texts separated by spaces; a truth is true or false."""
    with _opened(path) as opened, io.TextIOWrapper(opened, "utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        header: list[str] = []

        def write(columns: Columns) -> None:
            if not header:
                header.extend(columns)
                rows.writerow(header)
            rows.writerows(zip(*(_cells(values) for values in columns.values()), strict=True))

        yield write


def _cells(values: list[Any]) -> list[Any]:
    """Returns the cells of a column.

    Raises:
        InputError: a spreadsheet would run one of them as a formula.
    """
    if values and isinstance(values[0], list):
        values = list(map(" ".join, values))
    if values and isinstance(values[0], str) and (formula := next(filter(_FORMULA.match, values), None)) is not None:
        raise InputError(
            f"{formula[:80]!r}: a spreadsheet would run this as a formula: write .jsonl, .parquet or .tfrecord instead"
        )
    return [str(value).lower() for value in values] if values and isinstance(values[0], bool) else values


@contextlib.contextmanager
def _parquet(path: pathlib.Path) -> Iterator[Write]:
    parquet = import_parquet(path)
    import pyarrow

    with contextlib.ExitStack() as stack:
        writers: list[Any] = []

        def write(columns: Columns) -> None:
            lists = [name for name, values in columns.items() if values and isinstance(values[0], list)]
            types = dict.fromkeys(lists, pyarrow.list_(pyarrow.string()))
            table = pyarrow.table({name: pyarrow.array(values, types.get(name)) for name, values in columns.items()})
            if not writers:
                writers.append(stack.enter_context(parquet.ParquetWriter(path, table.schema)))
            writers[0].write_table(table)

        yield write


@contextlib.contextmanager
def _examples(path: pathlib.Path) -> Iterator[Write]:
    """Each row is a tf.Example; truths are 0 or 1."""
    import tensorflow as tf

    train = tf.train

    def feature(value: Any) -> tf.train.Feature:
        values = value if isinstance(value, list) else [value]
        if isinstance(value, bool):
            return train.Feature(int64_list=train.Int64List(value=values))
        if isinstance(value, float):
            return train.Feature(float_list=train.FloatList(value=values))
        return train.Feature(bytes_list=train.BytesList(value=[text.encode() for text in values]))

    with tf.io.TFRecordWriter(str(path), "GZIP" if path.name.endswith(COMPRESSED) else "") as file:

        def write(columns: Columns) -> None:
            for row in zip(*columns.values(), strict=True):
                named = {name: feature(value) for name, value in zip(columns, row, strict=True)}
                example = train.Example(features=train.Features(feature=named))
                file.write(example.SerializeToString(deterministic=True))

        yield write


_WRITERS: dict[str | None, Callable[[pathlib.Path], contextlib.AbstractContextManager[Write]]] = {
    JSONL: _json_lines, CSV: _csv_rows, PARQUET: _parquet,
}  # fmt: skip
