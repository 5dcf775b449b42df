"""The cases that a version was made for, with which `triage monitor` compares those that it serves."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from schemas.errors import InputError
from schemas.text_file import read_text
from schemas.triage import DECISION_LABELS

FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Reference:
    """Counts of cases at their triage decision; as expectations they need not be whole numbers.

    Attributes:
        source: where the counts come from, for readers.
        cases: number of independent cases, above 0.
        present: number of cases in which each piece of evidence is known to be present; 0 if not listed.
        absent: the same for absent.
        urgencies: number of cases with each triage decision of the version; empty if no version was asked.
        pieces: number of cases by known pieces of evidence; empty if not recorded.
    """

    source: str
    cases: int
    present: Mapping[str, float]
    absent: Mapping[str, float]
    urgencies: Mapping[str, float] = dataclasses.field(default_factory=dict)
    pieces: Mapping[int, float] = dataclasses.field(default_factory=dict)

    def to_json(self) -> str:
        """Returns the text of the file that `load` reads."""
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def load(cls, path: pathlib.Path) -> "Reference":
        """Reads what `to_json` wrote.

        Raises:
            InputError: the file cannot be read or is not a reference.
        """
        text = read_text(path)
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: not JSON: {error}") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise InputError(f"{path}: expected a reference of format {FORMAT}: export the model again with --data DIR")
        try:
            reference = cls(
                source=str(content["source"]),
                cases=int(content["cases"]),
                present=_counts(content["present"]),
                absent=_counts(content["absent"]),
                urgencies=_counts(content["urgencies"]),
                pieces={int(number): count for number, count in _counts(content["pieces"]).items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"{path}: not a reference: {error}: export the model again with --data DIR") from error
        if reference.cases < 1 or not set(reference.urgencies) <= set(DECISION_LABELS):
            raise InputError(f"{path}: not a reference: expected at least one case, and the known triage decisions")
        return reference


def _counts(content: Mapping[str, Any]) -> dict[str, float]:
    counts = {str(key): float(value) for key, value in content.items()}
    if not all(0 <= count < float("inf") for count in counts.values()):
        raise ValueError("a count is negative or not a number")
    return counts
