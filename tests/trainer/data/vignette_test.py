import io
import json
import re

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from schemas.text_file import lines_of
from schemas.triage import Action
from tests.builders import symptoms
from trainer.data.vignette import Vignette, VignetteError, from_fields
from triage_runtime.case import parse_object

CODES = ("fever", "chest_pain", "cough")
VOCABULARY = symptoms(*CODES)
GOOD = {"vignette_id": "v1", "present": ["fever"], "absent": ["cough"], "decisions": ["Red", "Blue", "Red"]}


def read(content):
    [line] = lines_of(io.BytesIO(content), "a file")
    return from_fields(parse_object(line.decoded()), VOCABULARY)


def parse(fields):
    return read(json.dumps(fields).encode())


def reason_of(line):
    with pytest.raises(InputError) as raised:
        read(line)
    return str(raised.value)


def test_a_line_becomes_a_vignette():
    assert parse(GOOD) == Vignette("v1", ("fever",), ("cough",), (Action.RED, Action.BLUE, Action.RED))
    assert parse(GOOD | {"split": "test", "tags": ["t"]}).split == "test"
    assert parse(GOOD | {"split": "test", "tags": ["t"]}).tags == ("t",)


def test_decision_counts_are_multiplicities_in_urgency_order():
    assert parse(GOOD).decision_counts == (2, 0, 0, 1)


@pytest.mark.parametrize("key", ["present", "absent"])
@pytest.mark.parametrize("entry", [7, None, ["cough"], {"code": "cough"}])
def test_what_is_no_code_is_refused_beside_a_number_too(key, entry):
    hot = Vocabulary([Evidence("hot", "symptom", "Hot", "Hot?", band="temperature >=38 <45 °C"), *VOCABULARY])
    fields = GOOD | {"present": ["temperature=39"], "absent": ["cough"]}
    assert from_fields(fields, hot).present == ("hot",)
    with pytest.raises(VignetteError, match=f"{key}: "):
        from_fields(fields | {key: [*fields[key], entry]}, hot)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"\xff{}", "byte 0"),
        (b'{"vignette_id": "caf\xe9"}', "byte 20"),
        (b"{", "character 2"),
        (b'{"a": 1} x', "character 10"),
        (b'{"vignette_id": NaN}', "NaN"),
        (b'{"a": ' + b"1" * 5_000 + b"}", "too many digits"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"split": "test", "split": "train"}', "'split' .*repeated"),
        (b"[]", "found a list"),
        (b"null", "found null"),
    ],
)
def test_lines_that_are_no_object_are_rejected_with_the_reason(line, reason):
    assert re.search(reason, reason_of(line))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"abscent": ["cough"]}, "'abscent': .*'absent'"),
        ({"vignette_id": ""}, "vignette_id: .*found ''"),
        ({"vignette_id": 1.5}, "vignette_id: .*found 1.5"),
        ({"vignette_id": "a\x00b"}, "control character"),
        ({"vignette_id": "\ud800"}, "surrogate"),
        ({"vignette_id": "v" * 257}, "256"),
        ({"present": "fever"}, "present: .*list.*found 'fever'"),
        ({"present": ["fever", "fever"]}, "present: 'fever' .*2 times"),
        ({"present": ["fevr"]}, "present: .*'fevr': .*fever"),
        ({"absent": ["fever"]}, "'fever' .*absent"),
        ({"present": [], "absent": []}, "no evidence"),
        ({"decisions": []}, "at least one"),
        ({"decisions": "Red"}, "decisions: .*list"),
        ({"decisions": ["red"]}, "'red' .*Red, Yellow, Green, Blue"),
        ({"decisions": [["Red"]]}, "a list .*Red, Yellow"),
        ({"decisions": ["Red"] * 256}, "Red .*256 .*255"),
        ({"split": "dev"}, "split: .*found 'dev'"),
        ({"tags": [""]}, "tags: "),
    ],
)
def test_bad_fields_are_rejected_with_the_reason(change, reason):
    assert re.search(reason, reason_of(json.dumps(GOOD | change).encode()))


