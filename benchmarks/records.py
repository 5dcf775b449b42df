"""What the benchmarks have measured, and with what: a record for each run, of which `make results` makes pages."""

import argparse
import json
import os
import pathlib
import re
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from trainer.reports.page import provenance
from triage_runtime.command_line.json_output import plain

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
PLACEHOLDER = "placeholder"
"""Key of a record that does not stand: why. Its run is repeated."""
TRIED = (1000, 1001)
"""Seeds with whose data agents were tried while the default one was made: their figures are not of fresh data."""
_DIGITS = 5
_LEAF = re.compile(r"[{\[][^{}\[\]]*[}\]]")


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the option of where records stand."""
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, metavar="FOLDER", help="of the records")


def write(folder: pathlib.Path, name: str, figures: Mapping[str, Any], seed: int | None = None) -> None:
    """Writes the record of a run that has ended, with the command line of this process.

    Args:
        name: of the file; runs of other seeds have names of their own.
        figures: what was measured.
        seed: of data and draws; None where nothing is drawn.
    """
    made = provenance()
    program = pathlib.Path(sys.argv[0]).resolve()
    command = shlex.join(["python", f"{program.parent.name}/{program.name}", *sys.argv[1:]])
    record = {
        "command": command,
        "seed": seed,
        "versions": {key: made[key] for key in ("dyqn_triage", "python", "tensorflow", "scikit_learn")},
        "machine": {"cores": os.cpu_count(), "processor": _processor()},
        "date": made["finished"][:10],
        "figures": _rounded(plain(figures)),
    }
    path = folder / f"{name}.json"
    staged = path.with_suffix(".partial")
    folder.mkdir(parents=True, exist_ok=True)
    # What holds nothing but values stands on one line.
    lines = _LEAF.sub(lambda leaf: " ".join(leaf[0].split()), json.dumps(record, indent=1))
    staged.write_text(lines + "\n", encoding="utf-8")
    staged.replace(path)


def finished(folder: pathlib.Path, name: str) -> bool:
    """Returns whether there is such a record that stands."""
    path = folder / f"{name}.json"
    return path.exists() and PLACEHOLDER not in json.loads(path.read_text(encoding="utf-8"))


def read(folder: pathlib.Path, kind: str) -> list[dict[str, Any]]:
    """Returns the records of a kind by seed: those in `kind-SEED.json`, or the one in `kind.json`.

    Raises:
        SystemExit: there is none.
    """
    paths = sorted(path for path in folder.glob("*.json") if kind in (path.stem, path.stem.rpartition("-")[0]))
    if not paths:
        raise SystemExit(f"{folder}: no record {kind}: measure it first")
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def _processor() -> str:
    """Returns the name of the processor, as Linux has it."""
    path = pathlib.Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), "unknown")
