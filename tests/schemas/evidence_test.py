import hashlib
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import InputError
from schemas.evidence import COLUMNS, KINDS, MAX_CODE_LENGTH, Evidence, StateEncoder, Vocabulary, code_fault, pad_rows


def evidence(code, kind="symptom", name="A name", question="A question?"):
    return Evidence(code, kind, name, question)


LINE_OF_TEXT = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"])).map(str.strip).filter(bool)
CODES = st.from_regex(r"[a-zA-Z0-9][\w.@:/+()\-']{0,20}", fullmatch=True).filter(
    lambda code: code_fault(code) is None and code != COLUMNS[0]
)
PHRASES = st.lists(LINE_OF_TEXT.filter(lambda text: "|" not in text and text.strip("! ")), max_size=2).map(tuple)
OPTIONAL_TEXT = st.just("") | LINE_OF_TEXT
VOCABULARIES = st.lists(
    st.builds(
        Evidence,
        CODES,
        st.sampled_from(KINDS),
        LINE_OF_TEXT,
        LINE_OF_TEXT,
        PHRASES,
        exclusive=OPTIONAL_TEXT,
        instrument=OPTIONAL_TEXT,
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda entry: entry.code,
).map(Vocabulary)


@given(VOCABULARIES)
def test_parsing_its_own_csv_gives_the_same_vocabulary(vocabulary):
    assert Vocabulary.parse(vocabulary.to_csv(), "a file") == vocabulary


def test_load_reads_what_save_wrote_and_the_file_is_the_same_on_every_system(tmp_path):
    vocabulary = Vocabulary([evidence("fièvre", name='Fever, "high"'), evidence("sex_male", kind="risk_factor")])

    vocabulary.save(tmp_path / "v.csv")

    assert Vocabulary.load(tmp_path / "v.csv") == vocabulary
    assert (tmp_path / "v.csv").read_bytes() == (
        "code,kind,name,question\n"
        'fièvre,symptom,"Fever, ""high""",A question?\n'
        "sex_male,risk_factor,A name,A question?\n"
    ).encode()


def test_synonyms_are_an_optional_fifth_column_without_part_in_the_fingerprint():
    text = "code,kind,name,question,synonyms\nsting,symptom,Sting,Stung?,bee sting|!throat closing\na,symptom,A,A?,\n"
    vocabulary = Vocabulary.parse(text, "a file")

    assert [entry.synonyms for entry in vocabulary] == [("bee sting", "!throat closing"), ()]
    assert vocabulary.to_csv() == text
    assert vocabulary.fingerprint == Vocabulary([evidence("sting"), evidence("a")]).fingerprint


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("", "empty"),
        (None, "not a string"),
        ("two words", "malformed"),
        ("a,b", "malformed"),
        ('a"b', "malformed"),
        ("_leading", "malformed"),
        ("x" * (MAX_CODE_LENGTH + 1), "128"),
        ("e\u0301te\u0301", "form C"),
        ("\ud800", "malformed"),
        ("\u0301a", "malformed"),
        ("a\u200b", "malformed"),
    ],
)
def test_malformed_codes_are_faults(code, fault):
    assert fault in code_fault(code)


@pytest.mark.parametrize(
    "code", ["a", "7", "x" * MAX_CODE_LENGTH, "été", "बुखार", "ปวดหัว", "f17.210", "pain_@_7", "a/b:c+(d)-'e", "発熱"]
)
def test_well_formed_codes_have_no_fault(code):
    assert code_fault(code) is None


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([], "empty"),
        ([evidence("a"), evidence("b"), evidence("a")], "entry 3: .*'a' .*duplicate"),
        ([evidence("")], "entry 1: .*empty"),
        ([evidence("code")], "reserved"),
        ([evidence("a", kind="sign")], "kind 'sign'.* symptom, risk_factor"),
        ([evidence("a", name=" ")], "name .*one line"),
        ([evidence("a", question="two\nlines")], "question .*one line"),
    ],
)
def test_bad_entries_are_refused(entries, message):
    with pytest.raises(InputError, match=message):
        Vocabulary(entries)


