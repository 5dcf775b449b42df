"""The risks that a promise about safety can bound: of each, which patients it is about and what an error is.

Clinicians call a patient what most of them decided; of equally frequent decisions, the most urgent one.
"""

from typing import NamedTuple


class Risk(NamedTuple):
    """The share of errors among some patients."""

    patients: str
    error: str


RISKS = {
    "red": Risk("patients whom clinicians call Red", "leave below Red"),
    "yellow": Risk("patients whom clinicians call Red or Yellow", "leave as Green or Blue"),
    "under": Risk("patients", "leave with a less urgent decision than any clinician gave"),
    "over": Risk("patients", "leave with a more urgent decision than any clinician gave"),
    "handed_over": Risk("patients", "are handed over to a person"),
}
"""By their names in `triage export --promise` and in the manifest."""
