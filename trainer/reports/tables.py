"""The tables of `triage evaluate`: the terminal prints them and the page shows them, from one list of rows each."""

import itertools
from collections.abc import Mapping

from rich import box, table
from rich.console import Console
from rich.text import Text

from trainer.data.textbook_case import EMERGENCY
from trainer.evaluation.cases import TOO_LATE, WITH, CaseResults, Miss, TextbookFigures
from trainer.evaluation.estimates import Calibration, RuleEffect, SliceFigures, bracketed
from trainer.evaluation.metrics import exact_share
from trainer.evaluation.slices import MINIMUM_VIGNETTES
from trainer.reports.agent_report import AgentReport
from trainer.reports.comparison import comparison_table
from trainer.reports.numbers import (
    APPROPRIATENESS,
    IN_INTERVIEWS,
    IN_RANDOM_ORDER,
    MEASURES,
    NONE,
    OVER_TRIAGE,
    QUESTIONS,
    SAFETY,
    UNDER_TRIAGE,
    Table,
    count,
    difference,
    several,
    shown,
    with_interval,
    with_interval_if_enough,
)
from triage_runtime.command_line.progress import print_table, say

_MOST_GAPS = 20
_SLICES = {"majority": "clinicians' majority", "evidence": "pieces of evidence"}
_READINGS = {"all_evidence": "All evidence", "interview": "Interview"}


def print_report(report: AgentReport, details: bool, with_slices: bool = False, rules: bool = False) -> None:
    """Prints the agent beside the clinicians and the verdict, if there is one; with `details` all tables."""
    console = Console(highlight=False)
    print_rows(interviews(report))
    console.print(
        f"{report.split} split: {report.vignettes:,} vignettes, each in {report.orders} evidence orders; "
        f"agent after {report.training['steps']:,} steps."
    )
    print_rows(random_order(report, rules))
    if verdict := (report.interviews or report.comparison).verdict:
        console.print(Text(verdict, style="bold"))
    if rules and report.safety_rules is not None:
        console.print(rule_effect(report.safety_rules))
    if details:
        for make in (constants, calibration, handing_over, confusion, gaps):
            print_rows(make(report))
    if details or with_slices:
        print_rows(slices(report))
    if not details:
        console.print("All figures: --details, or as a page: --html FILE.")


def print_rows(rows: Table | None) -> None:
    """Prints a table, if there is one, as it is: a tag or a title may contain markup."""
    if rows is None:
        return
    say(Console(), f"{rows.caption}:")
    printed = table.Table(*rows.columns, box=box.SIMPLE, padding=(0, 1, 0, 0))
    for row in rows.rows:
        printed.add_row(*map(Text, row))
    print_table(printed)


def interviews(report: AgentReport) -> Table | None:
    """Returns the agent compared with the clinicians in interviews, emergencies first; None if it held none."""
    if report.interviews is None:
        return None
    table = comparison_table(report.interviews, report.human_minimum_decisions, measures=IN_INTERVIEWS)
    table = table._replace(caption=f"Interviews: {table.caption}")
    textbook = report.textbook_cases and report.textbook_cases.served.interview
    if not textbook or EMERGENCY not in textbook.categories:
        return table
    counted = textbook.categories[EMERGENCY]
    in_time = exact_share(counted.cases - counted.too_late, counted.cases)
    measure = f"Textbook emergencies in time, of {counted.cases}"
    row = (measure, with_interval(SAFETY, in_time), *(NONE,) * (len(table.columns) - 2))
    return table._replace(rows=(row, *table.rows))


def random_order(report: AgentReport, rules: bool = True) -> Table:
    """Returns the agent beside the clinicians on evidence in random order; with `rules`, also with safety rules.

    Red cases are left out where there are interviews to find them in.
    """
    measures = MEASURES if report.interviews is None else IN_RANDOM_ORDER
    table = comparison_table(report.comparison, report.human_minimum_decisions, rules, measures)
    return table._replace(caption=f"Evidence in random order: {table.caption}")


