"""Vignettes as tf.Examples in TFRecord shards, and the data directory that holds them (schemas/vignette.pbtxt)."""

import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from schemas import directories, features
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from trainer.data.arrays import BATCH_SIZE, ShardReader, VignetteArrays
from trainer.data.vignette import Vignette
from triage_runtime.storage.whole_file import read_json

DDXPLUS = "ddxplus"
"""`format` of imported DDXPlus patients."""
_SIMULATED = ("simulate", DDXPLUS)

_PREPARE = "run triage prepare to make one"


def is_simulated(stats: Mapping[str, Any]) -> bool | None:
    """Returns True if the stats.json of a data directory states that its vignettes were made by a program.

    None otherwise: a file of vignettes does not state whether it comes from clinicians or from a program.
    """
    return True if stats.get("format") in _SIMULATED else None


def encode_example(vignette: Vignette) -> bytes:
    """Returns the serialized tf.Example of a vignette; the same vignette always gives the same bytes."""
    values: dict[str, Sequence[str]] = {
        features.VIGNETTE_ID: (vignette.vignette_id,),
        features.PRESENT: vignette.present,
        features.ABSENT: vignette.absent,
        features.DECISIONS: tuple(decision.label for decision in vignette.decisions),
    }
    if vignette.tags:
        values[features.TAGS] = vignette.tags
    example = tf.train.Example()
    feature = example.features.feature
    for name, texts in values.items():
        feature[name].bytes_list.value.extend([text.encode() for text in texts])
    return example.SerializeToString(deterministic=True)


def read_records(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yields the records of a TFRecord file, with a batch in memory; of a damaged file, those before the damage."""
    options = tf.data.Options()
    # There is nothing to tune, and the tuning thread delays the end of each file by up to seconds.
    options.autotune.enabled = False
    records = tf.data.TFRecordDataset(os.fspath(path)).with_options(options)
    read = 0
    try:
        for batch in records.batch(BATCH_SIZE).as_numpy_iterator():
            yield from batch
            read += len(batch)
    except tf.errors.OpError:  # raised for the whole batch, of which no record has been yielded
        yield from records.skip(read).as_numpy_iterator()


def write_shards(directory: pathlib.Path, split: str, records: Sequence[bytes], shard_size: int) -> None:
    """Writes the tf.Examples of a split into shards of `shard_size` records; the last one may have fewer."""
    shards = -(-len(records) // shard_size)
    for shard in range(shards):
        with tf.io.TFRecordWriter(str(directory / directories.shard_name(split, shard, shards))) as writer:
            for record in records[shard * shard_size : (shard + 1) * shard_size]:
                writer.write(record)


class DataDirectory:
    """What `triage prepare` writes: shards, vocabulary.csv, schema.pbtxt and stats.json. Made by `open`."""

    def __init__(self, path: pathlib.Path, vocabulary: Vocabulary, stats: dict[str, Any]):
        self.path = path
        self.vocabulary = vocabulary
        self.stats = stats

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __repr__(self) -> str:
        splits = ", ".join(f"{split} {self._vignettes(split):,}" for split in directories.SPLITS)
        return f"{type(self).__name__}({str(self.path)!r}): {splits} vignettes, {len(self.vocabulary):,} evidence codes"

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "DataDirectory":
        """Opens a data directory.

        Raises:
            InputError: it is not a data directory, a shard is missing, or its files do not belong together.
        """
        path = pathlib.Path(path)
        if not path.is_dir():
            raise InputError(f"{path}: no such data directory: {_PREPARE}")
        missing = [n for n in (directories.VOCABULARY, directories.STATS) if not (path / n).is_file()]
        if missing:
            raise InputError(f"{path}: not a data directory, {' and '.join(missing)} is missing: {_PREPARE}")
        vocabulary = Vocabulary.load(path / directories.VOCABULARY)
        data = cls(path, vocabulary, _load_stats(path / directories.STATS))
        if data.stats["vocabulary_fingerprint"] != vocabulary.fingerprint:
            raise InputError(
                f"{path / directories.VOCABULARY}: not the vocabulary of {directories.STATS} "
                f"(its codes or their order changed): restore the old file, or prepare the data again"
            )
        for split in directories.SPLITS:
            data.shards(split)
        return data

    @property
    def data_fingerprint(self) -> str:
        """`sha256:` and 64 hexadecimal digits over the vignettes in order and their splits."""
        return self.stats["data_fingerprint"]

    @property
    def whole_patients(self) -> bool:
        """Whether a patient lacks what a vignette does not list (`--whole-patient`, DDXPlus)."""
        marked = self.stats.get("options", {}).get(directories.WHOLE_PATIENT) is True
        return marked or self.stats.get("format") == DDXPLUS

    def shards(self, split: str) -> list[pathlib.Path]:
        """Returns the shard files of a split in order.

        Raises:
            InputError: a shard is missing, or the files belong to different sets.
        """
        parts = filter(None, (directories.shard_parts(entry.name) for entry in self.path.iterdir()))
        there = {(shard, shards) for of_split, shard, shards in parts if of_split == split}
        sets = {shards for _, shards in there}
        if not sets and not self._vignettes(split):
            return []
        if len(sets) != 1:
            problem = "shards of different sets" if sets else "no shards"
            raise InputError(f"{self.path}: {problem} for the {split} split: prepare the data again")
        [shards] = sets
        names = [directories.shard_name(split, shard, shards) for shard in range(shards)]
        lost = [name for shard, name in enumerate(names) if (shard, shards) not in there]
        if lost:
            raise InputError(f"{self.path}: {len(there)} of {shards} shards found, {', '.join(lost[:3])} is missing")
        return [self.path / name for name in names]

    def require_vocabulary(self, vocabulary: Vocabulary, file: pathlib.Path) -> None:
        """Raises an InputError if the codes of the data are not those of `vocabulary`, which `file` holds."""
        if self.vocabulary.fingerprint != vocabulary.fingerprint:
            raise InputError(f"{self.path}: its vocabulary is not {file}: prepare the data with that --vocabulary")

    def read(self, split: str, names: bool = True, needed: bool = False) -> VignetteArrays:
        """Reads a split into memory; without `names`, ids and tags are left out, which take half of the memory.

        Raises:
            InputError: a shard is damaged or holds anything but vignettes, records are missing, or a split that is
                `needed` has none.
        """
        if needed and not self._vignettes(split):
            raise InputError(f"{self.path}: the {split} split has no vignettes")
        arrays = ShardReader(self.vocabulary, names).read(self.shards(split))
        if len(arrays.vignette_ids) != self._vignettes(split):
            raise InputError(
                f"{self.path}: the {split} split has {len(arrays.vignette_ids)} vignettes, {directories.STATS} says "
                f"{self._vignettes(split)}: a shard is incomplete: prepare the data again"
            )
        return arrays

    def _vignettes(self, split: str) -> int:
        return self.stats["splits"][split]["vignettes"]


def _load_stats(path: pathlib.Path) -> dict[str, Any]:
    stats = read_json(path)
    try:
        counts = [stats["splits"][split]["vignettes"] for split in directories.SPLITS]
        texts = [stats["vocabulary_fingerprint"], stats["data_fingerprint"]]
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: not a file of triage prepare: {error!r}") from error
    if not all(type(count) is int for count in counts) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{path}: not a file of triage prepare: prepare the data again")
    return stats
