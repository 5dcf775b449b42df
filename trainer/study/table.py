"""A summary of a study's results on the terminal: the paper's table and the claims."""

import pathlib
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from triage_runtime.command_line.progress import print_table, say, say_result

_VERDICTS = {True: "yes", False: "no", None: "open"}


def print_results(results: Mapping[str, Any], out: pathlib.Path) -> None:
    """Prints the table of agents, the claims, and the failures."""
    console = Console()
    table = Table(title="test split, this study (paper)", title_justify="left")
    table.add_column("agent")
    for name in ("appropriateness", "safety", "questions", "evidence seen"):
        table.add_column(name, justify="right")
    for agent in results["agents"].values():
        cells = [_cell(agent, name) for name in ("appropriateness", "safety", "questions", "evidence_seen")]
        table.add_row(agent["label"], *cells)
    print_table(table)
    for each in results["claims"]:
        say(console, f"{_VERDICTS[each['holds']]:>4}  {each['claim']}. {each['numbers']}")
    for each in results["failures"]:
        say(console, f"failed: {each['task']}: {each['error']}")
    say_result(console, out, f"open {out / 'report.html'}")


def _cell(agent: Mapping[str, Any], name: str) -> str:
    figure, paper = agent["metrics"][name], agent["paper"].get(name)
    digits = 1 if name in ("questions", "evidence_seen") else 3
    spread = figure and figure["sd_over_seeds"]
    shown = "" if figure is None else f"{figure['mean']:.{digits}f}"
    shown += "" if spread is None else f" ± {spread:.{digits}f}"
    return shown if paper is None else f"{shown} ({paper:.2f})"
