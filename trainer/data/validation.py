"""Checks a data directory from any source: its schema, its counts, and duplicates across its splits.

It goes on where `triage train` would stop at the first fault. Shards are read record by record; memory grows with the
evidence of the test split and with the ids of all vignettes.
"""

import dataclasses
import enum
import pathlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from schemas import directories, features
from schemas.errors import InputError, first_line
from schemas.evidence import Vocabulary
from schemas.triage import DECISION_LABELS
from trainer.data.arrays import damage
from trainer.data.split import split_warnings
from trainer.data.tfrecord import DataDirectory, read_records
from trainer.data.vignette import Vignette, VignetteError, from_fields

EXAMPLES = 5
"""Examples that an anomaly shows; its count includes all."""
ERROR, WARNING = SEVERITIES = ("error", "warning")
"""Training refuses data with errors; with warnings, figures cannot be trusted."""

Progress = Callable[[Iterable[bytes], str], Iterable[bytes]]
"""Passes records on and shows their number; the text is the name of their shard."""
_FEATURES = (features.VIGNETTE_ID, features.PRESENT, features.ABSENT, features.DECISIONS, features.TAGS)
_Evidence = tuple[frozenset[str], frozenset[str]]  # codes present and absent


class AnomalyKind(enum.Enum):
    """A kind of anomaly, in the order of reports: its severity, its name, and what to do about it."""

    INCOMPLETE = ERROR, "incomplete data directory", "Restore the files, or prepare the data again."
    DAMAGED = ERROR, "damaged shard", "Copy the shard again, or prepare the data again; the rest of it was not read."
    WRONG_NUMBER = ERROR, "vignettes missing or too many", "A shard is incomplete or foreign: prepare the data again."
    NO_TRAINING = ERROR, "no training vignettes", "Prepare the data with a smaller test split."
    NO_EXAMPLE = ERROR, "not a tf.Example", "Write the record as triage prepare does."
    SCHEMA = ERROR, "feature does not fit schema.pbtxt", "Write the feature in every record as schema.pbtxt states."
    NO_VIGNETTE = ERROR, "not a vignette", "Correct the vignette, and prepare the data again."
    DUPLICATE_ID = ERROR, "duplicate vignette id", "Give each vignette a unique id."
    SAME_EVIDENCE = (
        WARNING,
        "test vignette has the evidence of a training vignette",
        'Test figures will be too good: put equal vignettes into the same split (key "split").',
    )
    NO_TEST = WARNING, "no test vignettes", "There is nothing to evaluate on: raise --test-fraction."
    WEAK_SPLIT = (
        WARNING,
        "a split that is too small or uniform",
        "Collect more vignettes, of all colours, and from more clinicians.",
    )

    def __init__(self, severity: str, title: str, advice: str):
        self.severity = severity
        self.title = title
        self.advice = advice


class Place(NamedTuple):
    """The place of a vignette or a fault."""

    file: str
    record: int | None = None  # from 1 on
    vignette_id: str | None = None

    def __str__(self) -> str:
        record = "" if self.record is None else f" record {self.record}"
        if self.vignette_id is None:
            return f"{self.file}{record}"
        return f"{self.file}{record} ({self.vignette_id if self.vignette_id.isprintable() else repr(self.vignette_id)})"


@dataclasses.dataclass
class Anomaly:
    """All anomalies of a kind in a data directory, and the first few as examples."""

    kind: AnomalyKind
    count: int = 0
    examples: list[tuple[Place, str]] = dataclasses.field(default_factory=list)  # with details

    def add(self, place: Place, detail: str = "") -> None:
        """Adds one."""
        self.count += 1
        if self.count <= EXAMPLES:
            self.examples.append((place, detail))

    def to_dict(self) -> dict[str, Any]:
        """Returns it for a JSON file."""
        return {
            "severity": self.kind.severity,
            "name": self.kind.title,
            "count": self.count,
            "examples": [{**place._asdict(), "detail": detail or None} for place, detail in self.examples],
            "advice": self.kind.advice,
        }

    def __str__(self) -> str:
        examples = [f"{place}{': ' if detail else ''}{detail}" for place, detail in self.examples]
        more = [f"... and {self.count - len(examples):,} more"] if self.count > len(examples) else []
        title = f"{self.kind.severity}: {self.kind.title}: {self.count:,}"
        return "\n    ".join([title, *examples, *more, f"-> {self.kind.advice}"])


class Report(NamedTuple):
    """The result of checking a data directory."""

    vignettes: dict[str, int]  # by split
    anomalies: list[Anomaly]

    def count(self, severity: str) -> int:
        """Returns the number of kinds of anomalies of a severity."""
        return sum(anomaly.kind.severity == severity for anomaly in self.anomalies)


def validate(path: pathlib.Path, progress: Progress = lambda records, shard: records) -> Report:
    """Checks a data directory.

    Raises:
        InputError: it is not a data directory, or its vocabulary cannot be read.
    """
    if not path.is_dir():
        raise InputError(f"{path}: no such data directory: run triage prepare to make one")
    check = _Check(Vocabulary.load(path / directories.VOCABULARY))
    test: dict[_Evidence, list[Place]] = {}
    for place, evidence in check.evidence(path, "test", progress):
        test.setdefault(evidence, []).append(place)
    for place, evidence in check.evidence(path, "train", progress):
        for same in test.pop(evidence, ()):
            check.add(AnomalyKind.SAME_EVIDENCE, same, f"like {place}")
    _check_counts(path, check)
    return Report(
        {split: check.vignettes[split] for split in directories.SPLITS},
        [check.anomalies[kind] for kind in AnomalyKind if kind in check.anomalies],
    )


