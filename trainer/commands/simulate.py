"""`triage simulate`: makes a data directory of vignettes from the clinical knowledge base."""

import argparse
import dataclasses
import math
import pathlib
from fractions import Fraction

from schemas.errors import InputError
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.options import option
from triage_runtime.storage import locations

PAPER_VIGNETTES, PAPER_TEST = 1374, 126


def _fraction(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number such as 0.1 or 1/10") from None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SimulateOptions:
    """The options of `triage simulate`, see its help."""

    out: pathlib.Path = option("data directory to make", type=locations.result, metavar="DIR")
    vignettes: int = option(f"number of vignettes (default {PAPER_VIGNETTES})", default=PAPER_VIGNETTES, metavar="N")
    seed: int = option("seed of every random draw (default 0)", default=0)
    test_fraction: Fraction = option(
        f"share of vignettes in the test split, such as 0.1 or 1/10 (default {PAPER_TEST}/{PAPER_VIGNETTES})",
        type=_fraction, default=Fraction(PAPER_TEST, PAPER_VIGNETTES), metavar="F",
    )  # fmt: skip
    whole_patient: bool = option("complete patients, who can answer any question; clinicians read the whole case")
    caution: float = option(
        "factor on the clinicians' risk aversion: above 1 they decide more urgently than the default panel (default 1)",
        default=1.0, metavar="FACTOR",
    )  # fmt: skip
    knowledge: pathlib.Path | None = option("knowledge base to draw from", type=locations.source, metavar="DIR")
    overwrite: bool = option("replace an existing data directory")
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        options.check_bounds("vignettes", self.vignettes, 1)
        options.check_bounds("seed", self.seed, 0)
        if self.seed >= 2**64:
            raise InputError(f"--seed {self.seed}: expected less than 2^64")
        if not 0 < self.caution < math.inf:
            raise InputError(f"--caution {self.caution:g}: expected a number above 0, such as 2")
        if not 0 <= self.test_fraction < 1:
            raise InputError(f"--test-fraction {self.test_fraction}: expected 0 or more, and less than 1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage simulate`."""
    options.add_arguments(parser, SimulateOptions)
    json_output.add_argument(parser)
