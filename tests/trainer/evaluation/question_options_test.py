import argparse

import pytest

from trainer.evaluation import question_options as options


@pytest.fixture
def parser():
    parser = argparse.ArgumentParser()
    options.add_arguments(parser)
    return parser


def test_by_default_no_policies_are_compared(parser):
    assert parser.parse_args([]).questions is None


def test_policies_and_tracks_are_named(parser):
    given = parser.parse_args(["--questions", "learned", "random", "--track", "whole-patient"])
    assert given.questions == [options.LEARNED, options.RANDOM]
    assert given.track == options.WHOLE_PATIENT
    with pytest.raises(SystemExit):
        parser.parse_args(["--questions", "clever"])
