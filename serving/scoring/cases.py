"""Reads the cases of a file, batch by batch: JSON Lines, CSV, TFRecord or Parquet, the first three also gzipped.

A case has a `vignette_id`, the codes that are `present` and those that are `absent`, and optionally `questions_asked`
and `no_more_evidence`. Vignettes are cases, whose decisions, splits and tags are not read.
"""

import gzip
import io
import pathlib
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

import numpy as np

from schemas.csv_table import CsvTable
from schemas.directories import GZIP_MAGIC, UTF_16_MARKS
from schemas.errors import InputError, first_line, shown
from schemas.text_file import BYTE_ORDER_MARK, MAX_LINE_BYTES, Line, lines_of
from schemas.triage import NO_QUESTIONS_LEFT
from triage_runtime.case import PRESENCE, id_of, parse_object, read_codes, whole_number
from triage_runtime.command_line.extras import need
from triage_runtime.storage.locations import Location

JSONL, CSV, TFRECORD, PARQUET = FORMATS = "jsonl", "csv", "tfrecord", "parquet"
"""The formats of input and output; each is also the ending of file names."""
COMPRESSED = ".gz"
ID, PRESENT, ABSENT, ASKED, ENDED = FIELDS = (
    "vignette_id", "present", "absent", "questions_asked", "no_more_evidence",
)  # fmt: skip
NOT_READ = ("decisions", "split", "tags")
MOST_CODES = 1024 * 1024
"""Codes in a batch if each case had as many as the longest one; it ends early where there are more."""
MOST_BATCH_BYTES = 16 * 1024 * 1024
"""Length of the texts in a batch."""

Rows = Iterable[tuple[int, Any]]
"""What a file holds: the number of each line or record, from 1, and its fields by name."""


class Cases(NamedTuple):
    """B cases of a file, or of other rows."""

    places: list[str]  # such as "cases.csv: line 7, 'v1'"
    ids: list[str]
    present: list[list[str]]
    absent: list[list[str]]
    questions_asked: np.ndarray  # int32 [B], as the signature `state` takes it


class StoredCase(NamedTuple):
    """One of them."""

    place: str
    vignette_id: str
    present: list[str]
    absent: list[str]
    questions_asked: int
    length: int  # of the texts


def format_of(path: Location) -> str | None:
    """Returns the format that the name of a file says, None for another name."""
    stem = path.name.removesuffix(COMPRESSED)
    return next((each for each in FORMATS if stem.endswith(f".{each}")), None)


