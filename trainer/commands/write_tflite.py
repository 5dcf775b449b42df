"""The work of `triage tflite`; its options are in `trainer.commands.tflite`."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from schemas.model_directory import version_folder
from trainer.commands.tflite import TfliteOptions
from trainer.export import conversion, tflite_file
from trainer.export.policy import load_version
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.progress import say_result
from triage_runtime.litert import LiteRtModel
from triage_runtime.storage import locations


def run(arguments: argparse.Namespace) -> int:
    """Converts, checks and writes; returns the exit code.

    Raises:
        InputError: there is no version, it cannot be converted or written, the data does not fit, or the file is
            broken; then `--out` is left unchanged.
    """
    given = options.read(TfliteOptions, arguments)
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
