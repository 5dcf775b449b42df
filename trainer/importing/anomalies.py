"""The anomalies of a data directory, their severity, and what to do about each."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

EXAMPLES = 5
"""Examples that an anomaly shows; its count includes all."""


class Severity(enum.IntEnum):
    """Training refuses data with errors; with warnings, figures cannot be trusted; notes can be ignored."""

    ERROR = 0
    WARNING = 1
    NOTE = 2

    @property
    def label(self) -> str:
        """Such as "error"."""
        return self.name.lower()


VIGNETTES, TEST_VIGNETTES = "vignettes", "test vignettes"


class Kind(enum.Enum):
    """A kind of anomaly, in the order of reports: its name, severity, unit, and advice."""

    NOT_OPENED = (
        "incomplete data directory",
        Severity.ERROR,
        "directories",
        "Restore the files, or prepare the data again.",
    )
    DAMAGED_SHARD = (
        "damaged shard",
        Severity.ERROR,
        "shards",
        "Copy the shard again, or prepare the data again; the rest of it was not read.",
    )
    WRONG_NUMBER = (
        "vignettes missing or too many",
        Severity.ERROR,
        "splits",
        "A shard is incomplete or does not belong here: prepare the data again.",
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
        "The record was written by another program: write it as triage prepare does.",
    )
    UNKNOWN_FEATURE = (
        "feature not in schema",
        Severity.ERROR,
        VIGNETTES,
        "Remove the feature, or spell it as in schema.pbtxt.",
    )
    WRONG_TYPE = (
        "wrong type",
        Severity.ERROR,
        VIGNETTES,
        "Write the feature with its type in schema.pbtxt.",
    )
    MISSING_FEATURE = (
        "missing feature",
        Severity.ERROR,
        VIGNETTES,
        "Write the feature in every record, as an empty list if it has no values.",
    )
    WRONG_COUNT = (
        "wrong number of values",
        Severity.ERROR,
        VIGNETTES,
        "Write the number of values that schema.pbtxt states.",
    )
    OUTSIDE_DOMAIN = (
        "value outside domain",
        Severity.ERROR,
        VIGNETTES,
        "Write one of the values in schema.pbtxt, with the same spelling.",
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
        "Training counts at most 255 of a colour: check the source.",
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
        "Ask the author of the vignette which of the two is right.",
    )
    CODE_TWICE = (
        "code twice",
        Severity.ERROR,
        VIGNETTES,
        "Keep one of them.",
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
        "Give each vignette a unique id.",
    )
    SAME_EVIDENCE = (
        "test vignette has the evidence of a training vignette",
        Severity.WARNING,
        TEST_VIGNETTES,
        'Test figures are too good: put equal vignettes into the same split (key "split").',
    )
    NEAR_DUPLICATE = (
        "test vignette differs from a training vignette in one piece of evidence",
        Severity.WARNING,
        TEST_VIGNETTES,
        'Test figures may be too good: put variants of a vignette into the same split (key "split").',
    )
    ONLY_IN_TEST = (
        "evidence in test, never in training",
        Severity.WARNING,
        "codes",
        "An agent cannot learn its meaning: add training vignettes with it.",
    )
    NO_TEST = (
        "no test vignettes",
        Severity.WARNING,
        "splits",
        "There is nothing to evaluate on: raise --test-fraction.",
    )
    FEW_TEST_VIGNETTES = (
        "few test vignettes",
        Severity.WARNING,
        "splits",
        "Raise --test-fraction, or collect more vignettes.",
    )
    ONE_COLOUR = (
        "decisions of one colour only",
        Severity.WARNING,
        "splits",
        "Add vignettes of other colours: an agent that always gives this one is always right here.",
    )
    MISSING_COLOUR = (
        "colour without cases",
        Severity.WARNING,
        "colours",
        "Add vignettes of this colour: an agent cannot learn it, and figures say nothing about it.",
    )
    SINGLE_DECISIONS = (
        "one decision for each vignette",
        Severity.WARNING,
        "splits",
        "Ask further clinicians: a single decision leaves no room for reasonable disagreement.",
    )
    CLASS_DRIFT = (
        "decisions differ between the splits",
        Severity.WARNING,
        "colours",
        "The test split has other patients than the training split: let triage prepare draw a stratified split.",
    )
    ONE_CLINICIAN = (
        "decisions of one clinician only",
        Severity.NOTE,
        VIGNETTES,
        "They say nothing about disagreement: if there are many, ask more clinicians.",
    )
    UNUSED_EVIDENCE = (
        "evidence never used",
        Severity.NOTE,
        "codes",
        "An agent cannot learn from it: consider removing it from the vocabulary.",
    )

    def __init__(self, title: str, severity: Severity, unit: str, advice: str):
        self.title = title
        self.severity = severity
        self.unit = unit
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


@dataclasses.dataclass(frozen=True)
class Anomaly:
    """One kind of anomaly in a data directory, or one for each `subject` (a feature, a split)."""

    kind: Kind
    subject: str
    count: int
    share: float | None  # of all vignettes or of all test vignettes; None for other units
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
    """Collects anomalies: all of the counts, and a few examples."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[Kind, str], _Tally] = {}

    def add(self, kind: Kind, place: Place, detail: str = "", subject: str = "", count: int = 1) -> None:
        """Adds an anomaly, or `count` of them with one place; keeps the first `EXAMPLES` as examples."""
        tally = self._tallies.setdefault((kind, subject), _Tally())
        tally.count += count
        if len(tally.examples) < EXAMPLES:
            tally.examples.append((place, detail))

    def anomalies(self, totals: Mapping[str, int]) -> list[Anomaly]:
        """Returns the anomalies, errors first.

        Args:
            totals: the number of each unit, for the shares.
        """
        order = {kind: (kind.severity, position) for position, kind in enumerate(Kind)}
        tallies = sorted(self._tallies.items(), key=lambda item: (order[item[0][0]], item[0][1]))
        return [
            Anomaly(
                kind,
                subject,
                tally.count,
                tally.count / totals[kind.unit] if totals.get(kind.unit) else None,
                tuple(tally.examples),
            )
            for (kind, subject), tally in tallies
        ]
