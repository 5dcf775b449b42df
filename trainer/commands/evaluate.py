"""`triage evaluate`: measures a trained agent on the vignettes of a data directory, on textbook cases, or on both."""

import argparse

from trainer.evaluation.options import EvaluateOptions
from trainer.training.agent_options import OperatingPointOptions
from triage_runtime.command_line import json_output, options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage evaluate`."""
    options.add_arguments(parser, EvaluateOptions)
    options.add_arguments(parser, OperatingPointOptions)
    json_output.add_argument(parser)


def check(arguments: argparse.Namespace) -> None:
    """Checks what can be checked before TensorFlow loads.

    Raises:
        InputError: neither vignettes nor cases are given, or a file cannot be written.
    """
    json_output.check(options.read(EvaluateOptions, arguments).html, "--html")