HEADER = b"code,kind,name,question\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEADER, "at least one"),
        (HEADER + b"a,symptom,A,A?\nb,symptom,B,B?\na,symptom,A,A?\n", "line 4: .*'a' .*line 2"),
    ],
)
def test_bad_files_are_refused_with_file_and_line(tmp_path, content, message):
    path = tmp_path / "v.csv"
    path.write_bytes(content)

    with pytest.raises(InputError, match=message) as raised:
        Vocabulary.load(path)

    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ("abcd", ""),
        ("abd", r"lacks 1 \('c'\)"),
        ("abcdef", r"adds 2 \('e', 'f'\)"),
        ("aefgh", r"lacks 3 \('b', 'c', 'd'\) .*adds 4 \('e', 'f', 'g', \.\.\.\)"),
        ("acbd", ".*another order .*cell 1 .*'c', not 'b'"),
    ],
)
def test_difference_says_what_another_vocabulary_lacks_adds_or_moves(codes, expected):
    this, other = (Vocabulary(Evidence(code, "symptom", "n", "q") for code in each) for each in ("abcd", codes))
    assert re.fullmatch(expected, this.difference(other))
    assert (expected == "") == (this.fingerprint == other.fingerprint)


def test_fingerprint_is_over_the_codes_in_order_and_nothing_else():
    vocabulary = Vocabulary([evidence("a"), evidence("b")])

    assert vocabulary.fingerprint == "sha256:" + hashlib.sha256(b"a\nb\n").hexdigest()
    assert vocabulary.fingerprint == Vocabulary([evidence("a", name="Reworded"), evidence("b")]).fingerprint
    assert vocabulary.fingerprint != Vocabulary([evidence("b"), evidence("a")]).fingerprint
    assert vocabulary.fingerprint != Vocabulary([evidence("ab")]).fingerprint


def test_an_unknown_code_brings_the_nearest_known_one():
    vocabulary = Vocabulary([evidence("chest_pain"), evidence("Fever"), evidence("cough")])

    assert vocabulary.nearest("Chest Pain") == ["chest_pain"]
    with pytest.raises(InputError, match=r"'fevr': .* Fever"):
        vocabulary.index("fevr")
    assert re.search("'zzz'(?!.*Fever)", vocabulary.unknown_message("zzz"))


def test_a_code_in_another_unicode_form_is_named_as_such():
    vocabulary = Vocabulary([Evidence("fi\u00e8vre", "symptom", "F", "F?")])
    message = vocabulary.unknown_message("fie\u0300vre")
    assert "'fi\\xe8vre'" in message
    assert "NFC" in message


# States worked out by hand; state_tensors_test.py compares them with the graph of a model.
ENCODER = StateEncoder(Vocabulary(Evidence(code, "symptom", code, code) for code in ("chest_pain", "fever", "smoker")))


def encode(*texts):
    """Encodes sets such as "+fever -smoker ?gout": present, absent, of no known status."""
    sets = [text.split() for text in texts]
    pieces = [piece for words in sets for piece in words]
    present, absent = (np.array([piece[0] == sign for piece in pieces], bool) for sign in "+-")
    return ENCODER.encode([piece[1:] for piece in pieces], list(map(len, sets)), present, absent)


def test_each_set_becomes_a_row():
    encoded = encode("+smoker -chest_pain", "", "+fever")
    assert encoded.states.tolist() == [[-1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert encoded.states.dtype == np.float32
    assert encoded.unknown_codes.shape == encoded.conflicting_codes.shape == (3, 0)


def test_unknown_codes_are_listed_as_often_as_they_occur_and_present_ones_first():
    encoded = encode("-b +z -fever -a +y +z ?smoker", "+fever", "-gout - -fièvre")
    assert encoded.states.tolist() == [[0, -1, 0], [0, 1, 0], [0, 0, 0]]
    assert encoded.unknown_codes.tolist() == [
        [b"z", b"y", b"z", b"b", b"a"],
        [b"", b"", b"", b"", b""],
        [b"gout", "fièvre".encode(), b"", b"", b""],
    ]


def test_conflicting_codes_are_listed_as_often_as_they_are_present_and_ignored():
    # The unknown code of the second row is not the last cell of the row above.
    encoded = encode("+smoker +fever -smoker -fever +smoker", "+gout +chest_pain", "+fever -smoker -smoker")
    assert encoded.states.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, -1]]
    assert encoded.conflicting_codes.tolist() == [[b"smoker", b"fever", b"smoker"], [b"", b"", b""], [b"", b"", b""]]


@pytest.mark.parametrize(
    ("rows", "expected"), [([[b"a"], [], [b"b", b"c"]], [[b"a", b""], [b"", b""], [b"b", b"c"]]), ([[]], [[b""]])]
)
def test_rows_are_padded_to_the_longest_and_have_a_column_at_least(rows, expected):
    assert pad_rows(rows).tolist() == expected
