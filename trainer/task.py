"""The options of `triage train`, and `python -m trainer.task`, which does the same; loads no TensorFlow itself."""

import argparse
import dataclasses
import importlib
import pathlib
import signal
import sys
from collections.abc import Sequence

from schemas.errors import InputError
from trainer import presets
from trainer.cloud import service_environment
from trainer.training.agent_options import RULES
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.options import option
from triage_runtime.storage import locations

BAD_INPUT = 2
WORK = "trainer.commands.train"
"""The module that trains, which loads TensorFlow."""
INTERRUPTED = 128 + signal.SIGINT


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """The options of `triage train` beside the hyper-parameters, see its help."""

    data: pathlib.Path
    validation_data: pathlib.Path | None
    test_data: pathlib.Path | None
    job_dir: pathlib.Path
    log_dir: pathlib.Path | None
    model_dir: pathlib.Path | None
    start_from: pathlib.Path | None = option(
        "job directory of an agent to adapt to this data; evidence is matched by code",
        type=locations.source, metavar="JOB_DIR",
    )  # fmt: skip
    danger_signs: pathlib.Path | None = option(
        "TOML file of the danger signs of each complaint, which must be known before an interview may end below Red "
        "(docs/questions.md); by default those of this package if the vocabulary has all of their codes, otherwise "
        "those that the data suggest",
        type=locations.source, metavar="FILE",
    )  # fmt: skip
    model_version: int = option("version number of the model (default 1)", default=1, metavar="N")
    rules: pathlib.Path | None = option(RULES, type=locations.source, metavar="FILE")
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        if self.model_version < 1:
            raise InputError(f"--model-version {self.model_version}: expected a whole number from 1")
        if self.rules is not None and self.model_dir is None:
            raise InputError("--rules needs --model-dir: give both, or give the rules to triage export")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage train`: the directories and every hyper-parameter."""
    given = service_environment
    data = "data directory, as triage prepare makes it"
    given.add_argument(parser, "--data", given.TRAINING_DATA, given.training_data, data, required=True)
    text = "data directory whose test split evaluates the run; without one, --data"
    given.add_argument(parser, "--validation-data", given.VALIDATION_DATA, given.evaluation_data, text)
    text = "data directory whose test split evaluates the model in --model-dir; none by default"
    given.add_argument(parser, "--test-data", given.TEST_DATA, given.evaluation_data, text)
    text = "directory for checkpoints, evaluations and summaries; an interrupted run is resumed"
    given.add_argument(parser, "--job-dir", given.CHECKPOINTS, locations.result, text, required=True)
    text = "directory for TensorBoard summaries; without one, logs in --job-dir"
    given.add_argument(parser, "--log-dir", given.SUMMARIES, locations.fresh_result, text)
    text = "directory for the finished model, with saved_model.pb at its top; without one, no model is written"
    given.add_argument(parser, "--model-dir", given.MODEL, locations.fresh_result, text)
    options.add_arguments(parser, TrainOptions)
    json_output.add_argument(parser)
    presets.add_arguments(parser)


def check(arguments: argparse.Namespace) -> None:
    """Refuses a configuration or an option that is not as expected, before TensorFlow loads.

    Raises:
        InputError: a value is out of range.
    """
    presets.from_arguments(arguments)
    options.read(TrainOptions, arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `python -m trainer.task`; returns the exit code: that of the work, 2 on bad input, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m trainer.task", description="Train a DyQN agent.")
    add_arguments(parser)
    try:
        parsed = parser.parse_args(arguments)
        check(parsed)
        with locations.staged(parsed) as local:
            return importlib.import_module(WORK).run(local)
    except InputError as error:
        sys.stderr.write(f"{parser.prog}: error: {error}\n")
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