class _Check:
    """Checks the records of a data directory one by one."""

    def __init__(self, vocabulary: Vocabulary):
        self._vocabulary = vocabulary
        self._first: dict[str, Place] = {}  # by vignette id
        self.anomalies: dict[AnomalyKind, Anomaly] = {}
        self.vignettes: Counter[str] = Counter()  # by split
        self.decisions: dict[str, Counter[str]] = {split: Counter() for split in directories.SPLITS}

    def add(self, kind: AnomalyKind, place: Place, detail: str = "") -> None:
        """Adds an anomaly."""
        self.anomalies.setdefault(kind, Anomaly(kind)).add(place, detail)

    def evidence(self, path: pathlib.Path, split: str, progress: Progress) -> Iterator[tuple[Place, _Evidence]]:
        """Checks the records of a split, yielding the evidence of those that are vignettes."""
        names = sorted(entry.name for entry in path.iterdir())
        for name in names:
            parts = directories.shard_parts(name)
            if parts is None or parts[0] != split:
                continue
            number = 0
            try:
                for number, record in enumerate(progress(read_records(path / name), name), start=1):
                    self.vignettes[split] += 1
                    place, vignette = self._vignette(record, Place(name, number))
                    if vignette is not None:
                        self.decisions[split].update(decision.label for decision in vignette.decisions)
                        yield place, (frozenset(vignette.present), frozenset(vignette.absent))
            except tf.errors.OpError as error:
                detail = f"{damage(number + 1, error)}; {number:,} records read"
                self.add(AnomalyKind.DAMAGED, Place(name), detail)

    def _vignette(self, record: bytes, place: Place) -> tuple[Place, Vignette | None]:
        """Returns the vignette in a record, None if there is none, with its place and id."""
        try:
            example = tf.train.Example.FromString(record).features.feature
        except Exception as error:  # protobuf implementations raise different classes
            self.add(AnomalyKind.NO_EXAMPLE, place, first_line(error))
            return place, None
        faults = list(_schema_faults(example))
        for fault in faults:
            self.add(AnomalyKind.SCHEMA, place, fault)
        if faults:
            return place, None
        fields: dict[str, Any] = {
            name: [value.decode(errors="backslashreplace") for value in example[name].bytes_list.value]
            for name in _FEATURES
            if name in example
        }
        [vignette_id] = fields[features.VIGNETTE_ID]
        fields[features.VIGNETTE_ID] = vignette_id
        place = place._replace(vignette_id=vignette_id)
        first = self._first.setdefault(vignette_id, place)
        if first is not place:
            self.add(AnomalyKind.DUPLICATE_ID, place, f"first at {first.file} record {first.record}")
        try:
            for code in (*fields[features.PRESENT], *fields[features.ABSENT]):
                if code not in self._vocabulary:  # a number is none, which only vignette files may have
                    raise VignetteError(self._vocabulary.unknown_message(code))
            return place, from_fields(fields, self._vocabulary)
        except VignetteError as error:
            self.add(AnomalyKind.NO_VIGNETTE, place, str(error))
            return place, None


def _check_counts(path: pathlib.Path, check: _Check) -> None:
    """Checks the numbers of vignettes and decisions of the splits, and whether their shards are all there."""
    for split, kind in (("train", AnomalyKind.NO_TRAINING), ("test", AnomalyKind.NO_TEST)):
        if not check.vignettes[split]:
            check.add(kind, Place(split))
    found = {
        split: {"vignettes": check.vignettes[split], "decisions": {each: counts[each] for each in DECISION_LABELS}}
        for split, counts in check.decisions.items()
    }
    for warning in split_warnings(found):
        check.add(AnomalyKind.WEAK_SPLIT, Place(path.name), warning)
    try:
        stated = DataDirectory.open(path).stats["splits"]
    except InputError as error:
        check.add(AnomalyKind.INCOMPLETE, Place(path.name), str(error))
        return
    for split, count in check.vignettes.items():
        if count != stated[split]["vignettes"]:
            detail = f"{count} vignettes, {directories.STATS} says {stated[split]['vignettes']}"
            check.add(AnomalyKind.WRONG_NUMBER, Place(split), detail)


def _schema_faults(example: Mapping[str, tf.train.Feature]) -> Iterator[str]:
    """Yields why features do not fit schemas/vignette.pbtxt, as far as `from_fields` does not say so; others may be."""
    for name in _FEATURES:
        kind = example[name].WhichOneof("kind") if name in example else None  # without a list it is missing
        if kind is None and name != features.TAGS:
            yield f"{name}: missing"
        elif kind not in (None, "bytes_list"):
            yield f"{name}: {kind}, expected bytes_list"
        elif name == features.VIGNETTE_ID and len(example[name].bytes_list.value) != 1:
            yield f"{name}: {len(example[name].bytes_list.value)} values, expected 1"
