"""The vignettes of a split in memory, read shard by shard: two or four bytes per piece of evidence."""

import contextlib
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from schemas import directories, features
from schemas.directories import GZIP_MAGIC
from schemas.errors import InputError, first_line
from schemas.evidence import Vocabulary
from schemas.triage import DECISION_LABELS, NUM_DECISIONS
from trainer.vignettes.state import UNKNOWN, vocabulary_table
from trainer.vignettes.vignette import MAX_SAME_DECISIONS

BATCH_SIZE = 4_096


class VignetteArrays(NamedTuple):
    """The vignettes of a split in input order: V of them, their evidence as compressed sparse rows."""

    vignette_ids: np.ndarray  # object (str) [V]
    offsets: np.ndarray  # int64 [V + 1]: row v is signed_codes[offsets[v]:offsets[v + 1]]
    signed_codes: np.ndarray  # int16, or int32 for a vocabulary of 32,767 codes or more; see trainer.vignettes.state
    decision_counts: np.ndarray  # uint8 [V, 4]: multiplicity of Red, Yellow, Green, Blue
    tags: tuple[tuple[str, ...], ...]  # V tuples

    def joined(self, others: "VignetteArrays") -> "VignetteArrays":
        """Returns these vignettes, and then the others."""
        return VignetteArrays(
            vignette_ids=np.concatenate([self.vignette_ids, others.vignette_ids]),
            offsets=np.concatenate([self.offsets, self.offsets[-1] + others.offsets[1:]]),
            signed_codes=np.concatenate([self.signed_codes, others.signed_codes]),
            decision_counts=np.concatenate([self.decision_counts, others.decision_counts]),
            tags=self.tags + others.tags,
        )

    def select(self, rows: np.ndarray) -> "VignetteArrays":
        """Returns the vignettes at the places `rows`, int `[n]`, in that order."""
        lengths = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        shifts: np.ndarray = np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        return VignetteArrays(
            vignette_ids=self.vignette_ids[rows],
            offsets=offsets,
            signed_codes=self.signed_codes[np.arange(offsets[-1]) + shifts],
            decision_counts=self.decision_counts[rows],
            tags=tuple(self.tags[row] for row in rows),
        )


