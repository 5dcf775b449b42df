"""Checks a data directory from any source, continuing where `triage train` would stop at the first fault.

Shards are read record by record. Memory use grows with the test split, and with the ids of all.
"""

import pathlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from schemas import directories
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from trainer.importing.anomalies import TEST_VIGNETTES, VIGNETTES, Anomaly, Findings, Kind, Place, Severity
from trainer.importing.feature_schema import SchemaCheck, load_schema
from trainer.importing.near_duplicates import NearDuplicates
from trainer.importing.record_check import CheckedRecord, Progress, RecordCheck
from trainer.importing.split_comparison import SplitTally, check_sizes, compare
from trainer.vignettes.tfrecord import DataDirectory

_STATES_AT_ONCE = 20_000


class Report(NamedTuple):
    """The result of checking a data directory."""

    vignettes: dict[str, int]  # by split
    anomalies: list[Anomaly]

    def count(self, severity: Severity) -> int:
        """Returns the number of anomalies of a severity."""
        return sum(anomaly.kind.severity is severity for anomaly in self.anomalies)


def validate(path: pathlib.Path, progress: Progress = lambda records, shard: records) -> Report:
    """Checks a data directory.

    Raises:
        InputError: it is not a data directory, or its vocabulary or schema cannot be read.
    """
    if not path.is_dir():
        raise InputError(f"{path}: no such data directory: run triage prepare to make one")
    vocabulary = Vocabulary.load(path / directories.VOCABULARY)
    findings = Findings()
    tallies = {split: SplitTally() for split in directories.SPLITS}
    schema_check = SchemaCheck(load_schema(path / directories.DATA_SCHEMA), findings)
    check = RecordCheck(vocabulary, schema_check, findings)
    # The smaller split is held in memory, the larger one is streamed.
    test = list(check.records(_shards(path, "test"), tallies["test"], progress))
    train = check.records(_shards(path, "train"), tallies["train"], progress)
    _report_near_duplicates(test, train, len(vocabulary), findings)
    schema_check.finish()
    compare(tallies["train"], tallies["test"], vocabulary, findings)
    check_sizes(tallies, findings)
    vignettes = {split: tally.vignettes for split, tally in tallies.items()}
    _check_sizes(path, vignettes, findings)
    totals = {VIGNETTES: sum(vignettes.values()), TEST_VIGNETTES: vignettes["test"]}
    return Report(vignettes, findings.anomalies(totals))


def _shards(path: pathlib.Path, split: str) -> list[pathlib.Path]:
    """Returns the shards of a split; `_check_sizes` finds out whether they are complete."""
    entries = [(entry, directories.shard_parts(entry.name)) for entry in sorted(path.iterdir())]
    return [entry for entry, parts in entries if parts and parts[0] == split]


def _check_sizes(path: pathlib.Path, vignettes: dict[str, int], findings: Findings) -> None:
    if not vignettes["train"]:
        findings.add(Kind.NOTHING_TO_TRAIN_ON, Place("train"))
    if not vignettes["test"]:
        findings.add(Kind.NO_TEST, Place("test"))
    try:
        stated = DataDirectory.open(path).stats["splits"]
    except InputError as error:
        findings.add(Kind.NOT_OPENED, Place(path.name), str(error))
        return
    for split, count in vignettes.items():
        if count != stated[split]["vignettes"]:
            detail = f"{count} vignettes, {directories.STATS} says {stated[split]['vignettes']}"
            findings.add(Kind.WRONG_NUMBER, Place(split), detail)


def _report_near_duplicates(
    test: list[CheckedRecord], train: Iterable[CheckedRecord], evidence_count: int, findings: Findings
) -> None:
    """Consumes `train` with a part of it in memory."""
    index = NearDuplicates([checked.state for checked in test], evidence_count)
    same: dict[int, Place] = {}
    apart: dict[int, Place] = {}
    for part in _parts(train):
        matches = index.find([checked.state for checked in part])
        for places, positions in ((same, matches.same), (apart, matches.one_apart)):
            for row in (positions >= 0).nonzero()[0]:
                places.setdefault(int(row), part[positions[row]].place)
    for row, checked in enumerate(test):
        if row in same:
            findings.add(Kind.SAME_EVIDENCE, checked.place, f"like {same[row]}")
        elif row in apart:
            findings.add(Kind.NEAR_DUPLICATE, checked.place, f"like {apart[row]}")


def _parts(items: Iterable[CheckedRecord]) -> Iterator[list[CheckedRecord]]:
    part: list[CheckedRecord] = []
    for item in items:
        part.append(item)
        if len(part) == _STATES_AT_ONCE:
            yield part
            part = []
    yield part
