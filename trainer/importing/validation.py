"""Checks a data directory from any source: its schema, its counts, and duplicates across its splits.

It goes on where `triage train` would stop at the first fault. Shards are read record by record; memory grows with the
evidence of the test split and with the ids of all vignettes.
"""

import dataclasses
import enum
import math
import pathlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from schemas import directories, features
from schemas.errors import InputError, first_line, shown
from schemas.evidence import Vocabulary
from schemas.triage import DECISION_LABELS
from trainer.vignettes.arrays import damage
from trainer.vignettes.split import split_warnings
from trainer.vignettes.tfrecord import DataDirectory, read_records
from trainer.vignettes.vignette import Vignette, VignetteError, from_fields

EXAMPLES = 5
"""Examples that an anomaly shows; its count includes all."""
ERROR, WARNING = SEVERITIES = ("error", "warning")
"""Training refuses data with errors; with warnings, figures cannot be trusted."""

Progress = Callable[[Iterable[bytes], str], Iterable[bytes]]
"""Passes records on and shows their number; the text is the name of their shard."""
_FEATURES = (features.VIGNETTE_ID, features.PRESENT, features.ABSENT, features.DECISIONS, features.TAGS)
_Evidence = tuple[frozenset[str], frozenset[str]]  # codes present and absent


