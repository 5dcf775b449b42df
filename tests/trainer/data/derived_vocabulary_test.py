import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from trainer.data import derived_vocabulary
from trainer.data.derived_vocabulary import CodeCollector, suggested_code


def collected(*codes):
    collector = CodeCollector()
    for number, code in enumerate(codes, start=2):
        collector.add(code, f"in.csv: line {number}")
    return collector


def test_codes_stand_in_the_order_of_first_appearance_with_texts_made_of_them():
    vocabulary = collected("chest_pain", "smoker", "chest_pain", "ECG_change").vocabulary(["smoker"], "in.csv")

    assert list(vocabulary) == [
        Evidence("chest_pain", "symptom", "Chest pain", "Chest pain: is it present?"),
        Evidence("smoker", "risk_factor", "Smoker", "Smoker: does it apply?"),
        Evidence("ECG_change", "symptom", "ECG change", "ECG change: is it present?"),
    ]


def test_malformed_codes_are_passed_over():
    assert collected("a b", "c", "").vocabulary([], "in.csv").codes == ("c",)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ((), "in.csv: no evidence code"),
        (("Chest pain", ""), "in.csv: line 2: .*'chest_pain'$"),
    ],
)
def test_without_a_code_there_is_no_vocabulary(codes, message):
    with pytest.raises(InputError, match=message):
        collected(*codes).vocabulary([], "in.csv")


def test_an_unknown_risk_factor_is_an_error_with_the_nearest_code():
    with pytest.raises(InputError, match=r"--risk-factors: .*'smokr': .*smoker"):
        collected("smoker", "fever").vocabulary(["smokr"], "in.csv")


def test_a_column_of_free_text_is_noticed(monkeypatch):
    monkeypatch.setattr(derived_vocabulary, "MAX_DERIVED_CODES", 2)
    collector = collected("a", "b", "a")

    with pytest.raises(InputError, match=r"in\.csv: line 9: .* 2 .*--vocabulary"):
        collector.add("c", "in.csv: line 9")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Chest pain", "chest_pain"),
        ("chest  pain, acute", "chest_pain_acute"),
        (" (left) arm", "left)_arm"),
        ("SpO2 < 90%", "spo2_90"),
        ("Fi\u00e8vre \u00e9lev\u00e9e", "fi\u00e8vre_\u00e9lev\u00e9e"),
        ("cafe\u0301", "caf\u00e9"),  # normal form C
        ("a" * 200, "a" * 128),
        ("\u80f8\u306e\u75db\u307f \u6025", "\u80f8\u306e\u75db\u307f_\u6025"),
        ("?", None),
        ("", None),
        ("Code ", None),  # reserved
    ],
)
def test_a_code_is_suggested_for_text_that_is_none(text, code):
    assert suggested_code(text) == code


@given(st.lists(st.text(min_size=1, max_size=5).map(suggested_code).filter(bool), min_size=1, unique=True))
def test_a_derived_vocabulary_can_be_saved_and_loaded(codes):
    vocabulary = collected(*codes).vocabulary(codes[:1], "in.csv")

    assert Vocabulary.parse(vocabulary.to_csv(), "vocabulary.csv") == vocabulary