def rule_effect(effect: RuleEffect) -> str:
    """Returns how many safety rules there are, and how often they change the decision."""
    return (
        f"{several(len(effect.rules['rules']), 'safety rule')} ({effect.rules['source']}) change the decision in "
        f"{shown(SAFETY, effect.changed)} of the episodes."
    )


def constants(report: AgentReport) -> Table:
    """Returns the quality of the agent and of the policies that always decide the same."""
    measures = (APPROPRIATENESS, SAFETY, OVER_TRIAGE, UNDER_TRIAGE)
    rows = (
        (name, *(shown(measure, estimates[measure.key].mean) for measure in measures))
        for name, estimates in {"agent": report.agent, **report.constants}.items()
    )
    return Table("Scored against all clinicians", ("", *(measure.label for measure in measures)), tuple(rows))


def calibration(report: AgentReport) -> Table | None:
    """Returns the agent's probabilities of its decisions beside the outcomes; None if it gives none."""
    said: dict[str, Calibration] = {}
    for part, text in (("own_decision", "of its decision"), ("every_decision", "of all four")):
        for name, calibrated in (report.probabilities or {}).get(part, {}).items():
            said[f"P({name}) {text}"] = calibrated
    if report.calibration is not None:
        said["Q-value of its decision"] = report.calibration["best_decision"]
    rows = tuple(
        (name, f"{each.predicted.mean:.3f}", f"{each.observed.mean:.3f}", bracketed(each.expected_calibration_error),
         bracketed(each.brier_score))
        for name, each in said.items()
    )  # fmt: skip
    columns = ("", "Mean", "True share", "Calibration error", "Brier score")
    return Table("Calibration at the decision", columns, rows) if rows else None


def handing_over(report: AgentReport) -> Table | None:
    """Returns the cost of handing over, and the remaining risk; None for an agent without probabilities."""
    rows = []
    for point in report.handing_over or ():
        by_red = point.hand_over_from is not None
        rule = f"below Red, P(Red) >= {point.hand_over_from:g}" if by_red else f"P(safe) < {point.defer_below:g}"
        shares = (point.handed_over, point.under_triage, point.red_missed)
        rows.append((rule, *(shown(SAFETY, share) for share in shares)))
    columns = ("Handed over", "Share", "Under-triage of the others", "Red decided below Red")
    caption = "Handing over, by a caller's defer_below and as a promise does"
    return Table(caption, columns, tuple(rows)) if rows else None


def confusion(report: AgentReport) -> Table:
    """Returns the confusion matrix in shares of each row; a row with too few vignettes has none."""
    labels, rows = report.confusion.labels, []
    for label, row in zip(labels, report.confusion.matrix, strict=True):
        total = sum(row)
        enough = total >= MINIMUM_VIGNETTES
        rows.append((f"A clinician: {label}", *(shown(SAFETY, each / total if enough else None) for each in row)))
    columns = ("", *(f"The agent: {label}" for label in labels))
    return Table("Shares of the decisions of a clinician", columns, tuple(rows))


def gaps(report: AgentReport) -> Table | None:
    """Returns the groups of patients for whom the agent is worse than for the others, the widest gap first."""
    measures = {measure.key: measure for measure in (SAFETY, APPROPRIATENESS)}
    rows = tuple(
        (
            _slice_name(gap.by, gap.value, report.slice_names),
            count(gap.vignettes),
            measures[gap.metric].label,
            shown(SAFETY, gap.mean),
            shown(SAFETY, gap.others),
            difference(SAFETY, gap.difference),
        )
        for gap in sorted(report.gaps.worse, key=lambda gap: gap.difference.mean)[:_MOST_GAPS]
    )
    columns = ("Group", "Vignettes", "Measure", "There", "Elsewhere", "Difference (95% interval)")
    return Table("Groups in which the agent is worse than on all others", columns, rows) if rows else None


