"""The risks that a promise about safety can bound: of each, which patients it is about and what an error is.

Clinicians call a patient what most of them decided; of equally frequent decisions, the most urgent one.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Risk(NamedTuple):
    """The share of errors among some patients."""

    patients: str
    error: str


RISKS = {
    "red": Risk("patients whom clinicians call Red", "get a less urgent decision than Red"),
    "yellow": Risk("patients whom clinicians call Red or Yellow", "get Green or Blue"),
    "under": Risk("patients", "get a less urgent decision than any clinician gave"),
    "over": Risk("patients", "get a more urgent decision than any clinician gave"),
    "handed_over": Risk("patients", "are handed over to a person"),
}
"""By their names in `triage export --promise` and in the manifest."""


def percent(share: float) -> str:
    """Returns a level or a confidence in percent, not rounded: a rounded one would promise something else."""
    return f"{100 * share:.10g}%"


def statements(levels: Mapping[str, float]) -> list[str]:
    """Returns what levels promise, a sentence each."""
    return [
        f"At most {percent(level)} of {RISKS[name].patients} {RISKS[name].error}." for name, level in levels.items()
    ]


NOT_COVERED = (
    "patients unlike those of the vignettes, and other clinicians than theirs",
    "interviews that begin with more than one finding, whose questions somebody else chooses, or that are cut short",
    "interviews with instruments at hand (can_measure): the patients set apart were not asked questions that need one",
    "single patients, and groups among those counted here",
    "what a server or a caller changes: other safety rules, another operating point, answers that are overruled",
    "how urgent patients really were: errors are counted against the clinicians' decisions",
    "where it hands cases over: callers who do not ask for that, and cases handed over for other reasons",
)
"""What no promise is about."""
