"""`triage push`: copies a blessed version into a model base path, as TFX's Pusher does."""

import argparse
import dataclasses
import pathlib

from triage_runtime.command_line import options
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