def test_a_contradiction_names_the_number_that_caused_it():
    hot = Vocabulary([Evidence("hot", "symptom", "Hot", "Hot?", band="temperature >=38 <45 °C"), *VOCABULARY])
    for number, change in (("temperature=39", {"absent": ["hot"]}), ("temperature=36.9", {"present": ["hot"]})):
        fields = GOOD | {"absent": []} | change
        with pytest.raises(VignetteError, match=f"'hot' .*{number}"):
            from_fields(fields | {"present": [*fields["present"], number]}, hot)


@pytest.mark.parametrize("key", ["vignette_id", "present", "absent", "decisions"])
def test_each_required_key_is_required(key):
    assert repr(key) in reason_of(json.dumps({k: v for k, v in GOOD.items() if k != key}).encode())


def test_a_reject_keeps_the_id_where_the_line_has_one():
    with pytest.raises(VignetteError) as raised:
        parse(GOOD | {"present": ["nothing"]})
    assert raised.value.vignette_id == "v1"

    with pytest.raises(VignetteError) as raised:
        parse(GOOD | {"vignette_id": True})
    assert raised.value.vignette_id is None


def test_a_reason_is_one_short_line_whatever_the_value():
    for value in ("\n\x1b[31m" * 1_000, ["\n"] * 10_000, {"\n": 1}, 10**300):
        for key in GOOD:
            reason = reason_of(json.dumps(GOOD | {key: value}).encode())
            assert reason.isprintable()
            assert len(reason) < 700


# Values near the border of what is allowed: the right ones, and each kind of wrong one.
NAMES = st.one_of(
    st.text(max_size=3),
    st.sampled_from(["v1", "", "\x1f", " ", "\x7f", "\x80", "\x9f", "\xa0", "\ud800", "v\n", "v" * 256, "v" * 257]),
)
JUNK = st.sampled_from([None, True, False, 0, 1, 1.5, "", [], {}, [[]], [None], [0], ["Red"], "train", "fever"])
NAME_LISTS = st.lists(NAMES | JUNK, max_size=3)
CODE_LISTS = st.lists(st.sampled_from(CODES), max_size=3) | st.lists(st.sampled_from(CODES), unique=True)
DECISIONS = st.lists(st.sampled_from(["Red", "Yellow", "Green", "Blue", "red", "ask"]), max_size=3) | st.builds(
    lambda label, count: [label] * count, st.sampled_from(["Red", "Blue"]), st.integers(254, 257)
)
NEAR_VALID = st.fixed_dictionaries(
    {"vignette_id": NAMES, "present": CODE_LISTS, "absent": CODE_LISTS, "decisions": DECISIONS},
    optional={"split": st.sampled_from(["train", "test", "dev"]), "tags": NAME_LISTS, "abscent": CODE_LISTS},
)


@pytest.fixture(scope="module")
def validator():
    import importlib.resources

    text = importlib.resources.files("schemas").joinpath("vignette.schema.json").read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))


@settings(max_examples=150)
@given(fields=NEAR_VALID, change=st.none() | st.tuples(st.sampled_from([*GOOD, "split", "tags"]), JUNK))
@example(fields=GOOD | {"vignette_id": "v1\n"}, change=None)
def test_json_schema_and_code_accept_the_same_objects(validator, fields, change):
    if change:
        fields = fields | {change[0]: change[1]}
    present, absent = fields["present"], fields["absent"]
    # What no JSON Schema can state: see the description of `absent`, and the vocabulary.
    listed = [each for each in (present, absent) if isinstance(each, list)]
    assume(len(listed) < 2 or not any(code in absent for code in present))
    assume(all(code in CODES for codes in listed for code in codes if isinstance(code, str)))

    try:
        parse(fields)
        accepted = True
    except InputError:
        accepted = False

    assert accepted == validator.is_valid(fields)