def check_kind(path: pathlib.Path) -> None:
    """Checks by its first bytes that a file is what its name says, which takes no time.

    Raises:
        InputError: it is not, or it cannot be read, or is none that can be read twice, such as a pipe.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: not a file: save what comes from a pipe or a device to a file first")
    try:
        with path.open("rb") as file:
            start = file.read(1024)
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    if not start:
        return
    if path.name.endswith(COMPRESSED):
        if not start.startswith(GZIP_MAGIC):
            raise InputError(f"{path}: the name ends in {COMPRESSED}, but the file is not compressed: rename it")
    elif start.startswith(GZIP_MAGIC):
        raise InputError(f"{path}: compressed with gzip: rename it to {path.name}{COMPRESSED}")
    elif start.startswith(UTF_16_MARKS) and format_of(path) in (JSONL, CSV):
        raise InputError(f"{path}: UTF-16 text: save the file as UTF-8")
    elif format_of(path) == JSONL and (first := start.removeprefix(BYTE_ORDER_MARK).lstrip()) and first[:1] != b"{":
        raise InputError(f"{path}: not JSON Lines: expected an object on each line")


def read(path: pathlib.Path, batch_size: int) -> Iterator[Cases]:
    """Yields the cases of a file in batches of `batch_size`, the last one of fewer.

    Raises:
        InputError: the file cannot be read, or a case is faulty; the message names its line or record.
    """
    kind = format_of(path)
    rows, unit = _READERS[kind or ""](path, batch_size), "line" if kind in (JSONL, CSV) else "record"
    try:
        yield from batched((_case(path, unit, number, row) for number, row in rows), batch_size)
    except (OSError, EOFError, zlib.error) as error:  # gzip raises the others where a file is cut off or damaged
        raise InputError(f"{path}: cannot read: {first_line(error)}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from error


def batched(cases: Iterable[StoredCase], size: int) -> Iterator[Cases]:
    """Yields `size` cases at a time, or fewer if they are long: codes of a batch are padded to the most of a case."""
    batch: list[StoredCase] = []
    most = length = 0
    for case in cases:
        codes = len(case.present) + len(case.absent)
        most, length = max(most, codes), length + case.length
        if batch and (len(batch) == size or (len(batch) + 1) * most > MOST_CODES or length > MOST_BATCH_BYTES):
            yield _together(batch)
            batch, most, length = [], codes, case.length
        batch.append(case)
    if batch:
        yield _together(batch)


def _together(batch: list[StoredCase]) -> Cases:
    places, ids, present, absent, asked, _ = map(list, zip(*batch, strict=True))
    return Cases(places, ids, present, absent, np.array(asked, np.int32))


def _case(path: pathlib.Path, unit: str, number: int, row: Any) -> StoredCase:
    where = f"{path}: {unit} {number}"
    _check_names(where, row.keys())
    vignette_id = id_of(row.get(ID))
    if not isinstance(vignette_id, str) or not vignette_id:
        raise InputError(f"{where}: no {ID}: every case needs one to identify its answer")
    return case_of(f"{where}, {vignette_id!r}", vignette_id, row)


def case_of(place: str, vignette_id: str, row: Mapping[str, Any]) -> StoredCase:
    """Returns the case in the fields of a row, whose names and id have been checked.

    Raises:
        InputError: a field is faulty; the message begins with the place.
    """
    stated = {ASKED: 0, ENDED: False, **{name: value for name, value in row.items() if value is not None}}
    try:
        present, absent = (read_codes(stated.get(name), name) for name in (PRESENT, ABSENT))
        asked, ended = whole_number(stated[ASKED], ASKED), stated[ENDED]
        if type(ended) is not bool:
            raise InputError(f"{ENDED}: expected true or false, found {shown(ended)}")
        length = len(vignette_id) + sum(map(len, present)) + sum(map(len, absent))
        if length > MAX_LINE_BYTES:
            raise InputError(f"longer than {MAX_LINE_BYTES} bytes")
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
    return StoredCase(place, vignette_id, present, absent, NO_QUESTIONS_LEFT if ended else asked, length)


def _check_names(where: str, names: Collection[str]) -> None:
    if not _KNOWN.issuperset(names):
        name = next(name for name in names if name not in _KNOWN)
        raise InputError(f"{where}: unknown field {name!r}: expected {', '.join(FIELDS)}")


_KNOWN = {*FIELDS, *NOT_READ}
_FRAME_BYTES = 8 + 4 + 4
"""Of a TFRecord, beside its content: a length, its checksum, and that of the content."""
_SIZE_BYTES = 4
"""At the end of a gzip file: how long its last part is without compression, but for multiples of 4 GiB."""
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,15})?")


def _open(path: pathlib.Path) -> IO[bytes]:
    opened: Any = gzip.open if path.name.endswith(COMPRESSED) else open
    file: IO[bytes] = opened(path, "rb")
    return file


def _lines(path: pathlib.Path) -> Iterator[Line]:
    with _open(path) as file:
        yield from lines_of(file, path)


def _json_lines(path: pathlib.Path, _: int) -> Rows:
    for line in _lines(path):
        if not line.blank:
            try:
                yield line.number, parse_object(line.decoded())
            except InputError as error:
                raise InputError(f"{path}: line {line.number}: {error}") from None


def _csv_rows(path: pathlib.Path, _: int) -> Rows:
    """Yields the rows of a CSV file, in which codes are separated by spaces."""
    for number, cells in CsvTable(_lines(path), path, (ID,), (*FIELDS[1:], *NOT_READ)).records():
        yield number, {name: _cell(name, text) for name, text in cells.items()}


def _cell(name: str, text: str) -> Any:
    if name in (PRESENT, ABSENT):
        return text.split()
    if name == ASKED:
        return float(text) if _NUMBER.fullmatch(text) else text or None
    return PRESENCE.get(text.lower(), text or None) if name == ENDED else text


def _examples(path: pathlib.Path, batch_size: int) -> Iterator[Mapping[str, Any]]:
    """Yields the tf.Examples of a file, see schemas/vignette.pbtxt."""
    import tensorflow as tf

    texts, numbers = ([tf.io.RaggedFeature(dtype) for _ in range(2)] for dtype in (tf.string, tf.int64))
    shape = {
        ID: tf.io.FixedLenFeature([], tf.string, ""),
        **dict(zip((PRESENT, ABSENT), texts, strict=True)),
        **dict(zip((ASKED, ENDED), numbers, strict=True)),
    }
    kind = "GZIP" if path.name.endswith(COMPRESSED) else ""
    length = 0
    try:
        for batch in tf.data.TFRecordDataset(str(path), kind).batch(batch_size):
            length += sum(_FRAME_BYTES + len(record) for record in batch.numpy())
            parsed = tf.io.parse_example(batch, shape)
            columns = [[code.decode() for code in parsed[ID].numpy()]]
            columns += [_decoded(parsed[name]) for name in (PRESENT, ABSENT)]
            asked, ended = (parsed[name].to_list() for name in (ASKED, ENDED))
            columns += [[_only(row) for row in asked], [_truth(_only(row)) for row in ended]]
            yield from (dict(zip(FIELDS, row, strict=True)) for row in zip(*columns, strict=True))
    except tf.errors.OpError as error:
        raise InputError(f"{path}: not a TFRecord file of cases, or damaged: {first_line(error)}") from error
    _check_end(path, length)


def _only(values: list[int]) -> Any:
    """Returns the only value, None if there is none, and several as they are, to be refused."""
    return values[0] if len(values) == 1 else values or None


def _truth(value: Any) -> Any:
    return bool(value) if value in (0, 1) else value


def _check_end(path: pathlib.Path, length: int) -> None:
    """Refuses a file that ends within a record's header, which TensorFlow takes for the end of what it read.

    Args:
        path: of the file.
        length: of what TensorFlow read, without compression.
    """
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        if path.name.endswith(COMPRESSED):
            file.seek(max(0, size - _SIZE_BYTES))
            size = int.from_bytes(file.read(), "little")
    if (length - size) % 256**_SIZE_BYTES:  # or a gzip file of several parts
        with _open(path) as file:
            file.seek(length)
            if file.read(1):
                raise InputError(f"{path}: ends within a record: copy it again")


def _decoded(codes: Any) -> list[list[str]]:
    return [[code.decode() for code in row] for row in codes.to_list()]


def _parquet(path: pathlib.Path, batch_size: int) -> Iterator[Mapping[str, Any]]:
    parquet = import_parquet(path)
    import pyarrow

    try:
        with parquet.ParquetFile(path) as file:
            _check_names(str(path), file.schema_arrow.names)
            names = [name for name in file.schema_arrow.names if name in FIELDS]
            for batch in file.iter_batches(batch_size, columns=names):
                yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise InputError(f"{path}: not a Parquet file, or damaged: {first_line(error)}") from error


def import_parquet(path: pathlib.Path) -> Any:
    """Returns pyarrow.parquet.

    Raises:
        InputError: pyarrow is not installed.
    """
    need("pyarrow", str(path), "parquet")
    import pyarrow.parquet

    return pyarrow.parquet


_READERS: Mapping[str, Callable[[pathlib.Path, int], Rows]] = {
    JSONL: _json_lines,
    CSV: _csv_rows,
    TFRECORD: lambda path, batch_size: enumerate(_examples(path, batch_size), start=1),
    PARQUET: lambda path, batch_size: enumerate(_parquet(path, batch_size), start=1),
}
