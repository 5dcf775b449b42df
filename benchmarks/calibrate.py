"""Refits the constants of the vignette simulator to the paper's table of vignette statistics.

    python benchmarks/calibrate.py [--json FILE]

Starts from `trainer/simulation/config.py`, moves the constants that `FITTED` names (Nelder and Mead's
method, the same random numbers in each evaluation), and prints the table before and after and the fitted constants,
which have to be copied into that file by hand. The loss is the sum of squared differences from the paper, each divided
by its tolerance: 5% or .02 for a mean, 15% for a standard deviation. The difficulty of the vignettes is not part of it:
see docs/simulator.md.
"""

import argparse
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.optimize
from rich.console import Console
from rich.table import Table

from trainer.commands.simulate import PAPER_VIGNETTES
from trainer.evaluation.vignette_statistics import PAPER, Moments, Sums
from trainer.simulation.config import SimulationConfig
from trainer.simulation.knowledge_base import KnowledgeBase
from trainer.simulation.simulator import BLOCK, Simulator
from triage_runtime.command_line import json_output

SEEDS = range(6)
EVALUATIONS = 400
# Constants that are fitted: (path, place in a tuple or None, lowest, highest).
FITTED: tuple[tuple[str, int | None, float, float], ...] = (
    ("card.symptoms_present", 0, 2.0, 6.0),
    ("card.symptoms_present", 1, 1.0, 4.0),
    ("card.risk_factors_present", 0, 0.3, 2.0),
    ("card.risk_factors_present", 1, 0.5, 2.0),
    ("panel.over_triage_losses", 0, 0.1, 10.0),
    ("panel.over_triage_losses", 1, 0.1, 10.0),
    ("panel.over_triage_losses", 2, 0.1, 10.0),
    ("panel.risk_aversion_spread", None, 0.0, 2.0),
    ("panel.risk_aversion_noise", None, 0.0, 2.0),
    ("panel.experience_noise", None, 0.0, 2.0),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    json_output.add_argument(parser)
    arguments = parser.parse_args()
    knowledge, start = KnowledgeBase.load(), SimulationConfig()
    first = np.array([_get(start, path, place) for path, place, _, _ in FITTED])
    console = Console(stderr=True)

    def evaluate(point: np.ndarray) -> float:
        value = loss(moments(knowledge, _config(start, point), SEEDS))
        console.print(f"{value:9.3f}  " + " ".join(f"{number:.3f}" for number in point), highlight=False)
        return value

    bounds = [(low, high) for _, _, low, high in FITTED]
    limit = {"maxfev": EVALUATIONS, "xatol": 1e-3, "fatol": 1e-3, "adaptive": True}
    optimum = scipy.optimize.minimize(evaluate, first, method="Nelder-Mead", bounds=bounds, options=limit)
    fitted = _config(start, optimum.x)
    before, after = (moments(knowledge, config, SEEDS) for config in (start, fitted))
    show(before, after)
    for (path, place, _, _), value in zip(FITTED, optimum.x, strict=True):
        Console().print(f"{path}{'' if place is None else f'[{place}]'} = {value:.3f}", highlight=False)
    json_output.write({"loss": float(optimum.fun), "config": fitted.to_dict()}, arguments.json)


def moments(knowledge: KnowledgeBase, config: SimulationConfig, seeds: Sequence[int]) -> dict[str, Moments]:
    """Returns the figures of the paper's table over the default number of vignettes of each seed."""
    risk_factors = {entry.code for entry in knowledge.catalogue.of_kind("risk_factor")}
    sums = Sums()
    for seed in seeds:
        simulator = Simulator(knowledge, config, seed)
        blocks = range(-(-PAPER_VIGNETTES // BLOCK))
        vignettes = [vignette for number in blocks for vignette in simulator.block(number)][:PAPER_VIGNETTES]
        counts = [[len(v.present), len(v.absent), *(sum(c in risk_factors for c in s) for s in (v.present, v.absent))]
                  for v in vignettes]  # fmt: skip
        present, absent, risks_present, risks_absent = np.array(counts).T
        evidence = np.stack([present - risks_present, absent - risks_absent, risks_present, risks_absent], axis=1)
        sums.add(evidence, np.array([vignette.decision_counts for vignette in vignettes]))
    return sums.moments()


def loss(moments: Mapping[str, Moments]) -> float:
    """Returns the squared differences from the paper in units of their tolerances, summed."""
    total = 0.0
    for name, paper in PAPER.items():
        total += ((moments[name].mean - paper.mean) / max(0.05 * paper.mean, 0.02)) ** 2
        if not math.isnan(paper.sd):
            total += ((moments[name].sd - paper.sd) / (0.15 * paper.sd)) ** 2
    return total


def show(before: Mapping[str, Moments], after: Mapping[str, Moments]) -> None:
    table = Table()
    for heading in ("", "before", "after", "paper"):
        table.add_column(heading)
    for name, paper in PAPER.items():
        table.add_row(name, *(f"{m.mean:.3f} ({m.sd:.3f})" for m in (before[name], after[name], paper)))
    Console().print(table)


def _get(config: Any, path: str, place: int | None) -> float:
    for name in path.split("."):
        config = getattr(config, name)
    return float(config if place is None else config[place])


def _config(start: SimulationConfig, point: np.ndarray) -> SimulationConfig:
    config = start
    for (path, place, _, _), value in zip(FITTED, point, strict=True):
        config = _replaced(config, path.split("."), place, float(value))
    return config


def _replaced(config: Any, names: Sequence[str], place: int | None, value: float) -> Any:
    old = getattr(config, names[0])
    if len(names) > 1:
        new = _replaced(old, names[1:], place, value)
    else:
        new = value if place is None else (*old[:place], value, *old[place + 1 :])
    return dataclasses.replace(config, **{names[0]: new})


if __name__ == "__main__":
    main()
