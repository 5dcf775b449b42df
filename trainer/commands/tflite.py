"""`triage tflite`: converts an exported version into a file for phones, and measures how much the two differ."""

import argparse
import dataclasses
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from schemas.errors import InputError
from schemas.model_directory import version_folder
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.options import option
from triage_runtime.command_line.progress import say_result
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


def run(arguments: argparse.Namespace) -> int:
    """Converts, checks and writes; returns the exit code.

    Raises:
        InputError: there is no version, it cannot be converted or written, the data does not fit, or the file is
            broken; then `--out` is left unchanged.
    """
    given = options.read(TfliteOptions, arguments)
    from trainer.export import conversion, tflite_file
    from trainer.export.policy import load_version
    from triage_runtime.litert import LiteRtModel

    tflite_file.check_writable(given.out)
    version = load_version(version_folder(given.model))
    states, calibration = None, None
    if given.data is not None:
        states, calibration = conversion.calibration_states(given.data, version, given.seed)
    content = conversion.convert(version, given.quantize, states)
    model = LiteRtModel(content)
    bound = tflite_file.BOUNDS[given.quantize]
    parity = tflite_file.compare(version, model, bound, given.states, given.seed)
    description = tflite_file.describe(version, model, given.quantize, parity, calibration)
    tflite_file.write(given.out, content, description)
    reported = ("model_version", "quantization", "calibration", "vocabulary_fingerprint", "parity")
    report = {
        "path": locations.shown(given.out),
        "sidecar": locations.shown(tflite_file.sidecar_path(given.out)),
        "bytes": given.out.stat().st_size,
        **{key: description[key] for key in reported},
    }
    if given.json != "-":
        _say(report)
    json_output.write(report, given.json)
    following = f"python examples/mobile/interview.py {report['path']}, or an app (docs/mobile.md)"
    say_result(Console(stderr=True), report["path"], following)
    return 0


def _say(report: Mapping[str, Any]) -> None:
    parity = report["parity"]
    sys.stdout.write(
        f"wrote version {report['model_version']} ({report['quantization']}, {report['bytes']:,} bytes) to "
        f"{report['path']} and {report['sidecar']}\n"
        f"Q-values differ by up to {parity['largest_q_difference']:.2g} (bound {parity['bound']:g}) from the "
        f"SavedModel's.\n{parity['statement']}\n"
    )
