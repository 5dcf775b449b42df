"""Failures of the server are not bad input: each has its row in the table of statuses."""

import inspect

from schemas.errors import InputError
from serving import errors
from serving.admission.status import status_of

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]


def test_each_kind_has_a_status_of_its_own_and_speaks_for_itself():
    kinds = [kind for kind in KINDS if kind.__bases__ == (Exception,)]
    statuses = [status_of(kind("what to do")) for kind in [*kinds, InputError]]
    assert {status.message for status in statuses} == {"what to do"}
    assert len({status.code for status in statuses}) == len(statuses)
