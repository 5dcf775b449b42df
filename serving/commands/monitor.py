"""`triage monitor`: checks a version's promise against clinicians' decisions on cases in its audit log.

Its work is in `serving.commands.check_promise`.
"""

import argparse
import dataclasses
import pathlib

from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.extras import need
from triage_runtime.command_line.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class MonitorOptions:
    """The options of `triage monitor`, see its help."""

    log: pathlib.Path = option("directory that triage serve --audit-log wrote", metavar="DIR")
    model: pathlib.Path = option("version that answered, or its base path, for the highest version", metavar="DIR")
    labels: pathlib.Path = option("served cases with clinicians' decisions, in JSON Lines", metavar="FILE")
    model_name: str = option("model whose answers to read, if the server had several", default="", metavar="NAME")
    json: str | pathlib.Path | None


def check(_: argparse.Namespace) -> None:
    """Raises InputError if the extra of this command is not installed."""
    need("scipy", "triage monitor", "monitor")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage monitor`."""
    options.add_arguments(parser, MonitorOptions)
    json_output.add_argument(parser)
