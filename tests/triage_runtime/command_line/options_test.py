"""Parsed arguments as dataclasses."""

import argparse
import dataclasses

import pytest

from schemas.errors import InputError
from triage_runtime.command_line import options


@dataclasses.dataclass(frozen=True)
class _Options:
    seed: int
    shard_size: int

    def __post_init__(self):
        options.check_bounds("shard_size", self.shard_size, 1, 9)


def test_a_dataclass_takes_the_arguments_of_its_fields_and_leaves_the_others():
    arguments = argparse.Namespace(seed=3, shard_size=2, command="prepare")
    assert options.read(_Options, arguments) == _Options(3, 2)


@pytest.mark.parametrize(("size", "expected"), [(0, "1 to 9"), (10, "1 to 9")])
def test_a_value_out_of_bounds_is_refused_by_the_name_of_its_flag(size, expected):
    with pytest.raises(InputError, match=f"^--shard-size {size}: expected {expected}"):
        options.read(_Options, argparse.Namespace(seed=0, shard_size=size))


def test_bounds_are_allowed_values_and_there_may_be_no_highest_one():
    for value, least, most in ((None, 1, None), (1, 1, None), (3, 1, 3), (10**9, 0, None)):
        options.check_bounds("n", value, least, most)
    with pytest.raises(InputError, match=r"^--n 0: expected 1 or more"):
        options.check_bounds("n", 0, 1)
