"""The figures of `triage evaluate` on the terminal; the tables fit into 80 columns."""

from collections.abc import Iterable, Mapping

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainer.evaluation.estimates import Calibration, Estimate, RuleEffect, SliceFigures, bracketed
from trainer.evaluation.frontier import HandedOver, Point
from trainer.reports.agent_report import AgentReport
from trainer.reports.comparison import comparison_table
from triage_runtime.command_line.progress import print_table

_QUALITY = ("appropriateness", "safety", "over_triage", "under_triage")
_NARROW = (0, 1, 0, 0)


def print_report(report: AgentReport, details: bool, with_slices: bool = False) -> None:
    """Prints the verdict, if there is one, and the agent beside the clinicians.

    Args:
        report: on the agent.
        details: also calibration, the frontier, constant policies, and slices.
        with_slices: also the slices.
    """
    console = Console(highlight=False)
    if report.comparison.verdict:
        console.print(Text(f"{report.comparison.verdict}\n", style="bold"))
    compared = comparison_table(report.comparison, report.human_minimum_decisions, rules=False)
    console.print(
        f"{report.split} split: {report.vignettes:,} vignettes, each in {report.orders} evidence orders; "
        f"agent after {report.training['steps']:,} steps.\n{compared.caption}."
    )
    table = Table(*compared.columns, box=box.SIMPLE, padding=0, show_edge=False)
    for row in compared.rows:
        table.add_row(*row)
    print_table(table)
    if details:
        _print_details(console, report)
    if details or with_slices:
        print_table(_slices_table(report.slices))
    if not details:
        console.print("All figures: --details, or as a page: --html FILE.")


def print_rule_effect(effect: RuleEffect) -> None:
    """Prints what safety rules change, judged by all clinicians."""
    console = Console(highlight=False)
    console.print(
        f"Safety rules ({effect.rules['source']}, {len(effect.rules['rules'])} of them): they change the "
        f"decision in {effect.changed:.1%} of the episodes."
    )
    table = Table("", "without", "with", "difference", box=box.SIMPLE)
    for name, compared in effect.metrics.items():
        table.add_row(_words(name), *map(bracketed, compared))
    print_table(table)


def _print_details(console: Console, report: AgentReport) -> None:
    table = Table("judged by all", *map(_words, _QUALITY), box=box.SIMPLE, padding=_NARROW)
    for name, estimates in {"agent": report.agent, **report.constants}.items():
        table.add_row(name, *(_mean(estimates[metric]) for metric in _QUALITY))
    print_table(table)
    if report.calibration is not None:
        best = report.calibration["best_decision"]
        console.print(
            f"Calibration at the decision: mean Q of the triage {_mean(best.predicted)}, appropriate "
            f"{_mean(best.observed)}, error {bracketed(best.expected_calibration_error)}, Brier score "
            f"{bracketed(best.brier_score)}."
        )
    if report.probabilities is not None:
        print_table(_probabilities_table(report.probabilities))
    if report.frontier is not None:
        print_table(_frontier_table(report, report.frontier))
    if report.handing_over:
        print_table(_handing_over_table(report.handing_over))


def _frontier_table(report: AgentReport, points: Iterable[Point]) -> Table:
    """Returns the frontier of the safety weights; the agent's own is marked, and the clinicians come last."""
    columns = ("appropriateness", "safety", "over_triage", "red_sensitivity")
    table = Table(
        "weight", "price or\nthreshold", "appro-\npriate", "safe", "over-\ntriage", "red", "ques-\ntions",
        "evi-\ndence", "forced",
        title="Decisions by P(appropriate) + weight x P(safe); * is this agent", box=box.SIMPLE, padding=_NARROW,
    )  # fmt: skip
    for point in points:
        shares = (point.appropriateness, point.safety, point.over_triage, point.red_sensitivity)
        quality = ("-" if share is None else f"{share:.3f}" for share in shares)
        effort = (f"{point.questions:.1f}", f"{point.evidence_seen:.1f}", f"{point.forced:.2f}")
        until = f"{point.price:.2g}" + ("" if point.sure_enough is None else f" or {point.sure_enough:g}")
        table.add_row(f"{point.safety_weight:g}{' *' if point.chosen else ''}", until, *quality, *effort)
    if report.human is not None:
        clinicians = {**report.human, **(report.human_agreement or {})}
        table.add_row("clinicians", "", *(_mean(clinicians.get(name)) for name in columns), "-", "all", "-")
    return table


def _handing_over_table(rows: Iterable[HandedOver]) -> Table:
    table = Table(
        "hand over", "handed\nover", "under-triage\nof the others", "Red that leave\nbelow Red",
        title="Handing over, by a caller's defer_below and as a promise does", box=box.SIMPLE,
    )  # fmt: skip
    for row in rows:
        by_red = row.hand_over_from is not None
        rule = f"below Red, P(Red) >= {row.hand_over_from:g}" if by_red else f"P(safe) < {row.defer_below:g}"
        shares = (row.handed_over, row.under_triage, row.red_missed)
        table.add_row(rule, *("-" if share is None else f"{share:.1%}" for share in shares))
    return table


def _probabilities_table(probabilities: Mapping[str, Mapping[str, Calibration]]) -> Table:
    table = Table("", "mean", "true share", "calibration error", box=box.SIMPLE, title="Probabilities at the decision")
    for part, text in (("own_decision", "of its decision"), ("every_decision", "of all four")):
        for name, calibrated in probabilities[part].items():
            means = map(_mean, (calibrated.predicted, calibrated.observed))
            table.add_row(f"P({name}) {text}", *means, bracketed(calibrated.expected_calibration_error))
    return table


def _slices_table(slices: Iterable[SliceFigures]) -> Table:
    table = Table("slice", "n", "appropriateness", "safety", "questions", box=box.SIMPLE)
    before = None
    for entry in slices:
        if entry.by != before:
            before = entry.by
            table.add_row(Text(entry.by))  # Text, because a tag may contain markup
        cells = (bracketed(entry.metrics[metric], ".2f") for metric in ("appropriateness", "safety"))
        questions = f"{entry.metrics['questions'].mean:.1f}"
        table.add_row(Text(f"  {entry.value}"), f"{entry.vignettes:,}", *cells, questions)
    return table


def _mean(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{estimate.mean:.3f}"


def _words(name: str) -> str:
    return name.replace("_", " ")
