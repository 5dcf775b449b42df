"""The results of `triage bench train`: figures for JSON, and a table."""

import os
import pathlib
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from schemas.triage import NUM_ACTIONS
from trainer.bench import floor, rounds
from trainer.bench.contestants import FLOOR, SB3, TF_AGENTS
from trainer.bench.settings import Settings
from trainer.progress import print_table

GOALS = {"ours: fused": 0.85, "ours: fused, bfloat16": 1.0}
"""The least share of the floor's speed that we aim at, in batches of `LARGE_BATCH` and more."""
LARGE_BATCH = 1000

_PEERS = {"tf_agents": "TF-Agents", "stable_baselines3": "SB3", "floor": "floor"}

Answers = Mapping[str, Sequence[Mapping[str, Any]]]


def report(settings: Settings, steps: int, answers: Answers) -> dict[str, Any]:
    """Returns the figures of one batch size.

    Args:
        settings: of the comparison.
        steps: training steps in a turn.
        answers: by contestant, one for each round: `seconds`, or the rates of the floor, and `peak_bytes`.
    """
    sizes = (settings.evidence_count, *settings.hidden_sizes, NUM_ACTIONS)
    rates = [floor.Rates(answer["products"], answer["bandwidth"]) for answer in answers[FLOOR]]
    floors = [floor.step_floor(sizes, settings.batch_size, settings.algorithm, rate) for rate in rates]
    times = {
        name: [1e3 * answer["seconds"] / steps for answer in given] for name, given in answers.items() if name != FLOOR
    }
    times[FLOOR] = [1e3 * bound.seconds for bound in floors]
    best = min(TF_AGENTS, key=lambda name: rounds.spread(times[name]).median)
    peers = {"tf_agents": times[best], "stable_baselines3": times.get(SB3), "floor": times[FLOOR]}
    contestants = {
        name: {
            "ms": rounds.spread(taken)._asdict(),
            "states_per_second": 1e3 * settings.batch_size / rounds.spread(taken).median,
            "speed_over": {
                peer: rounds.ratios(theirs, taken)._asdict() for peer, theirs in peers.items() if theirs is not None
            },
            "peak_bytes": max(answer["peak_bytes"] for answer in answers[name]),
        }
        for name, taken in times.items()
    }
    return {
        "batch_size": settings.batch_size,
        "algorithm": settings.algorithm,
        "sizes": list(sizes),
        "tf_agents_form": best,
        "floor": {
            "products_per_second": rounds.spread([rate.products for rate in rates])._asdict(),
            "bytes_per_second": rounds.spread([rate.bandwidth for rate in rates])._asdict(),
            "operations": floors[0].operations,
            "update_bytes": floors[0].update_bytes,
        },
        "contestants": contestants,
        "goals": _goals(contestants) if settings.batch_size >= LARGE_BATCH else {},
    }


def _goals(contestants: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the goal and the measured share of the floor's speed for each of ours that has one."""
    measured = {name: contestants[name]["speed_over"]["floor"]["median"] for name in GOALS}
    return {
        name: {"at_least": least, "measured": measured[name], "met": measured[name] >= least}
        for name, least in GOALS.items()
    }


def machine() -> dict[str, Any]:
    """Returns the processor and the versions that the figures depend on."""
    import numpy as np
    import tensorflow as tf

    model = platform.processor()
    described = pathlib.Path("/proc/cpuinfo")
    if described.exists():
        names = [line.partition(":")[2].strip() for line in described.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "numpy": np.__version__,
    }


def show(measured: Mapping[str, Any]) -> None:
    """Prints the figures of one batch size."""
    title = f"Batch {measured['batch_size']}, {measured['algorithm']}, {' - '.join(map(str, measured['sizes']))}"
    columns = (f"speed / {peer}" for peer in _PEERS.values())
    table = Table("", "ms a step", "states a second", *columns, "peak memory", title=title)
    for name, row in sorted(measured["contestants"].items(), key=lambda item: item[1]["ms"]["median"]):
        cells = [_speed(row["speed_over"].get(peer)) for peer in _PEERS]
        table.add_row(
            name,
            _range(row["ms"], 2),
            f"{row['states_per_second']:,.0f}",
            *cells,
            f"{row['peak_bytes'] / 2**20:,.0f} MiB",
        )
    print_table(table)
    console = Console()
    bound = measured["floor"]
    work = f"{bound['operations'] / 1e9:.2f} billion operations at {bound['products_per_second']['median'] / 1e9:.0f}"
    moved = f"{bound['update_bytes'] / 1e6:.0f} MB at {bound['bytes_per_second']['median'] / 1e9:.1f} GB/s"
    console.print(f"Dense floor: {work} billion a second, then {moved}.", highlight=False)
    console.print(f"TF-Agents: {measured['tf_agents_form']}. Medians over rounds (lowest - highest).", highlight=False)
    for name, goal in measured["goals"].items():
        met = "met" if goal["met"] else "NOT met"
        text = f"{name}: {goal['measured']:.0%} of the floor's speed, goal {goal['at_least']:.0%}, {met}"
        console.print(text, highlight=False)


def _speed(ratio: Mapping[str, float] | None) -> str:
    return "-" if ratio is None else _range(ratio, 2)


def _range(spread: Mapping[str, float], digits: int) -> str:
    return f"{spread['median']:.{digits}f} ({spread['low']:.{digits}f}-{spread['high']:.{digits}f})"
