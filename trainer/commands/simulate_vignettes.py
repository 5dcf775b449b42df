"""The work of `triage simulate`; its options are in `trainer.commands.simulate`."""

import argparse
import functools
import os
from typing import Any

from rich.console import Console

from schemas import directories
from trainer.commands.simulate import SimulateOptions
from trainer.data.data_writer import write_splits
from trainer.data.output import describe, output_directory
from trainer.simulation.config import PanelConfig, SimulationConfig
from trainer.simulation.knowledge_base import KnowledgeBase
from trainer.simulation.simulator import Simulator, simulated
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.progress import progress_bar, say, say_result, tracked
from triage_runtime.storage import locations


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
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
