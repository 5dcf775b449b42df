"""Bodies in JSON: what is refused before and while they are read, and how a fault is named."""

import json
import sys

import pytest

from schemas.errors import InputError
from serving.errors import FaultyRequestError
from serving.wires.json_body import MOST_NESTED, MOST_VALUES, given, read_json, reader
from serving.wires.triage_json import Batch, Patient, State

READERS = {"typed": reader(Patient), "any": read_json}
BATCH = reader(Batch, "states", State)
every_reader = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


@pytest.mark.parametrize(
    ("read", "content"),
    [
        *(
            (read, content)
            for read in READERS.values()
            for content in (
                b'{"present": ["fever"], "present": ["cough"]}',
                b'{"present": ["fever"], "\\u0070resent": ["cough"]}',
                b'{"present": ["a:b"], "present": ["c:d"]}',
            )
        ),
        (BATCH, b'{"states": [{"present": ["a"]}, {"absent": [], "absent": ["b"]}]}'),
        (read_json, b'{"item": [{"answer": {"code": 1, "code": 1}}]}'),
    ],
)
def test_a_key_twice_is_refused_however_it_is_written(read, content):
    with pytest.raises(InputError, match="key twice"):
        read(content)


def test_colons_quotes_and_backslashes_in_codes_are_no_keys():
    codes = ["HP:0001", '":', "\\", '\\":', "\N{GRINNING FACE}"]
    for ascii_only in (True, False):
        content = json.dumps({"present": codes, "explain": True}, ensure_ascii=ascii_only).encode()
        assert given(READERS["typed"](content)) == {"present": codes, "explain": True}
        assert read_json(content) == {"present": codes, "explain": True}
    assert len(BATCH(b'{"states": [{"present": ["a:b"]}, {"present": ["c\\"d:"]}]}').states) == 2


@every_reader
@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"NaN", b'{"present": ["\xff"]}', b'{"present": ["\\ud800"]}', b'{"model": "\\udc00x"}',
        b'{"defer_below": NaN}',
    ],
)  # fmt: skip
def test_what_is_not_json_is_refused(read, content):
    with pytest.raises(InputError, match="not JSON"):
        read(content)


@every_reader
@pytest.mark.parametrize(
    "content",
    [
        b'{"present": [' + b'"",' * MOST_VALUES + b'""]}',
        b'{"states": [' + b"{}," * MOST_NESTED + b"{}]}",
        b"[" * (MOST_NESTED + 1),
        b"[" + b'""' * (MOST_VALUES + 1) + b"]",
    ],
    ids=["values", "objects", "lists", "texts"],
)
def test_a_body_of_too_much_is_refused_before_it_is_read(read, content):
    with pytest.raises(InputError, match=f"{MOST_VALUES} .*{MOST_NESTED} "):
        read(content)


@every_reader
def test_too_many_keys_are_refused(read):
    keys = b"{" + b",".join(b'"%06d" : 0' % number for number in range(MOST_NESTED + 1)) + b"}"
    with pytest.raises(InputError, match=f"{MOST_NESTED} "):
        read(keys)


@pytest.mark.parametrize(
    ("read", "content", "field", "reason"),
    [
        (READERS["typed"], b'{"present": "fever"}', "present", "WRONG_TYPE"),
        (READERS["typed"], b'{"questions_asked": 3.5}', "questions_asked", "WRONG_TYPE"),
        (READERS["typed"], b'{"questions_asked": 2147483648}', "questions_asked", "WRONG_TYPE"),
        (READERS["typed"], b'{"explain": 1}', "explain", "WRONG_TYPE"),
        (READERS["typed"], b'{"questions": "3"}', "questions", "WRONG_TYPE"),
        (READERS["typed"], b'{"not_to_ask": "e2"}', "not_to_ask", "WRONG_TYPE"),
        (READERS["typed"], b"3", "body", "WRONG_TYPE"),
        (BATCH, b'{"states": [{}, {"present": ["a", 3]}]}', "states[1].present[1]", "WRONG_TYPE"),
        (BATCH, b'{"states": [{}, 3]}', "states[1]", "WRONG_TYPE"),
        (BATCH, b'{"states": [{}, {"x": 3}]}', "states[1].x", "UNKNOWN_FIELD"),
        (BATCH, b'{"states": 3}', "states", "WRONG_TYPE"),
        (BATCH, b'{"states": [], "explain": true}', "explain", "UNKNOWN_FIELD"),
        (BATCH, b"{}", "states", "MISSING_FIELD"),
    ],
)
def test_a_fault_names_the_field_and_the_reason(read, content, field, reason):
    with pytest.raises(FaultyRequestError) as error:
        read(content)
    [fault] = error.value.faults
    assert (fault.field, fault.reason) == (field, reason)


def test_no_one_call_decodes_all_states_of_a_large_body():
    decoded = []

    def note_call(_, event, function):
        if event == "c_call" and function.__name__ == "decode":
            decoded.append(function)

    content = json.dumps({"states": [{"present": ["fever"]}] * 128}).encode()
    sys.setprofile(note_call)
    try:
        BATCH(content)
    finally:
        sys.setprofile(None)
    assert len(decoded) == 1 + 128  # other threads run between
