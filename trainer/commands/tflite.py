"""`triage tflite`: converts an exported version into a file for phones, and measures how much the two differ."""

import argparse
import dataclasses
import pathlib

from schemas.errors import InputError
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.options import option
from triage_runtime.storage import locations

STATES = 10_000
_QUANTIZATIONS = ("none", "float16", "dynamic", "int8")  # trainer.export.conversion, which loads TensorFlow


@dataclasses.dataclass(frozen=True, kw_only=True)
class TfliteOptions:
    """The options of `triage tflite`, see its help."""

    model: pathlib.Path = option(
        "version that `triage export` wrote, or a model base path, for its highest version",
        type=locations.source_model, metavar="DIR",
    )  # fmt: skip
    out: pathlib.Path = option("file to write, with FILE.json beside it", type=locations.result, metavar="FILE")
    quantize: str = option(
        "none: float32; float16: half the size; dynamic: int8 weights; int8: int8 products too (default none)",
        choices=_QUANTIZATIONS, default="none",
    )  # fmt: skip
    data: pathlib.Path | None = option(
        "data directory whose training split calibrates int8", type=locations.source, metavar="DIR"
    )
    states: int = option(f"random states on which to compare with the SavedModel (default {STATES})", default=STATES)
    seed: int = option("seed of the states and of the calibration (default 0)", default=0)
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        options.check_bounds("states", self.states, 1)
        options.check_bounds("seed", self.seed, 0)
        if self.quantize == "int8" and self.data is None:
            raise InputError("--quantize int8 is calibrated with vignettes: give a data directory with --data DIR")
        if self.quantize != "int8" and self.data is not None:
            raise InputError(f"--quantize {self.quantize} needs no --data: only int8 is calibrated")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage tflite`."""
    options.add_arguments(parser, TfliteOptions)
    json_output.add_argument(parser)
