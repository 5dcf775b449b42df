"""Danger signs computed from a mixture made by hand."""

import numpy as np
import pytest

from schemas.evidence import Evidence, Vocabulary
from trainer.graph.danger_signs import compute
from trainer.graph.mixture import Mixture


def _mixture(urgent, harmless):
    """Half of the patients would be unsafe with Green and have a code as `urgent` says; the others as `harmless`."""
    present = np.array([urgent, harmless], np.float32)
    truths = np.full([2, 8], 0.5, np.float32)
    truths[:, 6] = 0.0, 1.0  # P(safe) of Green
    return Mixture(np.log([0.5, 0.5]).astype(np.float32), present, truths, np.full_like(present, 1e-6))


def _flagged(code, kind="symptom", **more):
    return Evidence(code, kind, code, f"{code}?", red_flag="yes", **more)


def test_the_most_distinctive_flags_of_urgent_patients_come_first():
    """Breathlessness sets them apart by .9 ln(.9 / .5) = .53 nats, fainting by .4 ln(.4 / .25) = .19.

    Pallor does by .11 ln(.11 / .1) = .01, and thirst is rarer in urgent patients. A yes to the cough says nothing.
    """
    vocabulary = Vocabulary(
        [Evidence("cough", "symptom", "c", "c?"), *map(_flagged, ("faint", "breathless", "pale", "thirsty"))]
    )
    signs = compute(_mixture([0.5, 0.4, 0.9, 0.11, 0.1], [0.5, 0.1, 0.1, 0.09, 0.3]), vocabulary)
    assert signs.groups["cough"] == (("breathless", "faint"),)
    # Among those who faint, as among all, only class 0 is urgent; a sign is not asked of who came with it.
    assert signs.groups["faint"] == (("breathless",),)


@pytest.mark.parametrize(
    "sign",
    [
        Evidence("sign", "symptom", "s", "s?"),  # no red flag
        _flagged("sign", instrument="meter"),
        _flagged("sign", parent="rash"),  # a special kind of what a cough leaves open
        _flagged("sign", "risk_factor", exclusive="age"),
    ],
    ids=["no red flag", "takes an instrument", "special kind", "age"],
)
def test_what_is_no_sign_of_a_complaint(sign):
    codes = [Evidence("cough", "symptom", "c", "c?"), Evidence("rash", "symptom", "r", "r?"), sign]
    vocabulary = Vocabulary([*codes, _flagged("old", "risk_factor", exclusive="age")])
    signs = compute(_mixture([0.5, 0.5, 0.9, 0.5], [0.5, 0.5, 0.1, 0.5]), vocabulary)
    assert "cough" not in signs.groups
    assert ("rash" in signs.groups) == (sign.parent == "rash"), "who has the rash is asked about its kind"


def test_a_complaint_is_a_symptom_and_has_six_signs_at_most():
    flags = [_flagged(f"flag_{number}") for number in range(8)]
    complaints = [Evidence("cough", "symptom", "c", "c?"), Evidence("smoker", "risk_factor", "s", "s?")]
    likely = [0.2 + 0.1 * number for number in range(8)]
    signs = compute(_mixture([0.5, 0.5, *likely], [0.5, 0.5, *[0.1] * 8]), Vocabulary([*complaints, *flags]))
    assert signs.groups["cough"] == (tuple(f"flag_{number}" for number in (7, 6, 5, 4, 3, 2)),)
    assert "smoker" not in signs.groups
