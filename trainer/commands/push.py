"""`triage push`: copies a blessed version into a model base path, as TFX's Pusher does."""

import argparse
import dataclasses
import pathlib
import sys

from rich.console import Console

from triage_runtime.command_line import options
from triage_runtime.command_line.progress import say_result
from triage_runtime.storage import locations


@dataclasses.dataclass(frozen=True)
class PushOptions:
    """The options of `triage push`, see its help."""

    version_dir: pathlib.Path = options.option(
        "folder of the version that `triage export --compare-with` wrote", type=locations.source, metavar="DIR"
    )
    to: pathlib.Path = options.option(
        "directory with a folder for each version", type=locations.model_base, metavar="BASE"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage push`."""
    options.add_arguments(parser, PushOptions)


def run(arguments: argparse.Namespace) -> int:
    """Pushes and prints where to; returns 0.

    Raises:
        InputError: see `trainer.export.publish.push`.
    """
    given = options.read(PushOptions, arguments)
    from trainer.export import publish

    pushed = locations.shown(publish.push(given.version_dir, given.to))
    sys.stdout.write(f"pushed to {pushed}\n")
    say_result(Console(stderr=True), pushed, f"triage serve --model-base-path {locations.shown(given.to)}")
    return 0