def fold_rows(vignettes: int, folds: int, fold: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the places of the vignettes to train on and of those to test on, both ascending.

    Args:
        vignettes: number of vignettes, at least `folds`.
        folds: K; the folds of a seed are disjoint and together hold all vignettes; their sizes differ by at most 1.
        fold: the fold to test on, 0 to K - 1.
        seed: of the shuffle, the same for all folds of a cross-validation.
    """
    shuffled = np.random.default_rng(seed).permutation(vignettes)
    test = np.sort(np.array_split(shuffled, folds)[fold])
    return np.setdiff1d(np.arange(vignettes), test), test


class _Batch(NamedTuple):
    """B parsed tf.Examples, as tensors while they are parsed, as NumPy arrays afterwards."""

    vignette_ids: tf.Tensor  # string [B]
    row_lengths: tf.Tensor  # int64 [B]
    signed_codes: tf.Tensor  # int32 [sum of row_lengths]
    decision_counts: tf.Tensor  # int32 [B, 4]
    tags: tf.Tensor  # string [sum of tag_lengths]
    tag_lengths: tf.Tensor  # int64 [B]
    unknown: tf.Tensor  # string [U]: unknown codes and decisions
    unknown_rows: tf.Tensor  # int64 [U]: the example that each is in


class _Part(NamedTuple):
    """A batch in its final types."""

    vignette_ids: np.ndarray  # object (str) [B]
    row_lengths: np.ndarray  # int64 [B]
    signed_codes: np.ndarray
    decision_counts: np.ndarray  # uint8 [B, 4]
    tags: tuple[tuple[str, ...], ...]


class ShardReader:
    """Reads shards into arrays.

    Args:
        vocabulary: the vocabulary of the data directory.
        names: whether to read ids and tags, which take most of the memory; otherwise all are "" and ().
    """

    def __init__(self, vocabulary: Vocabulary, names: bool = True):
        self._names = names
        self._dtype = np.int16 if len(vocabulary) < np.iinfo(np.int16).max else np.int32
        self._codes = vocabulary_table(vocabulary)
        labels = tf.lookup.KeyValueTensorInitializer(tf.constant(DECISION_LABELS), tf.range(NUM_DECISIONS))
        self._decisions = tf.lookup.StaticHashTable(labels, default_value=UNKNOWN)

    def read(self, shards: Sequence[pathlib.Path]) -> VignetteArrays:
        """Returns the vignettes of `shards` in order.

        Raises:
            InputError: a shard is damaged or holds anything but vignettes; the message names it.
        """
        parts = [
            _Part(
                np.empty(0, object), np.empty(0, np.int64), np.empty(0, self._dtype),
                np.empty((0, NUM_DECISIONS), np.uint8), (),
            )
        ]  # fmt: skip
        for shard in shards:
            parts.extend(self._read_shard(shard))
        return VignetteArrays(
            vignette_ids=np.concatenate([part.vignette_ids for part in parts]),
            offsets=np.cumsum(np.concatenate([[0], *(part.row_lengths for part in parts)]), dtype=np.int64),
            signed_codes=np.concatenate([part.signed_codes for part in parts]),
            decision_counts=np.concatenate([part.decision_counts for part in parts]),
            tags=tuple(tags for part in parts for tags in part.tags),
        )

    def _read_shard(self, shard: pathlib.Path) -> Iterator[_Part]:
        records = tf.data.TFRecordDataset(str(shard), "GZIP" if shard.name.endswith(".gz") else "")
        batches = iter(records.batch(BATCH_SIZE).prefetch(2))
        read = 0
        while True:
            try:
                batch = _Batch(*(tensor.numpy() for tensor in self._parsed(next(batches))))
            except StopIteration:
                return
            # TensorFlow quotes the record in its message, which then may not be text.
            except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
                number = self._first_faulty(records, read)
                raise InputError(
                    f"{shard}: record {number} is not the tf.Example of a vignette: prepare the data again"
                ) from error
            except tf.errors.OpError as error:
                detail = damage(shard, self._first_faulty(records, read), error)
                raise InputError(f"{shard}: {detail}") from error
            _check(shard, read, batch)
            read += len(batch.vignette_ids)
            yield self._part(batch)

    def _first_faulty(self, records: tf.data.Dataset, read: int) -> int:
        """Returns the number, from 1, of the first record that cannot be read; the first `read` ones can."""
        with contextlib.suppress(tf.errors.OpError, UnicodeDecodeError):
            for record in records.skip(read).batch(1):
                self._parsed(record)
                read += 1
        return read + 1

    def _parsed(self, serialized: tf.Tensor) -> _Batch:
        parsed: _Batch = _parse(serialized, self._codes.resource_handle, self._decisions.resource_handle)
        return parsed

    def _part(self, batch: _Batch) -> _Part:
        ids: np.ndarray = np.full(len(batch.vignette_ids), "", object)
        if self._names:
            ids[:] = [vignette_id.decode(errors="replace") for vignette_id in batch.vignette_ids]
        return _Part(
            vignette_ids=ids,
            row_lengths=batch.row_lengths,
            signed_codes=batch.signed_codes.astype(self._dtype),
            decision_counts=batch.decision_counts.astype(np.uint8),
            tags=_tuples(batch.tags, batch.tag_lengths) if self._names else ((),) * len(ids),
        )


@tf.function(
    autograph=False,
    input_signature=(tf.TensorSpec([None], tf.string), tf.TensorSpec([], tf.resource), tf.TensorSpec([], tf.resource)),
)
def _parse(serialized: tf.Tensor, code_table: tf.Tensor, decision_table: tf.Tensor) -> _Batch:
    """Parses tf.Examples.

    Not part of the input pipeline, which would take a fifth of a second longer to build, for every shard. Takes tables
    by their handles, so that it is traced once for all readers of a process.
    """
    texts = tf.io.RaggedFeature(tf.string, row_splits_dtype=tf.int64)
    keys = (features.PRESENT, features.ABSENT, features.DECISIONS, features.TAGS)
    parsed = tf.io.parse_example(
        serialized, {features.VIGNETTE_ID: tf.io.FixedLenFeature([], tf.string), **dict.fromkeys(keys, texts)}
    )
    present, absent, decisions = (parsed[key] for key in keys[:3])  # string [B, (R)]
    present_cells, absent_cells = (_find(code_table, codes.values, tf.int64) for codes in (present, absent))
    signed = tf.concat(
        [present.with_values(present_cells + 1), absent.with_values(-(absent_cells + 1))], axis=1
    )  # int64 [B, (R)]
    labels = _find(decision_table, decisions.values, tf.int32)
    counts = tf.math.unsorted_segment_sum(
        tf.one_hot(labels, NUM_DECISIONS, dtype=tf.int32), decisions.value_rowids(), decisions.nrows()
    )
    looked_up = ((present, present_cells), (absent, absent_cells), (decisions, labels))
    return _Batch(
        vignette_ids=parsed[features.VIGNETTE_ID],
        row_lengths=signed.row_lengths(),
        signed_codes=tf.cast(signed.values, tf.int32),
        decision_counts=counts,
        tags=parsed[features.TAGS].values,
        tag_lengths=parsed[features.TAGS].row_lengths(),
        unknown=tf.concat([tf.boolean_mask(each.values, cells == UNKNOWN) for each, cells in looked_up], axis=0),
        unknown_rows=tf.concat(
            [tf.boolean_mask(each.value_rowids(), cells == UNKNOWN) for each, cells in looked_up], axis=0
        ),
    )


def _find(table: tf.Tensor, texts: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Returns the value of each of `texts` in the table with this handle, `UNKNOWN` for texts that are not in it."""
    values = tf.raw_ops.LookupTableFindV2(table_handle=table, keys=texts, default_value=tf.constant(UNKNOWN, dtype))
    return tf.ensure_shape(values, texts.shape)


def _check(shard: pathlib.Path, read: int, batch: _Batch) -> None:
    """Refuses what `triage prepare` would have refused, as another program may have written the shard.

    `read` records come before the batch.
    """
    if len(batch.unknown):
        first = batch.unknown_rows.argmin()
        raise InputError(
            f"{shard}: record {read + batch.unknown_rows[first] + 1}: "
            f"{batch.unknown[first].decode(errors='replace')!r} is neither a code of {directories.VOCABULARY} "
            "nor a triage decision: prepare the data again with its own vocabulary"
        )
    rows: np.ndarray = np.repeat(np.arange(len(batch.row_lengths)), batch.row_lengths)
    cells = np.stack([rows, np.abs(batch.signed_codes)])
    order = np.lexsort(cells[::-1])
    twice = rows[order[1:]][(np.diff(cells[:, order]) == 0).all(axis=0)]
    faults = {
        "no evidence": np.flatnonzero(batch.row_lengths == 0),
        "no decision": np.flatnonzero(batch.decision_counts.sum(axis=1) == 0),
        f"more than {MAX_SAME_DECISIONS} decisions of a kind": np.flatnonzero(
            batch.decision_counts.max(axis=1) > MAX_SAME_DECISIONS
        ),
        "a code twice": twice,
    }
    for fault, examples in faults.items():
        if len(examples):
            vignette_id = batch.vignette_ids[examples[0]].decode(errors="replace")
            raise InputError(f"{shard}: record {read + examples[0] + 1}: vignette {vignette_id!r} has {fault}")


def _tuples(values: np.ndarray, lengths: np.ndarray) -> tuple[tuple[str, ...], ...]:
    """Returns one tuple for each length; equal tuples are one object, as many vignettes share the same tags."""
    known: dict[tuple[bytes, ...], tuple[str, ...]] = {}
    ends = np.cumsum(lengths)
    rows = (tuple(values[start:end]) for start, end in zip(ends - lengths, ends, strict=True))
    return tuple(known.setdefault(row, tuple(tag.decode(errors="replace") for tag in row)) for row in rows)


def damage(shard: pathlib.Path, record: int, error: tf.errors.OpError) -> str:
    """Describes in one line why TensorFlow could not read record `record` (from 1) of a shard."""
    try:
        with shard.open("rb") as file:
            looks_compressed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    except OSError as fault:
        return f"cannot read: {fault.strerror or fault}"
    compressed = shard.name.endswith(".gz")
    if looks_compressed and not compressed:
        return "the content is gzip-compressed, but the name does not end in .gz: rename the file"
    if compressed and not looks_compressed:
        return "the name ends in .gz, but the content is not gzip-compressed: rename the file"
    return f"record {record} is damaged, or the file ends within it: prepare the data again ({first_line(error)})"
