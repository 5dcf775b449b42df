"""What can be wrong with a data directory, how bad each fault is, and what to do about it."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

EXAMPLES = 5
"""Examples that an anomaly shows; its count has all."""


class Severity(enum.IntEnum):
    """How bad an anomaly is: training refuses errors, should not trust figures with warnings, may ignore notes."""

    ERROR = 0
    WARNING = 1
    NOTE = 2

    @property
    def label(self) -> str:
        """Such as "error"."""
        return self.name.lower()


VIGNETTES, TEST_VIGNETTES = "vignettes", "test vignettes"


class Kind(enum.Enum):
    """A kind of anomaly: its name, its severity, what is counted, and what to do. In the order of reports."""

    NOT_OPENED = (
        "not a whole data directory",
        Severity.ERROR,
        "directories",
        "Put the files back, or prepare the data again.",
    )
    DAMAGED_SHARD = (
        "damaged shard",
        Severity.ERROR,
        "shards",
        "Copy the shard anew, or prepare the data again; its rest was not read.",
    )
    WRONG_NUMBER = (
        "vignettes missing or too many",
        Severity.ERROR,
        "splits",
        "A shard is not whole or foreign: prepare the data again.",
    )
    NOTHING_TO_TRAIN_ON = (
        "no training vignettes",
        Severity.ERROR,
        "splits",
        "Prepare the data with a smaller test split.",
    )
    NO_EXAMPLE = (
        "not a tf.Example",
        Severity.ERROR,
        VIGNETTES,
        "Another program wrote the record: write it as triage prepare does.",
    )
    UNKNOWN_FEATURE = (
        "feature not in schema",
        Severity.ERROR,
        VIGNETTES,
        "Take the feature out, or spell it as schema.pbtxt does.",
    )
    WRONG_TYPE = (
        "wrong type",
        Severity.ERROR,
        VIGNETTES,
        "Write the feature with the type that schema.pbtxt states.",
    )
    MISSING_FEATURE = (
        "missing feature",
        Severity.ERROR,
        VIGNETTES,
        "Write the feature into every record, as an empty list where it is empty.",
    )
    WRONG_COUNT = (
        "wrong number of values",
        Severity.ERROR,
        VIGNETTES,
        "Write as many values as schema.pbtxt states.",
    )
    OUTSIDE_DOMAIN = (
        "value outside domain",
        Severity.ERROR,
        VIGNETTES,
        "Write one of the values that schema.pbtxt lists, spelt like that.",
    )
    NO_DECISION = (
        "no decision",
        Severity.ERROR,
        VIGNETTES,
        "Leave the vignette out, or have a clinician triage it.",
    )
    TOO_MANY_DECISIONS = (
        "too many equal decisions",
        Severity.ERROR,
        VIGNETTES,
        "Training counts up to 255 of a colour: check the source.",
    )
    NO_EVIDENCE = (
        "no evidence",
        Severity.ERROR,
        VIGNETTES,
        "Leave the vignette out: there is nothing to reveal.",
    )
    CONTRADICTION = (
        "present and absent",
        Severity.ERROR,
        VIGNETTES,
        "Ask who wrote the vignette which of the two is meant.",
    )
    CODE_TWICE = (
        "code twice",
        Severity.ERROR,
        VIGNETTES,
        "Keep one of the two.",
    )
    UNKNOWN_CODE = (
        "code not in vocabulary",
        Severity.ERROR,
        VIGNETTES,
        "Add the code to the vocabulary, or correct it, and prepare again.",
    )
    DUPLICATE_ID = (
        "duplicate vignette id",
        Severity.ERROR,
        VIGNETTES,
        "Give each vignette an id of its own.",
    )
    SAME_EVIDENCE = (
        "test vignette has the evidence of a training vignette",
        Severity.WARNING,
        TEST_VIGNETTES,
        'Test figures are too good: put equal vignettes into one split (the key "split").',
    )
    NEAR_DUPLICATE = (
        "test vignette differs from a training vignette in one piece of evidence",
        Severity.WARNING,
        TEST_VIGNETTES,
        'Test figures may be too good: put variants of a vignette into one split (the key "split").',
    )
    ONLY_IN_TEST = (
        "evidence in test, never in training",
        Severity.WARNING,
        "codes",
        "An agent cannot learn what it means: add training vignettes with it.",
    )
    NO_TEST = (
        "no test vignettes",
        Severity.WARNING,
        "splits",
        "Nothing to evaluate on: raise --test-fraction.",
    )
    CLASS_DRIFT = (
        "decisions differ between the splits",
        Severity.WARNING,
        "colours",
        "Test figures are of other patients than the training's: draw the split by triage prepare, it is stratified.",
    )
    ONE_CLINICIAN = (
        "decisions of one clinician only",
        Severity.NOTE,
        VIGNETTES,
        "They say nothing about disagreement: ask further clinicians if these are many.",
    )
    UNUSED_EVIDENCE = (
        "evidence never used",
        Severity.NOTE,
        "codes",
        "An agent may ask for it but cannot learn from it: it may be left out.",
    )

    def __init__(self, title: str, severity: Severity, unit: str, advice: str):
        self.title = title
        self.severity = severity
        self.unit = unit
        self.advice = advice


class Place(NamedTuple):
    """Where a vignette stands."""

    file: str
    record: int | None = None  # from 1 on
    vignette_id: str | None = None

    def __str__(self) -> str:
        record = "" if self.record is None else f" record {self.record}"
        if self.vignette_id is None:
            return f"{self.file}{record}"
        return f"{self.file}{record} ({self.vignette_id if self.vignette_id.isprintable() else repr(self.vignette_id)})"


@dataclasses.dataclass(frozen=True)
class Anomaly:
    """One kind of anomaly of a data directory, or one for each `subject` (a feature, a split)."""

    kind: Kind
    subject: str
    count: int
    share: float | None  # of all vignettes, or of all test vignettes; None where other things are counted
    examples: tuple[tuple[Place, str], ...]  # places and details

    def to_dict(self) -> dict[str, Any]:
        """Returns the anomaly for a JSON file."""
        return {
            "severity": self.kind.severity.label,
            "name": self.kind.title,
            "subject": self.subject or None,
            "count": self.count,
            "unit": self.kind.unit,
            "share": self.share,
            "examples": [{**place._asdict(), "detail": detail or None} for place, detail in self.examples],
            "advice": self.kind.advice,
        }

    def __str__(self) -> str:
        share = "" if self.share is None else f" ({self.share:.1%})"
        title = f"{self.kind.severity.label}: {self.kind.title}{f' [{self.subject}]' if self.subject else ''}"
        examples = [f"{place}{': ' if detail else ''}{detail}" for place, detail in self.examples]
        more = [f"... and {self.count - len(examples):,} more"] if self.count > len(examples) else []
        lines = [f"{title}: {self.count:,} {self.kind.unit}{share}", *examples, *more, f"-> {self.kind.advice}"]
        return "\n    ".join(lines)


class _Tally:
    def __init__(self) -> None:
        self.count = 0
        self.examples: list[tuple[Place, str]] = []


class Findings:
    """Collects anomalies: all counts, a few examples."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[Kind, str], _Tally] = {}

    def add(self, kind: Kind, place: Place, detail: str = "", subject: str = "", count: int = 1) -> None:
        """Takes one anomaly, or `count` of which only one has a place; the first `EXAMPLES` keep theirs."""
        tally = self._tallies.setdefault((kind, subject), _Tally())
        tally.count += count
        if len(tally.examples) < EXAMPLES:
            tally.examples.append((place, detail))

    def anomalies(self, totals: Mapping[str, int]) -> list[Anomaly]:
        """Returns what was found, errors first.

        Args:
            totals: how many there are of a unit, for the shares.
        """
        order = {kind: (kind.severity, position) for position, kind in enumerate(Kind)}
        found = sorted(self._tallies.items(), key=lambda item: (order[item[0][0]], item[0][1]))
        return [
            Anomaly(
                kind,
                subject,
                tally.count,
                tally.count / totals[kind.unit] if totals.get(kind.unit) else None,
                tuple(tally.examples),
            )
            for (kind, subject), tally in found
        ]
