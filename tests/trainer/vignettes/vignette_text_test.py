import pytest

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from schemas.triage import Action
from trainer.vignettes.vignette import Vignette
from trainer.vignettes.vignette_text import vignette_text

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
        Evidence("kidneys", "risk_factor", "Long-term kidney disease", "Are your kidneys ill?"),
    ]
)
RED, YELLOW, GREEN = Action.RED, Action.YELLOW, Action.GREEN


def test_patient_then_what_is_there_then_what_is_not_then_the_decisions():
    vignette = Vignette("v1", ("cough", "old", "fever", "male"), ("hiv", "xray"), (GREEN, YELLOW, YELLOW))
    assert vignette_text(vignette, VOCABULARY) == (
        "Patient: Age over 65, male sex. No HIV infection.\n"
        "Cough, fever over 39 °C.\n"
        "No X-ray changes.\n"
        "3 clinicians: Yellow, Yellow, Green (vignette v1)"
    )


@pytest.mark.parametrize(
    ("present", "absent", "lines"),
    [
        (("cough",), (), ["Patient: no risk factors stated.", "Cough."]),
        ((), ("fever", "cough"), ["Patient: no risk factors stated.", "No fever over 39 °C, no cough."]),
        ((), ("old",), ["Patient: No age over 65."]),
        ((), ("kidneys",), ["Patient: No long-term kidney disease."]),
        (("cough", "hiv"), (), ["Patient: HIV infection.", "Cough."]),
    ],
)
def test_what_a_vignette_does_not_state_has_no_line(present, absent, lines):
    text = vignette_text(Vignette("v", present, absent, (RED,)), VOCABULARY)
    assert text.splitlines() == [*lines, "1 clinician: Red (vignette v)"]


def test_names_with_commas_stay_one():
    text = vignette_text(Vignette("v", ("pain", "cough"), (), (RED,)), VOCABULARY)
    assert text.splitlines()[1] == "Pain, at night; cough."


def test_a_name_that_is_the_question_gets_an_answer():
    text = vignette_text(Vignette("v", ("cough", "dizzy"), (), (RED,)), VOCABULARY)
    assert text.splitlines()[1:3] == ["Cough.", "Do you feel dizzy? Yes."]
    text = vignette_text(Vignette("v", ("cough",), ("dizzy",), (RED,)), VOCABULARY)
    assert text.splitlines()[1:3] == ["Cough.", "Do you feel dizzy? No."]


def test_a_code_of_another_vocabulary_is_an_error():
    with pytest.raises(InputError, match="unknown evidence code 'rash'"):
        vignette_text(Vignette("v", ("rash",), (), (RED,)), VOCABULARY)
