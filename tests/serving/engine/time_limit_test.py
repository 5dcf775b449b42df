"""Functions that block are left behind, and not called again while they block."""

import threading

import pytest

from schemas.errors import InputError
from serving.engine.time_limit import TimeLimit


def test_what_a_function_returns_or_raises_comes_through():
    limit = TimeLimit(30.0)
    assert limit.run("adding", max, 2, 3) == 3
    with pytest.raises(ZeroDivisionError):
        limit.run("dividing", divmod, 1, 0)


def test_a_function_that_blocks_is_left_behind_and_refused_until_it_ends():
    gate, begun = threading.Event(), []

    def read(path):
        begun.append(path)
        gate.wait(60)
        return "content"

    limit = TimeLimit(0.05)
    for _ in range(3):
        with pytest.raises(InputError, match=r"reading models takes longer than 0\.05 s"):
            limit.run("reading models", read, "models")
    assert begun == ["models"]
    assert limit.run("adding", max, 2, 3) == 3  # others run meanwhile
    gate.set()
    for thread in threading.enumerate():
        if thread.name == "limited: reading models":
            thread.join(30)
    assert TimeLimit(30.0).run("reading models", read, "models") == "content"
    assert limit.run("reading models", lambda path: path, "other") == "other"
