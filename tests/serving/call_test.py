"""The current call of a thread or task."""

import pytest

from serving import call as calls


def test_what_is_timed_is_added_even_if_it_fails():
    call = calls.Call()
    with call.timed(calls.MODEL):
        call.add(calls.PARSE, 1.0, 3.0)
    with pytest.raises(KeyError), call.timed(calls.RESPOND):
        raise KeyError
    assert [stage for stage, _, _ in call.stages] == [calls.PARSE, calls.MODEL, calls.RESPOND]
    assert call.stages[0] == (calls.PARSE, 1.0, 3.0)
    assert all(call.request.arrived <= begin <= end for _, begin, end in call.stages[1:])


@pytest.mark.parametrize("name", ["r-17", "7f3e9f8c-1c9b-4d7e-9b1f-000000000000", "host/17:a=b@c.d+e_f", "x" * 128])
def test_the_callers_request_id_is_taken(name):
    assert calls.request_id_of((("other", "no"), ("x-request-id", name))) == name


@pytest.mark.parametrize(
    "name", ["", "x" * 129, "two words", "line\nbreak", "-option", "fièvre", b"bytes", '"quoted"', "{brace}"]
)
def test_request_ids_that_are_unsafe_in_a_log_are_replaced(name):
    given = calls.request_id_of((("x-request-id", name),))
    assert given != name
    assert len(given) == 32
    assert given != calls.request_id_of(None)
