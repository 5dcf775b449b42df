"""Plays a trained agent on textbook cases, and lists every case that it misses."""

import dataclasses
import itertools
import pathlib
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from schemas.safety_rules import RuleSet, SafetyRule
from schemas.triage import DECISION_LABELS
from trainer.dyqn.rollout import greedy_policy
from trainer.evaluation import cases
from trainer.evaluation.case_play import lead_cases, play_cases
from trainer.evaluation.cases import CaseFigures, Counted, Miss, TextbookFigures
from trainer.graph.questions import QuestionGraph
from trainer.graph.rules import RuleGraph
from trainer.training.job import TrainedNetwork
from trainer.vignettes.textbook_case import CATEGORIES, TextbookCase
from triage_runtime.command_line.progress import print_table
from triage_runtime.storage import locations

_NARROW = (0, 1, 0, 0)


def case_figures(
    path: str | pathlib.Path, textbook: Sequence[TextbookCase], trained: TrainedNetwork, rules: RuleSet
) -> TextbookFigures:
    """Returns the figures of the agent on the cases of `path`, also with rules if there are any."""
    point = dataclasses.replace(trained.operating_point, hand_over_from=None)
    network = trained.model if trained.has_probabilities else None

    def played(obeyed: Sequence[SafetyRule]) -> CaseFigures:
        rule_graph = RuleGraph(obeyed, trained.vocabulary) if obeyed else None
        policy = greedy_policy(trained.model, rule_graph, point)
        decided = play_cases(policy, textbook, trained.vocabulary, trained.max_questions)
        if trained.questions is not None:
            graph = QuestionGraph(trained.questions, trained.vocabulary, obeyed, point, network)
            interview, questions = lead_cases(
                trained.model, graph, rule_graph, point, textbook, trained.vocabulary, trained.max_questions
            )
            decided = decided._replace(interview=interview, questions=questions)
        return cases.figures(textbook, decided)

    with_rules = played(rules.rules) if len(rules) else None
    return TextbookFigures(locations.shown(path), played(()), with_rules)


def print_report(textbook: TextbookFigures, steps: int) -> None:
    """Prints the figures of an agent after so many steps, within 80 columns."""
    console = Console(highlight=False)
    total = textbook.without_rules.interview.categories["all"].cases
    console.print(f"{total:,} textbook cases; agent after {steps:,} steps.")
    for name, played in textbook.played.items():
        for label, reading in played.readings.items():
            questions = f" ({played.questions:.1f} questions on average)" if reading is played.interview else ""
            console.print(f"\n{_words(label).capitalize()}, {_words(name)}{questions}")
            print_table(_counts_table(reading.categories))
    console.print("\nMissed cases, with the decision; ! is less urgent than allowed.")
    print_table(_misses_table(textbook.played))


def _counts_table(categories: Mapping[str, Counted]) -> Table:
    table = Table("", "cases", "right", "late", "early", *DECISION_LABELS, box=box.SIMPLE, padding=_NARROW)
    for name, row in categories.items():
        label = f"{_words(name)} ({CATEGORIES[name].label})" if name in CATEGORIES else name
        *verdicts, decisions = row
        table.add_row(label, *map(str, [*verdicts, *decisions.values()]))
    return table


def _misses_table(played: Mapping[str, CaseFigures]) -> Table:
    """Returns the cases that are missed in any reading, with the decision in each reading that misses them."""
    table = Table("case", "allowed", box=box.SIMPLE, padding=_NARROW)
    missed: list[dict[str, Miss]] = []
    for name, results in played.items():
        for label, reading in results.readings.items():
            heading = _words(label).replace(" ", "\n")
            table.add_column(f"{heading}\n+ rules" if name == cases.WITH else heading)
            missed.append({miss.vignette_id: miss for miss in reading.misses})
    for vignette_id in dict.fromkeys(itertools.chain.from_iterable(missed)):
        rows = [misses.get(vignette_id) for misses in missed]
        one = next(row for row in rows if row is not None)
        # Text, because a title may contain markup.
        table.add_row(Text(one.title), "/".join(one.allowed), *map(_decision, rows))
    return table


def _decision(miss: Miss | None) -> str:
    if miss is None:
        return ""
    return miss.decision + (" !" if miss.verdict == cases.TOO_LATE else "")


def _words(name: str) -> str:
    return name.replace("self_care", "self-care").replace("_", " ")
