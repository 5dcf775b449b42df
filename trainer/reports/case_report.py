"""`triage evaluate --cases`: plays a trained agent on textbook cases, and lists every case that it misses."""

import dataclasses
import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from schemas import safety_rules
from schemas.errors import InputError
from schemas.safety_rules import RuleSet
from schemas.triage import DECISION_LABELS
from trainer.decision.rules import RuleGraph
from trainer.dyqn.rollout import greedy_policy
from trainer.evaluation import cases
from trainer.evaluation.case_play import play_cases
from trainer.training import operating_point_options
from trainer.training.job import TrainedNetwork, load_network
from trainer.training.operating_point_options import OperatingPointOptions
from trainer.vignettes.textbook_case import CATEGORIES, TextbookCase, read_cases
from triage_runtime.command_line import figures
from triage_runtime.command_line.progress import print_table
from triage_runtime.storage import locations

WITHOUT, WITH = "without_rules", "with_rules"
_NARROW = (0, 1, 0, 0)


@dataclasses.dataclass(frozen=True)
class CaseOptions:
    """The options of `triage evaluate --cases`, see its help."""

    job_dir: pathlib.Path
    step: int | None
    cases: pathlib.Path
    rules: pathlib.Path | None
    json: str | pathlib.Path | None


def run(given: CaseOptions, point: OperatingPointOptions) -> None:
    """Runs `triage evaluate --cases`.

    Raises:
        InputError: the cases, the job directory or the rules cannot be read, or do not fit each other.
    """
    trained = operating_point_options.apply(point, load_network(given.job_dir, given.step), given.job_dir)
    textbook = read_cases(given.cases, trained.vocabulary)
    rules = safety_rules.NO_RULES
    if given.rules is not None:
        rules, _ = safety_rules.choose(str(given.rules), trained.vocabulary)
        if not len(rules):
            raise InputError("--rules none: there are no rules to compare with: leave the option out")
    report: dict[str, Any] = {
        "job_dir": locations.shown(given.job_dir),
        "cases": locations.shown(given.cases),
        "training": trained.training,
        "safety_rules": rules.described() if len(rules) else None,
        **case_figures(textbook, trained, rules),
    }
    if given.json != "-":
        print_report(report)
    figures.write(report, given.json)


def case_figures(textbook: Sequence[TextbookCase], trained: TrainedNetwork, rules: RuleSet) -> dict[str, Any]:
    """Returns `cases.figures` of the agent `WITHOUT`, and `WITH` rules if there are any."""
    policies = {WITHOUT: greedy_policy(trained.model, point=trained.operating_point)}
    if len(rules):
        policies[WITH] = greedy_policy(
            trained.model, RuleGraph(rules.rules, trained.vocabulary), trained.operating_point
        )
    return {
        name: cases.figures(textbook, play_cases(policy, textbook, trained.vocabulary, trained.max_questions))
        for name, policy in policies.items()
    }


def print_report(report: Mapping[str, Any]) -> None:
    """Prints the report of `run`, as `--json` writes it, within 80 columns."""
    console = Console(highlight=False)
    total = report[WITHOUT][cases.READINGS[0]]["categories"]["all"]["cases"]
    console.print(f"{total:,} textbook cases; agent after {report['training']['steps']:,} steps.")
    played = {name: report[name] for name in (WITHOUT, WITH) if name in report}
    for name, results in played.items():
        for reading in cases.READINGS:
            questions = f" ({results['questions']:.1f} questions on average)" if reading == "interview" else ""
            console.print(f"\n{_words(reading).capitalize()}, {_words(name)}{questions}")
            print_table(_counts_table(results[reading]["categories"]))
    console.print("\nMissed cases, with the decision; ! is less urgent than allowed.")
    print_table(_misses_table(played))


def _counts_table(categories: Mapping[str, Any]) -> Table:
    table = Table("", "cases", "right", "late", "early", *DECISION_LABELS, box=box.SIMPLE, padding=_NARROW)
    for name, row in categories.items():
        label = f"{_words(name)} ({CATEGORIES[name].label})" if name in CATEGORIES else name
        numbers = [row["cases"], *(row[verdict] for verdict in cases.VERDICTS), *row["decisions"].values()]
        table.add_row(label, *map(str, numbers))
    return table


def _misses_table(played: Mapping[str, Any]) -> Table:
    """Returns the cases that are missed in any reading, with the decision in each reading that misses them."""
    table = Table("case", "allowed", box=box.SIMPLE, padding=_NARROW)
    missed: list[dict[str, Any]] = []
    for name, results in played.items():
        for reading in cases.READINGS:
            heading = _words(reading).replace(" ", "\n")
            table.add_column(f"{heading}\n+ rules" if name == WITH else heading)
            missed.append({row["vignette_id"]: row for row in results[reading]["misses"]})
    for vignette_id in dict.fromkeys(itertools.chain.from_iterable(missed)):
        rows = [misses.get(vignette_id) for misses in missed]
        one = next(row for row in rows if row is not None)
        # Text, because a title may contain markup.
        table.add_row(Text(one["title"]), "/".join(one["allowed"]), *map(_decision, rows))
    return table


def _decision(miss: Mapping[str, Any] | None) -> str:
    if miss is None:
        return ""
    return miss["decision"] + (" !" if miss["verdict"] == cases.TOO_LATE else "")


def _words(name: str) -> str:
    return name.replace("self_care", "self-care").replace("_", " ")
