"""`triage monitor`: compares an audit log with the cases that a version was trained and evaluated on."""

import argparse
import dataclasses
import hashlib
import pathlib
import sys
from typing import TYPE_CHECKING, Any

from schemas import directories
from schemas.errors import InputError
from schemas.reference import Reference
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.extras import need
from triage_runtime.command_line.options import option

if TYPE_CHECKING:  # loads SciPy and TensorFlow
    from serving.monitor.audit_reader import Reading

DRIFTED = 1
"""Exit code with --fail-on-drift if there is drift."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MonitorOptions:
    """The options of `triage monitor`, see its help."""

    log: pathlib.Path = option("directory that triage serve --audit-log wrote", metavar="DIR")
    model: pathlib.Path = option(
        "version that answered, exported with --data, or its base path, for the highest version", metavar="DIR"
    )
    model_name: str = option("model whose answers to read, if the server had several", default="", metavar="NAME")
    alpha: float = option(
        "false discovery rate of drift, and error level of the intervals of --labels (default 0.01)", default=0.01
    )
    labels: pathlib.Path | None = option(
        "served cases with clinicians' decisions, in JSON Lines, to check whether the version keeps its promise",
        metavar="FILE",
    )
    fail_on_drift: bool = option(f"exit with code {DRIFTED} if there is drift or the promise is broken")
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise InputError(f"--alpha {self.alpha}: expected a number between 0 and 1")


def check(_: argparse.Namespace) -> None:
    """Raises InputError if the extra of this command is not installed."""
    need("scipy", "triage monitor", "monitor")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage monitor`."""
    options.add_arguments(parser, MonitorOptions)
    json_output.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compares, and prints the differences.

    Returns:
        0, or `DRIFTED` if there is drift, or a broken promise, and --fail-on-drift is given.

    Raises:
        InputError: an option is out of its range, or the log or the reference cannot be read.
    """
    given = options.read(MonitorOptions, arguments)
    from schemas.model_directory import read_version, version_folder
    from serving.monitor.audit_reader import Reading, decided, read_cases
    from serving.monitor.drift import Observed, compare
    from serving.monitor.labelled import Labelled, promise_of

    folder = version_folder(given.model)
    info, vocabulary = read_version(folder)
    labelled = None
    if given.labels is not None:
        labelled = Labelled(given.labels, promise_of(info), vocabulary, info.hand_over_from)
    reference, version = _reference(folder)
    reading, observed, others, asked = Reading(), Observed(), 0, 0
    for case in read_cases(given.log, reading, given.model_name):
        if case.version != version:
            others += 1
        elif decided(case):
            observed.add(case)
            if labelled is not None:
                labelled.add(case)
        else:
            asked += 1
    if len(reading.models) > 1:
        names = ", ".join(sorted(reading.models))
        raise InputError(f"--log {given.log}: answers of several models, {names}: choose one with --model-name")
    report = {
        "log": str(given.log),
        "version": version,
        "manifest_sha256": hashlib.sha256(info.manifest_json.encode()).hexdigest(),
        "records": reading.records,
        "records_not_read": reading.unread,
        "records_of_other_models": reading.others,
        "damaged_files": reading.damaged,
        "answers_of_other_versions": others,
        "answers_that_ask": asked,
        **compare(observed, reference, given.alpha),
        "promise": None if labelled is None else labelled.compare(given.alpha),
    }
    if given.json != "-":
        _print(report, reading)
    json_output.write(report, given.json)
    broken = report["promise"] is not None and report["promise"]["broken"]
    return DRIFTED if given.fail_on_drift and (report["verdict"] == "drift" or broken) else 0


def _reference(folder: pathlib.Path) -> tuple[Reference, int]:
    """Returns the reference of a version, and its number."""
    if not (folder / directories.REFERENCE).exists():
        raise InputError(f"{folder}: no {directories.REFERENCE}: export the version with --data DIR")
    number = directories.version_number(folder.resolve().name)
    if number is None:
        raise InputError(f"{folder}: expected a version, a folder whose name is its number")
    return Reference.load(folder / directories.REFERENCE), number


def _print(report: dict[str, Any], reading: "Reading") -> None:
    """Prints the report for a person to read."""
    import rich.box
    import rich.console
    import rich.table

    console = rich.console.Console(highlight=False, markup=False, soft_wrap=True)
    console.print(
        f"{reading.records:,} records in {reading.files:,} files: {report['cases']:,} decided cases, "
        f"{report['answers_that_ask']:,} answers that ask, {report['answers_of_other_versions']:,} from other versions"
    )
    for name in reading.damaged:
        console.print(f"{name} ends inside a record: it is still being written, or the server was killed")
    console.print(f"compared with {report['reference_cases']:,} cases: {report['reference']}")
    unknown = report["unknown_codes"]
    if unknown["share"] is not None:
        low, high = unknown["interval"]
        console.print(f"cases with unknown codes: {unknown['share']:.2%} ({low:.2%} to {high:.2%})")
    for each in report.get("distributions", ()):
        verdict = "drift" if each["drifted"] else "no drift"
        console.print(f"{each['name']}: {verdict} (stability index {each['psi']:.3f}, q = {each['q']:.2g})")
    if report.get("evidence"):
        columns = [rich.table.Column(name, justify="right") for name in ("served", "reference", "q")]
        table = rich.table.Table("evidence", "", *columns, box=rich.box.SIMPLE)
        for each in report["evidence"][:20]:
            rates = f"{each['served']:.1%}", f"{each['reference']:.1%}", f"{each['q']:.2g}"
            table.add_row(each["code"], each["status"], *rates)
        console.print(table)
    if "evidence" in report:
        console.print(f"{len(report['evidence'])} of {report['evidence_tested']} evidence rates differ")
    for sentence in _promise(report["promise"]):
        console.print(sentence)
    console.print(_sentence(report))
    sys.stdout.flush()


def _promise(promise: dict[str, Any] | None) -> list[str]:
    if promise is None:
        return []
    sentences = [f"promise: {promise['labelled']:,} labelled cases were served, {promise['not_served']:,} were not"]
    for each in promise["risks"]:
        low, high = each["interval"]
        group = "" if each["group"] is None else f" of {each['group']}"
        above = "broken" if each["group"] is None else "above the level, but no promise covers groups"
        verdict = above if each["above"] else "not contradicted"
        sentences.append(
            f"  {each['risk']}{group}: {each['errors']:,} errors of {each['patients']:,} patients ({low:.1%} to "
            f"{high:.1%}), promised at most {each['level']:.1%}: {verdict}"
        )
    return sentences


def _sentence(report: dict[str, Any]) -> str:
    if report["verdict"] == "too_few_cases":
        return f"too few cases: {report['cases']} decided, at least {report['fewest_cases']} needed"
    if report["verdict"] == "drift":
        return "drift: the served cases differ from those of the reference"
    return (
        f"no drift found; differences of rates below an effect of {report['smallest_effect']:.2f} (Cohen's h) could "
        "be missed"
    )
