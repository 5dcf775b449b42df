"""The work of `triage export`; its options are in `trainer.commands.export`."""

import argparse
import dataclasses
import sys

from rich.console import Console

from trainer.commands.export import MARGIN, REJECTED, ExportOptions
from trainer.data.textbook_case import read_cases
from trainer.export import gate, publish, saved_model, signing
from trainer.export.publish import Exported
from trainer.training import job, promises
from trainer.training.agent_options import OperatingPointOptions, PromiseOptions, read_rules
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.progress import say_result
from triage_runtime.storage import locations


def run(arguments: argparse.Namespace) -> int:
    """Exports, and reports the result.

    Returns:
        0, or `REJECTED` if the version did not pass the gate, or the promise was refused.

    Raises:
        InputError: there is no trained agent in the job directory, the version cannot be written, or it cannot be
            evaluated on the data.
    """
    given, point = options.read(ExportOptions, arguments), options.read(OperatingPointOptions, arguments)
    asked = options.read(PromiseOptions, arguments)
    key = signing.read_key(given.sign) if given.sign else None
    trained = point.apply(job.load_network(given.job_dir, given.step), given.job_dir)
    trained = dataclasses.replace(trained, rules=read_rules(given.rules, trained.vocabulary))
    if asked.promise:
        answer = promises.make(trained, given.job_dir, asked, point.sure_enough is not None)
        sys.stderr.write(f"{promises.text(answer)}\n")
        if not answer.kept:
            json_output.write({"path": None, "published": False, "promise": answer.described()}, given.json)
            return REJECTED
        trained = promises.promising(trained, answer)
    cases = read_cases(given.cases, trained.vocabulary) if given.cases else ()
    evaluation = publish.VersionTest(given.data, given.orders, given.seed, cases) if given.data else None
    margin = MARGIN if given.margin is None else given.margin
    target = publish.Target(
        given.base,
        given.version,
        given.model_name or saved_model.MODEL_NAME,
        margin if given.gate else None,
        given.compare_with,
        0 if given.allow_small_test else gate.MINIMUM_VIGNETTES,
        key,
    )
    exported = publish.export(trained, given.job_dir, target, evaluation)
    _print_result(exported, given)
    json_output.write(
        {
            "path": locations.shown(exported.folder) if exported.folder else None,
            "model_version": exported.model_version,
            "published": exported.published,
            "vocabulary_fingerprint": trained.vocabulary.fingerprint,
            "data_fingerprint": trained.data_fingerprint,
            "metrics": exported.metrics,
            "evaluation": exported.evaluation and exported.evaluation.described(),
            "gate": exported.gate and exported.gate.described(),
            "safety_rules": trained.rules.described(),
            "decision": saved_model.decision(trained),
            "promise": trained.promise,
        },
        given.json,
    )
    return 0 if exported.published else REJECTED


def _print_result(exported: Exported, given: ExportOptions) -> None:
    """Prints the result; a rejection in any case, so that it is in the log of an automatic push."""
    lines = []
    if exported.published and exported.folder is not None:
        lines.append(f"wrote version {exported.model_version} to {locations.shown(exported.folder)}")
    if exported.gate is not None:
        lines.append(exported.gate.text(locations.shown(given.gate or given.base)))
    if exported.published:
        if given.json != "-":
            sys.stdout.write("\n".join(lines) + "\n")
        if exported.folder is not None:
            folder = locations.shown(exported.folder)
            following = f"triage serve --model-base-path {locations.shown(given.base)}"
            if given.compare_with:
                following = f"triage push --version-dir {folder} --to {locations.shown(given.compare_with)}"
            say_result(Console(stderr=True), folder, following)
        return
    remark = "--model-base-path with --compare-with would keep the version"
    if exported.folder is not None:
        remark = f"the rejected version is in {locations.shown(exported.folder)}"
    lines.append(f"nothing was {'blessed' if given.compare_with else 'published'}; {remark}")
    sys.stderr.write("\n".join(lines) + "\n")
