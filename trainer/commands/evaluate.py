"""`triage evaluate`: measures a trained agent on the vignettes of a data directory, on textbook cases, or on both."""

import argparse
import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from schemas.errors import InputError
from trainer.evaluation import question_options
from trainer.reports.evaluate_options import EvaluateOptions, add_arguments
from trainer.training import operating_point_options
from trainer.training.operating_point_options import OperatingPointOptions
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.progress import say_result
from triage_runtime.storage import locations

if TYPE_CHECKING:  # TensorFlow loads only when the command runs
    from trainer.reports.agent_report import AgentReport
    from trainer.training.job import TrainedNetwork
    from trainer.vignettes.arrays import VignetteArrays
    from trainer.vignettes.tfrecord import DataDirectory

__all__ = ["add_arguments", "check", "run"]


def check(arguments: argparse.Namespace) -> None:
    """Checks what can be checked before TensorFlow loads.

    Raises:
        InputError: neither vignettes nor cases are given, or a file cannot be written.
    """
    if arguments.data is None and arguments.cases is None:
        raise InputError("expected --data with vignettes, --cases with textbook cases, or both")
    if arguments.html is not None and (arguments.data is None or arguments.questions):
        raise InputError("--html: it is about vignettes: give --data, without --questions")
    json_output.check(arguments.html, "--html")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    check(arguments)  # again, for addresses in an object store
    point = options.read(OperatingPointOptions, arguments)
    if arguments.data is None:
        from trainer.reports import case_report

        cases = options.read(case_report.CaseOptions, arguments)
        case_report.run(cases, point)
        _say_end(cases.job_dir, None, [cases.json])
        return 0
    given = options.read(EvaluateOptions, arguments)
    if arguments.questions:
        from trainer.reports import question_report

        limits = options.read(question_options.QuestionOptions, arguments)
        report = json_output.plain(question_report.report(limits, *_load(given, point)))
        if given.json != "-":
            question_report.print_report(report, given.details)
        json_output.write(report, given.json)
    else:
        _evaluate(given, point)
    _say_end(given.job_dir, given.data, [given.html, given.json])
    return 0


def _say_end(job_dir: pathlib.Path, data: pathlib.Path | None, files: Sequence[str | pathlib.Path | None]) -> None:
    """Says where the figures are, and what follows."""
    written = [locations.shown(path) for path in files if path is not None and path != "-"]
    result = ", ".join(written) or ("the JSON" if "-" in files else "the tables")
    following = f"triage export --job-dir {locations.shown(job_dir)} --model-base-path models"
    say_result(Console(stderr=True), result, following + (f" --data {locations.shown(data)}" if data else ""))


def _evaluate(given: EvaluateOptions, point: OperatingPointOptions) -> None:
    from trainer.reports import case_report
    from trainer.reports.evaluation_table import print_report, print_rule_effect

    report = measured(given, point)
    for caution in report.cautions:
        sys.stderr.write(f"warning: {caution}\n")
    if given.json == "-":
        return
    print_report(report, given.details, bool(given.slice))
    if report.safety_rules is not None and (given.details or given.rules):
        print_rule_effect(report.safety_rules)
    if report.textbook_cases is not None and (given.details or given.cases):
        case_report.print_report(report.textbook_cases, report.training["steps"])


def measured(given: EvaluateOptions, point: OperatingPointOptions) -> "AgentReport":
    """Returns the figures of the agent on vignettes, after writing the files that the options name.

    Raises:
        InputError: the agent, the data and the options do not fit each other, or a file cannot be written.
    """
    from trainer.reports import agent_report
    from trainer.reports.agent_page import write_page
    from trainer.reports.provenance import provenance

    data, trained, vignettes = _load(given, point)
    report = agent_report.agent_report(given, point, data, trained, vignettes)
    json_output.write(report.described(), given.json)
    if given.html is not None:
        write_page(report, provenance(), given.html)
    return report


def _load(
    given: EvaluateOptions, point: OperatingPointOptions
) -> tuple["DataDirectory", "TrainedNetwork", "VignetteArrays"]:
    """Returns the data, the agent and the vignettes that the options name.

    Raises:
        InputError: they cannot be read, or do not fit each other.
    """
    from trainer.training.job import load_network
    from trainer.vignettes.tfrecord import DataDirectory

    data = DataDirectory.open(given.data)
    trained = operating_point_options.apply(point, load_network(given.job_dir, given.step), given.job_dir)
    if data.vocabulary.fingerprint != trained.vocabulary.fingerprint:
        raise InputError(
            f"{given.data}: its vocabulary is not the one that {given.job_dir} was trained with: prepare the data with "
            f"--vocabulary {given.job_dir / 'vocabulary.csv'}"
        )
    vignettes = data.read(given.split)
    if not len(vignettes.decision_counts):
        raise InputError(f"{given.data}: the {given.split} split has no vignettes")
    return data, trained, vignettes
