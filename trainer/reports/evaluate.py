"""The work of `triage evaluate`; its options are in `trainer.commands.evaluate`."""

import argparse
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from schemas import directories, safety_rules
from schemas.errors import InputError
from schemas.safety_rules import RuleSet
from trainer.data.arrays import VignetteArrays
from trainer.data.textbook_case import read_cases
from trainer.data.tfrecord import DataDirectory
from trainer.evaluation.cases import TextbookFigures
from trainer.evaluation.options import EvaluateOptions
from trainer.reports import agent_page, agent_report, page, question_report, tables
from trainer.reports.agent_report import AgentReport
from trainer.training.agent_options import OperatingPointOptions
from trainer.training.job import TrainedNetwork, load_network
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.progress import say, say_result
from triage_runtime.storage import locations


def run(arguments: argparse.Namespace) -> int:
    """Measures the agent, prints the figures and writes the files that the options name; returns 0.

    Raises:
        InputError: the agent, the data and the options do not fit each other, or a file cannot be written.
    """
    given, point = options.read(EvaluateOptions, arguments), options.read(OperatingPointOptions, arguments)
    if given.data is None and given.cases is not None:
        _on_cases(given, given.cases, point)
    elif given.questions:
        figures = json_output.plain(question_report.report(given, *_load(given, point)))
        if given.json != "-":
            question_report.print_report(figures, given.details)
        json_output.write(figures, given.json)
    else:
        _print(given, measured(given, point))
    _say_end(given)
    return 0


def measured(given: EvaluateOptions, point: OperatingPointOptions) -> AgentReport:
    """Returns the figures of the agent on vignettes, after writing the files that the options name.

    Raises:
        InputError: see `run`.
    """
    data, trained, vignettes = _load(given, point)
    rules, no_rules = _rules(given, trained)
    report = agent_report.agent_report(given, data, trained, vignettes, rules)
    report = report._replace(no_safety_rules=no_rules)
    json_output.write(report.described(), given.json)
    if given.html is not None:
        page.write(agent_page.agent_page(report, page.provenance()), given.html, "--html")
    return report


def _print(given: EvaluateOptions, report: AgentReport) -> None:
    for caution in report.cautions:
        sys.stderr.write(f"warning: {caution}\n")
    if given.json == "-":
        return
    tables.print_report(report, given.details, bool(given.slice), given.details or given.rules is not None)
    if report.textbook_cases is not None and (given.details or given.cases):
        _print_cases(report.textbook_cases, report.training["steps"])


def _on_cases(given: EvaluateOptions, path: pathlib.Path, point: OperatingPointOptions) -> None:
    trained = point.apply(load_network(given.job_dir, given.step), given.job_dir)
    rules, _ = _rules(given, trained)
    played = agent_report.case_figures(path, read_cases(path, trained.vocabulary), trained, rules)
    if given.json != "-":
        _print_cases(played, trained.training["steps"])
    figures: Mapping[str, Any] = {
        "job_dir": locations.shown(given.job_dir),
        "cases": played.cases,
        "training": trained.training,
        "safety_rules": rules.described() if len(rules) else None,
        **played.described(),
    }
    json_output.write(figures, given.json)


def _print_cases(textbook: TextbookFigures, steps: int) -> None:
    """Prints the figures of an agent after so many steps."""
    total = textbook.without_rules.interview.categories["all"].cases
    say(Console(), f"{total:,} textbook cases; agent after {steps:,} steps.")
    tables.print_rows(tables.textbook_cases(textbook))
    tables.print_rows(tables.missed_cases(textbook))


def _rules(given: EvaluateOptions, trained: TrainedNetwork) -> tuple[RuleSet, str]:
    """Returns the rules to play the agent with, too, and why there are none, "" otherwise."""
    if given.rules is None and given.html is None:
        return safety_rules.NO_RULES, "not asked for: give --rules, or --html"
    rules, remark = safety_rules.choose(None if given.rules is None else str(given.rules), trained.vocabulary)
    if given.rules is not None and not len(rules):
        raise InputError("--rules none: there are no rules to compare with: leave the option out")
    return rules, remark


def _load(given: EvaluateOptions, point: OperatingPointOptions) -> tuple[DataDirectory, TrainedNetwork, VignetteArrays]:
    """Returns the data, the agent and the vignettes that the options name."""
    if given.data is None:
        raise InputError("expected --data with vignettes")
    data = DataDirectory.open(given.data)
    trained = point.apply(load_network(given.job_dir, given.step), given.job_dir)
    data.require_vocabulary(trained.vocabulary, given.job_dir / directories.VOCABULARY)
    return data, trained, data.read(given.split, needed=True)


def _say_end(given: EvaluateOptions) -> None:
    """Says where the figures are, and what follows."""
    files = (given.html, given.json)
    written = [locations.shown(path) for path in files if path is not None and path != "-"]
    result = ", ".join(written) or ("the JSON" if "-" in files else "the tables")
    following = f"triage export --job-dir {locations.shown(given.job_dir)} --model-base-path models"
    data = f" --data {locations.shown(given.data)}" if given.data else ""
    say_result(Console(stderr=True), result, following + data)
