"""The search for evidence by everyday words."""

import pytest

from schemas.evidence import Evidence
from serving.console.search import Search, words_of

ENTRIES = (
    Evidence("chest_pain", "symptom", "Chest pain", "Do you have pain in your chest?"),
    Evidence("chest_tightness", "symptom", "Chest tightness", "Does your chest feel tight?"),
    Evidence("headache", "symptom", "Headache", "Do you have a headache?"),
    Evidence("nausea", "symptom", "Nausea", "Do you feel sick?"),
    Evidence("fievre", "symptom", "Fièvre", "Avez-vous de la fièvre ?"),
    Evidence("smoker", "risk_factor", "Smoker", "Do you smoke?"),
)


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("headache", "headache"),
        ("haedache", "headache"),  # two letters exchanged
        ("HEAD", "headache"),  # the beginning of a word
        ("chest_pain", "chest_pain"),  # the code
        ("do you feel sick", "nausea"),  # the question
        ("my chest hurts", "chest_pain"),  # another word for pain; "my" is unknown and does not count
        ("chst tightnes", "chest_tightness"),
        ("fievre", "fievre"),  # without its accent
        ("smoking", "smoker"),
    ],
)
def test_people_find_what_they_mean(typed, first):
    assert Search(ENTRIES).find(typed)[0].code == first


@pytest.mark.parametrize("typed", ["", "  ?", "zebra", "x"])
def test_what_resembles_nothing_gives_nothing(typed):
    assert Search(ENTRIES).find(typed) == []


def test_words_that_nearly_all_entries_have_do_not_decide():
    # "do", "you" and "have" are in the questions of three others, "pain" only in that of chest pain.
    assert Search(ENTRIES).find("do you have pain")[0].code == "chest_pain"
    assert "nausea" not in [entry.code for entry in Search(ENTRIES).find("do you have pain")]


def test_short_words_are_not_guessed():
    entries = (Evidence("arm", "symptom", "Arm", "Arm?"), Evidence("ear", "symptom", "Ear", "Ear?"))
    assert Search(entries).find("eam") == []


def test_results_are_limited_and_long_input_is_cut():
    assert len(Search(ENTRIES).find("chest", most=1)) == 1
    assert Search(ENTRIES).find("headache " * 10_000)[0].code == "headache"


def test_words_have_neither_case_nor_accents():
    assert words_of("Où as-tu MAL ? (39 °C)") == ["ou", "as", "tu", "mal", "39", "c"]
