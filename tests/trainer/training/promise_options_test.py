"""The options of a promise, and what they refuse."""

import argparse

import pytest

from schemas.errors import InputError
from trainer.training import promise_options
from trainer.training.promise_options import PromiseOptions
from triage_runtime.command_line import options


def parsed(*given):
    parser = argparse.ArgumentParser(exit_on_error=False)
    promise_options.add_arguments(parser)
    return options.read(PromiseOptions, parser.parse_args(given))


def test_risks_have_their_levels():
    assert parsed() == PromiseOptions({}, 0.9)
    given = parsed("--promise", "red=.05, over=0.4", "--confidence", "0.95")
    assert given == PromiseOptions({"red": 0.05, "over": 0.4}, 0.95)


@pytest.mark.parametrize("text", ["", "red", "red=", "red=1", "red=0", "red=x", "green=.1", "red=.1,red=.2", "red=-.1"])
def test_what_is_no_risk_with_a_share_is_refused(text):
    with pytest.raises(argparse.ArgumentError, match="expected RISK=SHARE"):
        parsed("--promise", text)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InputError, match="--confidence 1: expected"):
        parsed("--confidence", "1")
