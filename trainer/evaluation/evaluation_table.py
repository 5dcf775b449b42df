"""The figures of `triage evaluate` on the terminal, within 80 columns."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_QUALITY = ("appropriateness", "safety", "over_triage", "under_triage")


def print_report(report: Mapping[str, Any], with_slices: bool) -> None:
    """Prints the report of `trainer.evaluation.evaluate`.

    Args:
        report: as `--json` writes it.
        with_slices: also the slices, and the behaviour on vignettes with the tag `unseen`.
    """
    console = Console(highlight=False)
    console.print(
        f"{report['split']} split: {report['vignettes']:,} vignettes, each in {report['orders']} evidence orders; "
        f"agent\nafter {report['training']['steps']:,} steps.\n"
        f"Mean [95% bootstrap interval over vignettes]. Clinicians: each judged by the\n"
        f"others, on vignettes with {report['human_minimum_decisions']} decisions or more."
    )
    console.print(_agent_table(report))
    if report["calibration"] is not None:
        console.print(_calibration_line(report["calibration"]["best_decision"]))
    console.print(_constants_table(report["constants"]))
    if with_slices:
        console.print(_slices_table(report["slices"]))
        if report["unseen"] is not None:
            console.print(_unseen_table(report["unseen"]))


def _agent_table(report: Mapping[str, Any]) -> Table:
    table = Table("", "agent", "clinicians", box=box.SIMPLE)
    for agent, human in (("agent", "human"), ("agreement", "human_agreement")):
        for metric, estimate in report[agent].items():
            table.add_row(_words(metric), _cell(estimate), _cell((report[human] or {}).get(metric)))
    return table


def _calibration_line(best: Mapping[str, Any]) -> str:
    return (
        f"Calibration at the decision: mean Q of the triage {best['predicted']['mean']:.3f}, appropriate "
        f"{best['observed']['mean']:.3f},\n"
        f"error {_cell(best['expected_calibration_error'])}, Brier score {_cell(best['brier_score'])}."
    )


def _constants_table(constants: Mapping[str, Any]) -> Table:
    table = Table("constant policy", *map(_words, _QUALITY), box=box.SIMPLE)
    for name, estimates in constants.items():
        table.add_row(name, *(f"{estimates[metric]['mean']:.3f}" for metric in _QUALITY))
    return table


def _slices_table(slices: list[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE)
    table.add_column("slice", overflow="fold")
    for heading in ("n", "appropriateness", "safety", "questions"):
        table.add_column(heading, no_wrap=True)
    before = None
    for found in slices:
        if found["by"] != before:
            before = found["by"]
            table.add_row(Text(found["by"]))  # Text: a tag is no markup
        metrics = found["metrics"]
        cells = (_cell(metrics[metric], digits=2) for metric in ("appropriateness", "safety"))
        table.add_row(
            Text(f"  {found['value']}"), f"{found['vignettes']:,}", *cells, f"{metrics['questions']['mean']:.1f}"
        )
    return table


def _unseen_table(contrasts: Mapping[str, Any]) -> Table:
    table = Table("tag unseen", "with", "without", "difference", box=box.SIMPLE)
    for metric, contrast in contrasts.items():
        sides = (contrast["with_tag"], contrast["without_tag"], contrast["difference"])
        table.add_row(_words(metric), *(_cell(side, digits=1) for side in sides))
    return table


def _words(name: str) -> str:
    return name.replace("_", " ")


def _cell(estimate: Mapping[str, Any] | None, digits: int = 3) -> str:
    if estimate is None:
        return "-"
    mean = f"{estimate['mean']:.{digits}f}"
    if estimate["low"] is None:
        return mean
    return f"{mean} [{estimate['low']:.{digits}f}, {estimate['high']:.{digits}f}]"
