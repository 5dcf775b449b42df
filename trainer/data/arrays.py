"""The vignettes of a split in memory, read shard by shard: two or four bytes per piece of evidence."""

import contextlib
import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from schemas import directories, features
from schemas.errors import InputError, first_line
from schemas.evidence import UNKNOWN, Vocabulary
from schemas.triage import DECISION_LABELS, NUM_DECISIONS, TRIAGE_DECISIONS
from trainer.data.vignette import MAX_SAME_DECISIONS, Vignette

BATCH_SIZE = 4_096


class VignetteArrays(NamedTuple):
    """The vignettes of a split in input order: V of them, their evidence as compressed sparse rows."""

    vignette_ids: np.ndarray  # object (str) [V]
    offsets: np.ndarray  # int64 [V + 1]: row v is signed_codes[offsets[v]:offsets[v + 1]]
    signed_codes: np.ndarray  # int16, or int32 for a vocabulary of 32,767 codes or more; see trainer.data.state
    decision_counts: np.ndarray  # uint8 [V, 4]: multiplicity of Red, Yellow, Green, Blue
    tags: tuple[tuple[str, ...], ...]  # V tuples

    def joined(self, others: "VignetteArrays") -> "VignetteArrays":
        """Returns these vignettes, and then the others."""
        return _concatenated([self, others])

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

    def vignette(self, row: int, vocabulary: Vocabulary) -> Vignette:
        """Returns the vignette at the place `row`, with its decisions in the order of urgency and without a split."""
        signed = self.signed_codes[self.offsets[row] : self.offsets[row + 1]].tolist()
        return Vignette(
            vignette_id=str(self.vignette_ids[row]),
            present=tuple(vocabulary[code - 1].code for code in signed if code > 0),
            absent=tuple(vocabulary[-code - 1].code for code in signed if code < 0),
            decisions=tuple(each for each in TRIAGE_DECISIONS for _ in range(self.decision_counts[row][each])),
            tags=self.tags[row],
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


def _concatenated(parts: Sequence[VignetteArrays]) -> VignetteArrays:
    """Returns the vignettes of one or more parts, one after the other."""
    lengths = [np.diff(part.offsets) for part in parts]
    return VignetteArrays(
        vignette_ids=np.concatenate([part.vignette_ids for part in parts]),
        offsets=np.cumsum(np.concatenate([[0], *lengths]), dtype=np.int64),
        signed_codes=np.concatenate([part.signed_codes for part in parts]),
        decision_counts=np.concatenate([part.decision_counts for part in parts]),
        tags=tuple(itertools.chain.from_iterable(part.tags for part in parts)),
    )


_DECISIONS = {label.encode(): decision for decision, label in enumerate(DECISION_LABELS)}
_EVIDENCE = (features.PRESENT, features.ABSENT)
_LISTS = (*_EVIDENCE, features.DECISIONS, features.TAGS)


class ShardReader:
    """Reads shards into arrays.

    Without `names`, which take most of the memory, all ids and tags are "" and ().
    """

    def __init__(self, vocabulary: Vocabulary, names: bool = True):
        self._names = names
        self._dtype = np.int16 if len(vocabulary) < np.iinfo(np.int16).max else np.int32
        self._cells = {code.encode(): cell for cell, code in enumerate(vocabulary.codes)}

    def read(self, shards: Sequence[pathlib.Path]) -> VignetteArrays:
        """Returns the vignettes of `shards` in order.

        Raises:
            InputError: a shard is damaged or holds anything but vignettes; the message names it.
        """
        nothing = VignetteArrays(
            np.empty(0, object),
            np.zeros(1, np.int64),
            np.empty(0, self._dtype),
            np.empty((0, NUM_DECISIONS), np.uint8),
            (),
        )
        return _concatenated([nothing, *(part for shard in shards for part in self._read_shard(shard))])

    def _read_shard(self, shard: pathlib.Path) -> Iterator[VignetteArrays]:
        records = tf.data.TFRecordDataset(str(shard))
        batches = iter(records.batch(BATCH_SIZE).prefetch(2))
        read = 0
        while True:
            try:
                parsed = _parse(next(batches))
            except StopIteration:
                return
            # TensorFlow quotes the record in its message, which then may not be text.
            except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
                number = _first_faulty(records, read)
                raise InputError(
                    f"{shard}: record {number} is not the tf.Example of a vignette: prepare the data again"
                ) from error
            except tf.errors.OpError as error:
                raise InputError(f"{shard}: {damage(_first_faulty(records, read), error)}") from error
            yield self._part(parsed, shard, read)
            read += int(parsed[features.VIGNETTE_ID].shape[0])

    def _part(self, parsed: dict[str, Any], shard: pathlib.Path, read: int) -> VignetteArrays:
        """Returns what `_parse` parsed, before which `read` records of the shard come."""
        found = {}
        for key in (*_EVIDENCE, features.DECISIONS):
            texts, known = parsed[key].values.numpy(), self._cells if key in _EVIDENCE else _DECISIONS
            found[key] = np.fromiter(map(known.get, texts, itertools.repeat(UNKNOWN)), np.int64, len(texts))
            for unknown in np.flatnonzero(found[key] == UNKNOWN)[:1]:
                raise InputError(
                    f"{shard}: record {read + parsed[key].value_rowids().numpy()[unknown] + 1}: "
                    f"{texts[unknown].decode(errors='replace')!r} is neither a code of {directories.VOCABULARY} "
                    "nor a triage decision: prepare the data again with its own vocabulary"
                )
        present = parsed[features.PRESENT].with_values(found[features.PRESENT] + 1)
        absent = parsed[features.ABSENT].with_values(-1 - found[features.ABSENT])
        signed = tf.concat([present, absent], axis=1)  # int64 [B, (R)]
        ids = [each.decode(errors="replace") for each in parsed[features.VIGNETTE_ID].numpy()]
        rows = parsed[features.DECISIONS].value_rowids().numpy()
        cells = NUM_DECISIONS * rows + found[features.DECISIONS]
        counts = np.bincount(cells, minlength=NUM_DECISIONS * len(ids)).reshape(len(ids), NUM_DECISIONS)
        part = VignetteArrays(
            vignette_ids=np.array(ids, object),
            offsets=signed.row_splits.numpy(),
            signed_codes=signed.values.numpy().astype(self._dtype),
            decision_counts=counts,
            tags=_tuples(parsed[features.TAGS]) if self._names else ((),) * len(ids),
        )
        _check(part, shard, read)
        names = part.vignette_ids if self._names else np.full(len(ids), "", object)
        return part._replace(vignette_ids=names, decision_counts=counts.astype(np.uint8))


def _parse(serialized: tf.Tensor) -> dict[str, Any]:
    """Returns the features of tf.Examples: a string `[B]`, and ragged ones, string `[B, (N)]`."""
    texts = tf.io.RaggedFeature(tf.string, row_splits_dtype=tf.int64)
    described = {features.VIGNETTE_ID: tf.io.FixedLenFeature([], tf.string), **dict.fromkeys(_LISTS, texts)}
    parsed: dict[str, Any] = tf.io.parse_example(serialized, described)
    return parsed


def _first_faulty(records: tf.data.Dataset, read: int) -> int:
    """Returns the number, from 1, of the first record that cannot be read; the first `read` ones can."""
    with contextlib.suppress(tf.errors.OpError, UnicodeDecodeError):
        for record in records.skip(read).batch(1):
            _parse(record)
            read += 1
    return read + 1


def _check(part: VignetteArrays, shard: pathlib.Path, read: int) -> None:
    """Refuses what `triage prepare` would have refused, as another program may have written the shard."""
    lengths = np.diff(part.offsets)
    cells = np.stack([np.repeat(np.arange(len(lengths)), lengths), np.abs(part.signed_codes)])
    order = np.lexsort(cells[::-1])
    faults = {
        "no evidence": np.flatnonzero(lengths == 0),
        "no decision": np.flatnonzero(part.decision_counts.sum(axis=1) == 0),
        f"more than {MAX_SAME_DECISIONS} decisions of a kind": np.flatnonzero(
            part.decision_counts.max(axis=1) > MAX_SAME_DECISIONS
        ),
        "a code twice": cells[0][order[1:]][(np.diff(cells[:, order]) == 0).all(axis=0)],
    }
    for fault, examples in faults.items():
        if len(examples):
            name = part.vignette_ids[examples[0]]
            raise InputError(f"{shard}: record {read + examples[0] + 1}: vignette {name!r} has {fault}")


def _tuples(ragged: tf.RaggedTensor) -> tuple[tuple[str, ...], ...]:
    """Returns one tuple for each row; equal tuples are one object, as many vignettes share the same tags."""
    known: dict[tuple[bytes, ...], tuple[str, ...]] = {}
    rows = map(tuple, ragged.to_list())
    return tuple(known.setdefault(row, tuple(tag.decode(errors="replace") for tag in row)) for row in rows)


def damage(record: int, error: tf.errors.OpError) -> str:
    """Describes in one line that TensorFlow could not read record `record` (from 1) of a shard."""
    return f"record {record} is damaged, or the file ends within it: prepare the data again ({first_line(error)})"