def slices(report: AgentReport, most: int | None = None) -> Table | None:
    """Returns the figures of each slice, with `most` of a tag's only so many, the largest; None without slices."""
    measures = (APPROPRIATENESS, SAFETY, QUESTIONS)
    kinds: dict[str, list[SliceFigures]] = {}
    for entry in report.slices:
        kinds.setdefault(entry.by, []).append(entry)
    rows = []
    for by, entries in kinds.items():
        largest = sorted(entries, key=lambda entry: -entry.vignettes)[: most if by.startswith("tag") else None]
        rows += [
            (
                _slice_name(by, entry.value, report.slice_names),
                count(entry.vignettes),
                *(with_interval_if_enough(measure, entry.metrics[measure.key]) for measure in measures),
            )
            for entry in entries
            if entry in largest
        ]
    columns = ("Group", "Vignettes", *(measure.label for measure in measures))
    caption = "Mean (95% interval)" + ("" if most is None else f", of each tag the {most} largest")
    return Table(caption, columns, tuple(rows)) if rows else None


def _slice_name(by: str, value: str, names: Mapping[str, str]) -> str:
    """Returns the name of a slice, such as "age: 75 years old or over"; `names` are those of codes."""
    kind, _, rest = by.partition(":")
    return f"{names.get(rest, rest) or _SLICES.get(kind, kind)}: {value}".replace("_", " ")


def late_emergencies(textbook: TextbookFigures) -> str:
    """Returns the textbook emergencies triaged too late in interviews, with their decisions; "" if there are none."""
    misses = textbook.served.interview.misses
    late = [miss for miss in misses if miss.category == EMERGENCY and miss.verdict == TOO_LATE]
    return "; ".join(f"{miss.title} ({miss.decision})" for miss in late)


def textbook_cases(textbook: TextbookFigures) -> Table:
    """Returns how many textbook cases were right, too late and too early, by category and reading."""
    readings = _readings(textbook)
    rows = []
    for name, counted in textbook.without_rules.interview.categories.items():
        cells = (each.categories[name] for each in readings.values())
        right = (f"{each.right} ({each.too_late} late, {each.too_early} early)" for each in cells)
        rows.append((_words(name), count(counted.cases), *right))
    questions = ", ".join(f"{_words(name)} {played.questions:.1f}" for name, played in textbook.played.items())
    caption = f"Textbook cases that are right; mean questions in an interview: {questions}"
    return Table(caption, ("Category", "Cases", *readings), tuple(rows))


def missed_cases(textbook: TextbookFigures) -> Table | None:
    """Returns the cases that are missed in any reading, with their decisions; None if there are none."""
    missed = [{miss.vignette_id: miss for miss in reading.misses} for reading in _readings(textbook).values()]
    rows = []
    for vignette_id in dict.fromkeys(itertools.chain.from_iterable(missed)):
        misses = [each.get(vignette_id) for each in missed]
        one = next(miss for miss in misses if miss is not None)
        rows.append((one.title, "/".join(one.allowed), *map(_decision, misses)))
    caption = "Missed cases, with the decision; ! is less urgent than allowed"
    return Table(caption, ("Case", "Allowed", *_readings(textbook)), tuple(rows)) if rows else None


def _readings(textbook: TextbookFigures) -> dict[str, CaseResults]:
    """Returns what was played, by its name as a column."""
    return {
        f"{_READINGS[name]}{', with rules' if rules == WITH else ''}": reading
        for rules, played in textbook.played.items()
        for name, reading in played.readings.items()
    }


def _decision(miss: Miss | None) -> str:
    if miss is None:
        return ""
    return miss.decision + (" !" if miss.verdict == TOO_LATE else "")


def _words(name: str) -> str:
    return name.replace("self_care", "self-care").replace("_", " ")
