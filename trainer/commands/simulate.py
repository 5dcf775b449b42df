"""`triage simulate`: makes a data directory of vignettes from the clinical knowledge base."""

import argparse
import dataclasses
import functools
import math
import os
import pathlib
from fractions import Fraction
from typing import Any

from rich.console import Console

from schemas import directories
from schemas.errors import InputError
from trainer.data.output import describe, output_directory
from trainer.simulation.config import PanelConfig, SimulationConfig
from trainer.simulation.knowledge_base import KnowledgeBase
from trainer.simulation.simulator import Simulator, simulated
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.options import option
from triage_runtime.command_line.progress import progress_bar, say, say_result, tracked
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


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    from trainer.data.data_writer import write_splits

    given = options.read(SimulateOptions, arguments)
    console, out = Console(stderr=True), locations.shown(given.out)
    knowledge = KnowledgeBase.load(given.knowledge)
    config = SimulationConfig(panel=PanelConfig(caution=given.caution))
    whole_test = given.test_fraction if given.whole_patient else None
    simulator = Simulator(knowledge, config, given.seed, whole_test)
    with output_directory(given.out, given.overwrite) as output, progress_bar(console) as bar:
        made = simulated(simulator, given.vignettes, os.cpu_count() or 1)
        vignettes = list(tracked(made, bar, "simulate", given.vignettes))
        shown = functools.partial(tracked, bar=bar, description="write", total=len(vignettes))
        written = write_splits(vignettes, output.staging, given.test_fraction, given.seed, shown)
        stats = _header(knowledge, given, config) | written
        describe(output.staging, knowledge.catalogue.vocabulary, stats)
        output.publish()
    if given.json != "-":
        sizes = ", ".join(f"{split} {part['vignettes']:,}" for split, part in stats["splits"].items())
        say(Console(), f"{out}: {sizes} vignettes of {len(knowledge.conditions)} conditions")
    json_output.write({"out": out, **stats}, given.json)
    say_result(console, out, f"triage train --data {out} --job-dir DIR")
    return 0


def _header(knowledge: KnowledgeBase, given: SimulateOptions, config: SimulationConfig) -> dict[str, Any]:
    return {
        "format": "simulate",
        "sources": [],
        "options": {
            "knowledge_fingerprint": knowledge.fingerprint,
            "simulation": config.to_dict(),
            **({directories.WHOLE_PATIENT: True} if given.whole_patient else {}),
        },
        "seed": given.seed,
        "test_fraction": float(given.test_fraction),
        "vocabulary_fingerprint": knowledge.catalogue.vocabulary.fingerprint,
    }
