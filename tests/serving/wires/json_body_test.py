"""Bodies in JSON: what is refused before and while they are read, and how a fault is named."""

import json
import sys
import time

import pytest

from schemas.errors import InputError
from serving.wires.json_body import MOST_NESTED, MOST_VALUES, given, read_json, reader
from serving.wires.triage_json import Batch, Patient, State

READERS = {"typed": reader(Patient), "any": read_json}
BATCH = reader(Batch, "states", State)
every_reader = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


@every_reader
def test_a_key_twice_is_refused_however_it_is_written(read):
    for content in (
        b'{"present": ["fever"], "present": ["cough"]}',
        b'{"present": ["fever"], "\\u0070resent": ["cough"]}',
        b'{"present": ["a:b"], "present": ["c:d"]}',
    ):
        with pytest.raises(InputError, match="has a key twice in one object"):
            read(content)


def test_a_key_twice_in_one_of_several_states_is_refused():
    assert len(BATCH(b'{"states": [{"present": ["a:b"]}, {"present": ["c\\"d:"]}]}').states) == 2
    with pytest.raises(InputError, match="has a key twice"):
        BATCH(b'{"states": [{"present": ["a"]}, {"absent": [], "absent": ["b"]}]}')


def test_colons_quotes_and_backslashes_in_codes_are_no_keys():
    codes = ["HP:0001", '":', "\\", '\\":', "\N{GRINNING FACE}"]
    for ascii_only in (True, False):
        content = json.dumps({"present": codes, "explain": True}, ensure_ascii=ascii_only).encode()
        assert given(READERS["typed"](content)) == {"present": codes, "explain": True}
        assert read_json(content) == {"present": codes, "explain": True}


@every_reader
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"NaN", b'{"present": ["\xff"]}', b'{"present": ["\\ud800"]}', b'{"model": "\\udc00x"}'],
)
def test_what_is_not_json_is_refused(read, content):
    with pytest.raises(InputError, match=r"^the body is not JSON: "):
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
    begin = time.thread_time()
    with pytest.raises(InputError, match="holds more than 400000 values, or 32768 lists, objects or keys"):
        read(content)
    assert time.thread_time() - begin < 0.5


def test_keys_that_do_not_exist_are_one_fault_and_too_many_of_any_name_are_refused():
    keys = b"{" + b",".join(b'"%06d" : 0' % number for number in range(MOST_NESTED + 1)) + b"}"
    with pytest.raises(InputError, match=r"^000000: no such field: /openapi.json lists those there are$"):
        READERS["typed"](keys)
    with pytest.raises(InputError, match="holds more than"):
        read_json(keys)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"present": "fever"}', "present: expected a list"),
        (b'{"questions_asked": 3.0}', "questions_asked: expected a whole number"),
        (b'{"questions_asked": 2147483648}', "questions_asked: expected a whole number <= 2147483647"),
        (b'{"explain": null}', "explain: expected true or false"),
        (b'{"defer_below": {}}', "defer_below: expected a number"),
        (b"3", "body: expected an object"),
    ],
)
def test_a_fault_says_what_was_expected(content, message):
    with pytest.raises(InputError) as error:
        READERS["typed"](content)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"states": [{}, {"present": ["a", 3]}]}', "states[1].present[1]: expected a text"),
        (b'{"states": [{}, 3]}', "states[1]: expected an object"),
        (b'{"states": [{}, {"x": 3}]}', "states[1].x: no such field: /openapi.json lists those there are"),
        (b'{"states": 3}', "states: expected a list"),
        (b'{"states": [], "explain": true}', "explain: no such field: /openapi.json lists those there are"),
    ],
)
def test_a_fault_in_one_of_several_states_names_the_state(content, message):
    with pytest.raises(InputError) as error:
        BATCH(content)
    assert str(error.value) == message


def test_no_one_call_decodes_all_states_of_a_large_body():
    content = json.dumps({"states": [{"present": [f"code_{number}" for number in range(280)]}] * 128}).encode()

    def longest_call(read):
        """Returns the longest call of a decoder, in which no other thread runs [s of this thread's processor time]."""
        calls = []

        def note_call(_, event, function):
            if event in ("c_call", "c_return") and function.__name__ == "decode":
                calls.append(time.thread_time())

        sys.setprofile(note_call)
        try:
            read(content)
        finally:
            sys.setprofile(None)
        return max(end - start for start, end in zip(calls[::2], calls[1::2], strict=True))

    assert min(longest_call(BATCH) for _ in range(5)) < 0.5 * min(longest_call(reader(Batch)) for _ in range(5))


def test_lists_deeper_than_python_reads_are_refused():
    with pytest.raises(InputError, match="the body is not JSON: RecursionError"):
        read_json(b"[" * 9_000)
