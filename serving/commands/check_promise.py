"""The work of `triage monitor`; its options are in `serving.commands.monitor`."""

import argparse
import hashlib
import sys
from typing import Any

from schemas import directories
from schemas.errors import InputError
from schemas.model_directory import read_version, version_folder
from serving.commands.monitor import MonitorOptions
from serving.monitor.audit_reader import LogCounts, read_cases
from serving.monitor.labelled import Labelled, promise_of
from triage_runtime.command_line import json_output, options

BROKEN = 1
"""Exit code if the promise is broken."""
ERROR = 0.01
"""Probability that a promise that is kept is called broken: an alarm should mean something."""


def run(arguments: argparse.Namespace) -> int:
    """Compares, and prints what the labels say of the promise.

    Returns:
        0, or `BROKEN` if the promise is broken.

    Raises:
        InputError: an option is out of its range, the version makes no promise, or a file cannot be read.
    """
    given = options.read(MonitorOptions, arguments)
    folder = version_folder(given.model).absolute()
    number = directories.version_number(folder.name)
    if number is None:
        raise InputError(f"--model {folder}: expected a version, a folder whose name is its number")
    info, vocabulary = read_version(folder)
    labelled = Labelled(given.labels, promise_of(info), vocabulary, info.hand_over_from)
    counts, cases, others, asked = LogCounts(), 0, 0, 0
    for case in read_cases(given.log, counts, given.model_name):
        if case.version != number:
            others += 1
        elif case.decided:
            cases += 1
            labelled.add(case)
        else:
            asked += 1
    if len(counts.models) > 1:
        names = ", ".join(sorted(counts.models))
        raise InputError(f"--log {given.log}: answers of several models, {names}: choose one with --model-name")
    report: dict[str, Any] = {
        "log": str(given.log),
        "version": number,
        "manifest_sha256": hashlib.sha256(info.manifest_json.encode()).hexdigest(),
        "records": counts.records,
        "records_not_read": counts.unread,
        "records_of_other_models": counts.others,
        "damaged_files": counts.damaged,
        "cases": cases,
        "answers_of_other_versions": others,
        "answers_that_ask": asked,
        "promise": labelled.compare(ERROR),
    }
    if given.json != "-":
        _print(report, counts)
    json_output.write(report, given.json)
    if not report["promise"]["labelled"]:
        raise InputError(
            f"--labels {given.labels}: none has the evidence of a case that version {number} decided in {given.log}: "
            "give the present and absent codes that were sent"
        )
    return BROKEN if report["promise"]["broken"] else 0


def _print(report: dict[str, Any], counts: LogCounts) -> None:
    """Prints the report for a person to read."""
    lines = [
        f"{counts.records:,} records in {counts.files:,} files: {report['cases']:,} decided cases, "
        f"{report['answers_that_ask']:,} answers that ask, {report['answers_of_other_versions']:,} from other versions"
    ]
    for name in counts.damaged:
        lines.append(f"{name} ends inside a record: it is still being written, or the server was killed")
    promise = report["promise"]
    lines.append(f"promise: {promise['labelled']:,} labelled cases were served, {promise['not_served']:,} were not")
    for each in promise["risks"]:
        low, high = each["interval"]
        group = "" if each["group"] is None else f" of {each['group']}"
        above = "broken" if each["group"] is None else "above the level, but no promise covers groups"
        verdict = above if each["above"] else "not contradicted"
        lines.append(
            f"  {each['risk']}{group}: {each['errors']:,} errors of {each['patients']:,} patients ({low:.1%} to "
            f"{high:.1%}), promised at most {each['level']:.1%}: {verdict}"
        )
    sys.stdout.write("\n".join(lines) + "\n")
