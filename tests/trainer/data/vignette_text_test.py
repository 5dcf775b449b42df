import pytest

from schemas.evidence import Evidence, Vocabulary
from schemas.triage import Action
from trainer.data.vignette import Vignette, vignette_text

VOCABULARY = Vocabulary(
    [
        Evidence("fever", "symptom", "Fever over 39 °C", "Is it over 39 °C?"),
        Evidence("cough", "symptom", "Cough", "Do you cough?"),
        Evidence("xray", "symptom", "X-ray changes", "Has an X-ray shown anything?"),
        Evidence("pain", "symptom", "Pain, at night", "Does it hurt at night?"),
        Evidence("dizzy", "symptom", "Do you feel dizzy", "Do you feel dizzy?"),
        Evidence("male", "risk_factor", "Male sex", "Is the patient male?"),
        Evidence("old", "risk_factor", "Age over 65", "Older than 65?"),
        Evidence("hiv", "risk_factor", "HIV infection", "Do you have HIV?"),
    ]
)
RED, YELLOW, GREEN = Action.RED, Action.YELLOW, Action.GREEN


def test_patient_then_what_is_there_then_what_is_not_then_the_decisions():
    vignette = Vignette("v1", ("cough", "old", "fever", "male"), ("hiv", "xray"), (GREEN, YELLOW, YELLOW))
    assert vignette_text(vignette, VOCABULARY) == (
        "Patient: Age over 65, Male sex\n"
        "Patient without: HIV infection\n"
        "Present: Cough, Fever over 39 °C\n"
        "Absent: X-ray changes\n"
        "3 clinicians: Yellow, Yellow, Green (vignette v1)"
    )


@pytest.mark.parametrize(
    ("present", "absent", "lines"),
    [
        (("cough",), (), ["Present: Cough"]),
        ((), ("fever", "cough"), ["Absent: Fever over 39 °C, Cough"]),
        ((), ("old",), ["Patient without: Age over 65"]),
        (("cough", "hiv"), (), ["Patient: HIV infection", "Present: Cough"]),
        (("pain", "cough"), (), ["Present: Pain, at night; Cough"]),  # a name with a comma stays one
        (("cough",), ("dizzy",), ["Present: Cough", "Absent: Do you feel dizzy"]),
    ],
)
def test_what_a_vignette_does_not_state_has_no_line(present, absent, lines):
    text = vignette_text(Vignette("v", present, absent, (RED,)), VOCABULARY)
    assert text.splitlines() == [*lines, "1 clinician: Red (vignette v)"]
