"""Environment variables of a training service as defaults of flags, by their names on Vertex AI."""

import argparse
import functools
import os
import pathlib
from collections.abc import Callable

from schemas import directories
from triage_runtime.storage import locations
from triage_runtime.storage.locations import Remote

CHECKPOINTS = "AIP_CHECKPOINT_DIR"
SUMMARIES = "AIP_TENSORBOARD_LOG_DIR"
MODEL = "AIP_MODEL_DIR"
TRAINING_DATA = "AIP_TRAINING_DATA_URI"
VALIDATION_DATA = "AIP_VALIDATION_DATA_URI"
TEST_DATA = "AIP_TEST_DATA_URI"

_WILDCARDS = frozenset("*?[")


def add_argument(
    parser: argparse.ArgumentParser,
    flag: str,
    variable: str,
    kind: Callable[[str], object],
    text: str,
    required: bool = False,
) -> None:
    """Gives `parser` a flag whose default is an environment variable, if that is set and not empty.

    `kind` is the flag's `type`, which also parses the variable. The variable and its value are added to `text`, the
    help. With `required`, the flag or the variable must be given.
    """
    value = os.environ.get(variable) or None
    now = "" if value is None else f", now {value}"
    shown = f"{text} (default: environment variable {variable}{now})".replace("%", "%%")
    metavar = flag.strip("-").replace("-", "_").upper()
    parser.add_argument(
        flag, type=kind, default=value, required=required and value is None, metavar=metavar, help=shown
    )


def _data(text: str, split: str) -> pathlib.Path | Remote:
    folder, _, last = text.rpartition("/")
    parts = directories.shard_parts(last)
    if parts is None and not _WILDCARDS & set(last):
        return locations.source(text)
    if not last.startswith(f"{split}-"):
        raise argparse.ArgumentTypeError(
            f"{text}: expected a data directory, as triage prepare makes it, or its shards {split}-*.tfrecord"
        )
    return locations.source(folder or ".")


training_data = functools.partial(_data, split="train")
"""The data directory to train on, which may be given as a pattern of its training shards."""
evaluation_data = functools.partial(_data, split="test")
"""A data directory to evaluate on, which may be given as a pattern of its test shards."""
