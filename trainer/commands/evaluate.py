"""`triage evaluate`: measures a trained agent on the vignettes of a data directory, on textbook cases, or on both."""

import argparse

from schemas.errors import InputError
from trainer.evaluation.options import EvaluateOptions
from trainer.training import operating_point_options
from trainer.training.operating_point_options import OperatingPointOptions
from triage_runtime.command_line import json_output, options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage evaluate`."""
    options.add_arguments(parser, EvaluateOptions)
    operating_point_options.add_arguments(parser)
    json_output.add_argument(parser)


def check(arguments: argparse.Namespace) -> None:
    """Checks what can be checked before TensorFlow loads.

    Raises:
        InputError: neither vignettes nor cases are given, or a file cannot be written.
    """
    if arguments.data is None and arguments.cases is None:
        raise InputError("expected --data with vignettes, --cases with textbook cases, or both")
    if arguments.html is not None and (arguments.data is None or arguments.questions):
        raise InputError("--html reports on vignettes: give --data, and leave out --questions")
    json_output.check(arguments.html, "--html")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    from trainer.reports import evaluate  # loads TensorFlow

    check(arguments)  # again, for addresses in an object store
    evaluate.run(options.read(EvaluateOptions, arguments), options.read(OperatingPointOptions, arguments))
    return 0
