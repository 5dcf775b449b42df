"""The work of `triage push`; its options are in `trainer.commands.push`."""

import argparse
import sys

from rich.console import Console

from trainer.commands.push import PushOptions
from trainer.export import publish
from triage_runtime.command_line import options
from triage_runtime.command_line.progress import say_result
from triage_runtime.storage import locations


def run(arguments: argparse.Namespace) -> int:
    """Pushes and prints where to; returns 0.

    Raises:
        InputError: see `trainer.export.publish.push`.
    """
    given = options.read(PushOptions, arguments)
    pushed = locations.shown(publish.push(given.version_dir, given.to))
    sys.stdout.write(f"pushed to {pushed}\n")
    say_result(Console(stderr=True), pushed, f"triage serve --model-base-path {locations.shown(given.to)}")
    return 0