class Kind(enum.Enum):
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
        'Test figures are too good: put equal vignettes into the same split (key "split").',
    )
    NO_TEST = WARNING, "no test vignettes", "There is nothing to evaluate on: raise --test-fraction."
    WEAK_SPLIT = (
        WARNING,
        "a split that says little",
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

    kind: Kind
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
        InputError: it is not a data directory, or its vocabulary or schema cannot be read.
    """
    if not path.is_dir():
        raise InputError(f"{path}: no such data directory: run triage prepare to make one")
    check = _Check(Vocabulary.load(path / directories.VOCABULARY), _load_schema(path / directories.DATA_SCHEMA))
    test: dict[_Evidence, list[Place]] = {}
    for place, evidence in check.evidence(path, "test", progress):
        test.setdefault(evidence, []).append(place)
    for place, evidence in check.evidence(path, "train", progress):
        for same in test.pop(evidence, ()):
            check.add(Kind.SAME_EVIDENCE, same, f"like {place}")
    _check_counts(path, check)
    return Report(
        {split: check.vignettes[split] for split in directories.SPLITS},
        [check.anomalies[kind] for kind in Kind if kind in check.anomalies],
    )


class _Check:
    """Checks the records of a data directory one by one."""

    def __init__(self, vocabulary: Vocabulary, schema: "Mapping[str, _Feature]"):
        self._vocabulary = vocabulary
        self._schema = schema
        self._first: dict[str, Place] = {}  # by vignette id
        self.anomalies: dict[Kind, Anomaly] = {}
        self.vignettes: Counter[str] = Counter()  # by split
        self.decisions: dict[str, Counter[str]] = {split: Counter() for split in directories.SPLITS}

    def add(self, kind: Kind, place: Place, detail: str = "") -> None:
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
                detail = f"{damage(path / name, number + 1, error)}; {number:,} records read"
                self.add(Kind.DAMAGED, Place(name), detail)

    def _vignette(self, record: bytes, place: Place) -> tuple[Place, Vignette | None]:
        """Returns the vignette in a record, None if there is none, with its place and id."""
        try:
            example = tf.train.Example.FromString(record).features.feature
        except Exception as error:  # protobuf implementations raise different classes
            self.add(Kind.NO_EXAMPLE, place, first_line(error))
            return place, None
        faults = [f"{shown(name)}: not in the schema" for name in example if name not in self._schema]
        for name, feature in self._schema.items():
            faults += feature.faults(example[name] if name in example else None)  # noqa: SIM401 - get() would add it
        for fault in faults:
            self.add(Kind.SCHEMA, place, fault)
        if faults:
            return place, None
        fields: dict[str, Any] = {
            name: [value.decode(errors="backslashreplace") for value in example[name].bytes_list.value]
            for name in _FEATURES
            if name in example
        }
        fields[features.VIGNETTE_ID] = vignette_id = next(iter(fields.get(features.VIGNETTE_ID, ())), None)
        place = place._replace(vignette_id=vignette_id)
        first = place if vignette_id is None else self._first.setdefault(vignette_id, place)
        if first is not place:
            self.add(Kind.DUPLICATE_ID, place, f"first at {first.file} record {first.record}")
        try:
            for code in (*fields.get(features.PRESENT, ()), *fields.get(features.ABSENT, ())):
                if code not in self._vocabulary:  # a number is none, which only vignette files may have
                    raise VignetteError(self._vocabulary.unknown_message(code))
            return place, from_fields(fields, self._vocabulary)
        except VignetteError as error:
            self.add(Kind.NO_VIGNETTE, place, str(error))
            return place, None


def _check_counts(path: pathlib.Path, check: _Check) -> None:
    """Checks the numbers of vignettes and decisions of the splits, and whether their shards are all there."""
    for split, kind in (("train", Kind.NO_TRAINING), ("test", Kind.NO_TEST)):
        if not check.vignettes[split]:
            check.add(kind, Place(split))
    found = {
        split: {"vignettes": check.vignettes[split], "decisions": {each: counts[each] for each in DECISION_LABELS}}
        for split, counts in check.decisions.items()
    }
    for warning in split_warnings(found):
        check.add(Kind.WEAK_SPLIT, Place(path.name), warning)
    try:
        stated = DataDirectory.open(path).stats["splits"]
    except InputError as error:
        check.add(Kind.INCOMPLETE, Place(path.name), str(error))
        return
    for split, count in check.vignettes.items():
        if count != stated[split]["vignettes"]:
            detail = f"{count} vignettes, {directories.STATS} says {stated[split]['vignettes']}"
            check.add(Kind.WRONG_NUMBER, Place(split), detail)


_LISTS = {
    schema_pb2.BYTES: "bytes_list",
    schema_pb2.INT: "int64_list",
    schema_pb2.FLOAT: "float_list",
}


@dataclasses.dataclass(frozen=True)
class _Feature:
    """What the schema requires of a feature."""

    name: str
    kind: str | None  # None: any
    required: bool
    bounds: tuple[float, float]  # of the number of values
    domain: frozenset[bytes] | None  # None: any value

    def faults(self, feature: tf.train.Feature | None) -> Iterator[str]:
        """Yields why a record's feature does not fit; None, and a feature without a list, are missing ones."""
        kind = None if feature is None else feature.WhichOneof("kind")
        if kind is None:
            if self.required:
                yield f"{self.name}: missing"
            return
        if self.kind not in (None, kind):
            yield f"{self.name}: {kind}, expected {self.kind}"
            return
        values = getattr(feature, kind).value
        least, most = self.bounds
        if not least <= len(values) <= most:
            yield f"{self.name}: {len(values)} values, expected {least} to {'any number' if most == math.inf else most}"
        if self.domain is not None and not self.domain.issuperset(values):
            foreign = next(value for value in values if value not in self.domain)
            yield f"{self.name}: value outside its domain: {shown(foreign.decode(errors='backslashreplace'))}"


def _load_schema(path: pathlib.Path) -> dict[str, _Feature]:
    """Reads a schema.pbtxt: type, presence, number of values and string domain of each feature.

    Raises:
        InputError: the file cannot be read, is not a schema, or names an unknown domain.
    """
    try:
        schema = text_format.Parse(path.read_text(encoding="utf-8"), schema_pb2.Schema())
    except OSError as error:
        raise InputError(f"{path}: cannot read the schema: {error.strerror or error}") from error
    except (text_format.ParseError, UnicodeDecodeError) as error:
        reason = first_line(error)
        raise InputError(f"{path}: not a TensorFlow Metadata schema: {reason}: prepare the data again") from error
    domains: dict[str, Sequence[str]] = {domain.name: domain.value for domain in schema.string_domain}
    for feature in schema.feature:
        if feature.HasField("domain") and feature.domain not in domains:
            raise InputError(f"{path}: feature {feature.name!r}: no string_domain is named {feature.domain!r}")
    return {feature.name: _feature(feature, domains) for feature in schema.feature}


def _feature(feature: schema_pb2.Feature, domains: Mapping[str, Sequence[str]]) -> _Feature:
    least, most = 0, math.inf
    if feature.HasField("value_count"):
        least = feature.value_count.min
        most = feature.value_count.max if feature.value_count.HasField("max") else math.inf
    if feature.HasField("shape"):
        least = most = math.prod(dim.size for dim in feature.shape.dim)
    values = domains[feature.domain] if feature.HasField("domain") else feature.string_domain.value or None
    return _Feature(
        name=feature.name,
        kind=_LISTS.get(feature.type),
        required=feature.presence.min_fraction == 1,
        bounds=(least, most),
        domain=None if values is None else frozenset(value.encode() for value in values),
    )
