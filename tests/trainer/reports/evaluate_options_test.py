import argparse

import pytest

from schemas.errors import InputError
from trainer.reports.evaluate_options import EvaluateOptions, add_arguments
from triage_runtime.command_line import options


def _parsed(*arguments):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(["--job-dir", "job", "--data", "data", *arguments])


def test_every_field_is_an_option_and_codes_of_slices_are_a_list():
    given = options.read(EvaluateOptions, _parsed("--slice", "fever", "cough", "--html", "report.html"))
    assert (given.slice, str(given.html), given.orders, given.minimum_decisions) == (
        ["fever", "cough"], "report.html", 10, 3,
    )  # fmt: skip
    assert options.read(EvaluateOptions, _parsed()).slice == []


@pytest.mark.parametrize(
    ("flag", "value"), [("--orders", "0"), ("--seed", "-1"), ("--minimum-decisions", "1")]
)  # fmt: skip
def test_values_out_of_bounds_are_refused(flag, value):
    with pytest.raises(InputError, match=f"{flag} {value}: expected"):
        options.read(EvaluateOptions, _parsed(flag, value))
