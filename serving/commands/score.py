"""`triage score`: a model's answers to files of stored cases. Its work is in `serving.commands.score_files`."""

import argparse

from serving.scoring.job import ScoreOptions
from triage_runtime.command_line import json_output, options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage score`."""
    options.add_arguments(parser, ScoreOptions)
    json_output.add_argument(parser)


def reads_addresses(arguments: argparse.Namespace) -> bool:
    """Returns whether workers read and write what is at addresses."""
    return arguments.runner is not None
