"""Checks the records of a data directory one by one, as training would."""

import pathlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import tensorflow as tf

from schemas import features
from schemas.evidence import Vocabulary
from schemas.triage import DECISION_LABELS
from trainer.importing.anomalies import Findings, Kind, Place
from trainer.importing.feature_schema import SchemaCheck
from trainer.importing.near_duplicates import State
from trainer.importing.split_comparison import SplitTally
from trainer.vignettes.arrays import damage
from trainer.vignettes.state import signed_codes
from trainer.vignettes.tfrecord import read_records
from trainer.vignettes.vignette import MAX_SAME_DECISIONS, shown

_COLUMNS = {label: column for column, label in enumerate(DECISION_LABELS)}

Progress = Callable[[Iterable[bytes], str], Iterable[bytes]]
"""Passes records on and shows their number; the text is the name of their shard."""


class CheckedRecord(NamedTuple):
    """A record that is a tf.Example."""

    place: Place
    state: State


class RecordCheck:
    """Checks the records of a data directory one by one.

    Args:
        vocabulary: the known evidence.
        schema: checks the form of the tf.Examples.
        findings: collects the faults.
    """

    def __init__(self, vocabulary: Vocabulary, schema: SchemaCheck, findings: Findings):
        self._schema = schema
        self._places: dict[str, str] = {}  # where each vignette id was first used
        self._findings = findings
        self._vocabulary = vocabulary

    def records(self, shards: Iterable[pathlib.Path], tally: SplitTally, progress: Progress) -> Iterator[CheckedRecord]:
        """Checks the records of a split, yielding those with known evidence."""
        for shard in shards:
            number = 0
            try:
                for number, serialized in enumerate(progress(read_records(shard), shard.name), start=1):
                    checked = self._record(serialized, Place(shard.name, number), tally)
                    if checked is not None and checked.state:
                        yield checked
            except tf.errors.OpError as error:
                detail = f"{damage(shard, number + 1, error)}; {number:,} records read"
                self._findings.add(Kind.DAMAGED_SHARD, Place(shard.name), detail)

    def _record(self, serialized: bytes, place: Place, tally: SplitTally) -> CheckedRecord | None:
        try:
            example = tf.train.Example.FromString(serialized)
        except Exception as error:  # protobuf implementations raise different classes
            self._findings.add(Kind.NO_EXAMPLE, place, (str(error).splitlines() or [""])[0])
            tally.add((), (), place)
            return None
        vignette_id = next(iter(_texts(example, features.VIGNETTE_ID) or ()), None)
        place = place._replace(vignette_id=vignette_id)
        self._schema.add(example, place)
        if vignette_id is not None:
            if vignette_id in self._places:
                self._findings.add(Kind.DUPLICATE_ID, place, f"first at {self._places[vignette_id]}")
            else:
                self._places[vignette_id] = f"{place.file} record {place.record}"
        present, absent = _texts(example, features.PRESENT), _texts(example, features.ABSENT)
        counts = self._decisions(example, place)
        tally.add((*(present or ()), *(absent or ())), counts, place)
        if present is None or absent is None:
            return None
        return CheckedRecord(place, self._state(present, absent, place))

    def _state(self, present: list[str], absent: list[str], place: Place) -> State:
        """Returns the signed codes; as in trainer.vignettes.state, unknown and contradictory codes are left out."""
        if not present and not absent:
            self._findings.add(Kind.NO_EVIDENCE, place)
        contradictory = set(present).intersection(absent)
        if contradictory:
            self._findings.add(Kind.CONTRADICTION, place, _listed(contradictory))
        unknown = {code for code in (*present, *absent) if code not in self._vocabulary}
        if unknown:
            self._findings.add(Kind.UNKNOWN_CODE, place, _listed(unknown))
        repeated = [codes for codes in (present, absent) if len(set(codes)) < len(codes)]
        twice = {code for codes in repeated for code, count in Counter(codes).items() if count > 1}
        if twice:
            self._findings.add(Kind.CODE_TWICE, place, _listed(twice))
        left_out = contradictory | unknown
        return tuple(sorted(signed_codes(set(present) - left_out, set(absent) - left_out, self._vocabulary)))

    def _decisions(self, example: tf.train.Example, place: Place) -> list[int]:
        """Returns the counts of Red, Yellow, Green, Blue; other words are outside of the schema's domain."""
        counts = [0] * len(_COLUMNS)
        labels = _texts(example, features.DECISIONS)
        if labels is None:
            return counts
        if not labels:
            self._findings.add(Kind.NO_DECISION, place)
        elif len(labels) == 1:
            self._findings.add(Kind.ONE_CLINICIAN, place, labels[0])
        for label in labels:
            column = _COLUMNS.get(label)
            if column is not None:
                counts[column] += 1
        if max(counts) > MAX_SAME_DECISIONS:
            self._findings.add(Kind.TOO_MANY_DECISIONS, place, str(max(counts)))
        return counts


def _texts(example: tf.train.Example, name: str) -> list[str] | None:
    """Returns the values of a feature, [] if it is missing; None if they are not byte strings."""
    feature = example.features.feature
    # Reading a missing key would add it.
    if name not in feature:
        return []
    if feature[name].WhichOneof("kind") not in ("bytes_list", None):
        return None
    return [value.decode(errors="backslashreplace") for value in feature[name].bytes_list.value]


def _listed(codes: Iterable[str]) -> str:
    return ", ".join(shown(code) for code in sorted(codes)[:3])
