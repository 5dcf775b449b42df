"""`triage export`: writes the trained agent of a job directory as a SavedModel version, on request past a gate."""

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from schemas import figures, locations
from schemas.errors import InputError
from trainer.evaluation.evaluate import ORDERS
from trainer.runs import dial_options
from trainer.safeguards import options

if TYPE_CHECKING:  # TensorFlow takes seconds to load, and `triage export --help` needs none
    from trainer.exporting.publish import Exported

REJECTED = 3
"""Exit code if the version did not pass the gate."""

_MARGIN = 0.02


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage export`."""
    parser.add_argument(
        "--job-dir", type=locations.source_job, required=True, help="directory that `triage train` wrote"
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--model-base-path",
        type=locations.model_base,
        metavar="BASE",
        help="directory that holds a folder for each version",
    )
    where.add_argument(
        "--push-to",
        type=locations.model_base,
        metavar="BASE",
        help="the same, but publish only a version that is not less safe than the newest one there; needs --data; "
        f"exit code {REJECTED} if it is not published",
    )
    parser.add_argument(
        "--compare-with",
        type=locations.source_model,
        metavar="BASE",
        help="with --model-base-path: mark the version as BLESSED or NOT_BLESSED by comparing it with the newest one "
        f"of this BASE, for a later `triage push`; needs --data; exit code {REJECTED} if it is not blessed",
    )
    parser.add_argument("--version", type=int, help="number of the version; the highest that exists plus 1 by default")
    parser.add_argument("--step", type=int, help="checkpoint to export; the last one by default")
    options.add_argument(parser)
    dial_options.add_arguments(parser)
    parser.add_argument("--model-name", help='name under which TensorFlow Serving offers the model; default: "triage"')
    parser.add_argument(
        "--data",
        type=locations.source,
        metavar="DIR",
        help="data directory on whose test split to evaluate the version",
    )
    parser.add_argument(
        "--orders", type=int, default=ORDERS, help=f"random evidence orders to average over (default {ORDERS})"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the orders and the bootstrap (default 0)")
    parser.add_argument(
        "--margin", type=float, help=f"loss of safety that --push-to accepts, from 0 to 1 (default {_MARGIN:g})"
    )
    parser.add_argument(
        "--cases",
        type=locations.source,
        metavar="FILE",
        help="textbook cases (docs/cases.md) for --push-to and --compare-with: a version that decides an emergency "
        "less urgently than the version before it does not pass",
    )
    parser.add_argument(
        "--allow-small-test", action="store_true",
        help="let a version pass --push-to and --compare-with on fewer than 50 test vignettes, which say little",
    )  # fmt: skip
    parser.add_argument(
        "--rejected",
        type=locations.result,
        metavar="DIR",
        help="where --push-to keeps a version that it does not publish",
    )
    figures.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Exports, and reports the result.

    Returns:
        0, or `REJECTED` if the version did not pass the gate.

    Raises:
        InputError: there is no trained agent in the job directory, the version cannot be written, or it cannot be
            evaluated on the data.
    """
    _check(arguments)
    from trainer.exporting import gate, publish
    from trainer.runs import job
    from trainer.servable import saved_model
    from trainer.vignettes.textbook_case import read_cases

    trained = dial_options.chosen(arguments, job.load_network(arguments.job_dir, arguments.step))
    trained = dataclasses.replace(trained, rules=options.chosen(arguments, trained.vocabulary))
    cases = read_cases(arguments.cases, trained.vocabulary) if arguments.cases else ()
    exam = publish.Examination(arguments.data, arguments.orders, arguments.seed, cases) if arguments.data else None
    target = publish.Target(
        arguments.push_to or arguments.model_base_path,
        arguments.version,
        arguments.model_name or saved_model.MODEL_NAME,
        minimum_vignettes=0 if arguments.allow_small_test else gate.MINIMUM_VIGNETTES,
    )
    margin = _MARGIN if arguments.margin is None else arguments.margin
    if arguments.push_to:
        if arguments.rejected:
            publish.check_rejected(arguments.rejected, arguments.push_to)
        target = target._replace(margin=margin, rejected=arguments.rejected)
    if arguments.compare_with:
        target = target._replace(margin=margin, against=arguments.compare_with)
    exported = publish.export(trained, arguments.job_dir, target, exam)
    _say(exported, arguments)
    figures.write(
        {
            "path": locations.shown(exported.folder) if exported.folder else None,
            "model_version": exported.model_version,
            "published": exported.published,
            "vocabulary_fingerprint": trained.vocabulary.fingerprint,
            "data_fingerprint": trained.data_fingerprint,
            "metrics": exported.metrics,
            "evaluation": exported.evaluation,
            "gate": exported.gate,
            "safety_rules": trained.rules.described(),
            "decision": saved_model.decision(trained),
        },
        arguments.json,
    )
    return 0 if exported.published else REJECTED


def _check(arguments: argparse.Namespace) -> None:
    if arguments.orders < 1 or arguments.seed < 0:
        raise InputError("--orders must be at least 1 and --seed 0 or more")
    if arguments.push_to is None and arguments.rejected is not None:
        raise InputError("--rejected needs --push-to: give that instead of --model-base-path")
    if arguments.push_to is not None and arguments.compare_with is not None:
        raise InputError("--push-to compares with the versions that it pushes to: leave --compare-with out")
    gated = arguments.push_to is not None or arguments.compare_with is not None
    for name in ("margin", "cases"):
        if not gated and getattr(arguments, name) is not None:
            raise InputError(f"--{name} needs --push-to or --compare-with: give one of them")
    if not gated and arguments.allow_small_test:
        raise InputError("--allow-small-test needs --push-to or --compare-with: give one of them")
    if gated and arguments.data is None:
        name = "--push-to" if arguments.push_to else "--compare-with"
        raise InputError(f"{name} compares the new version with the serving one: give the vignettes with --data DIR")
    if arguments.compare_with is not None and arguments.compare_with.resolve() == arguments.model_base_path.resolve():
        raise InputError(f"--compare-with {arguments.compare_with}: versions are served from there: use --push-to")
    if arguments.margin is not None and not 0 <= arguments.margin <= 1:
        raise InputError(f"--margin {arguments.margin}: expected a share from 0 to 1, such as 0.02")


def _say(exported: "Exported", arguments: argparse.Namespace) -> None:
    """Prints the result; a rejection in any case, so that it is in the log of an automatic push."""
    from trainer.exporting.gate import small_test_text, verdict_text

    lines = []
    if exported.published and exported.folder is not None:
        lines.append(f"wrote version {exported.model_version} to {locations.shown(exported.folder)}")
    verdict: dict[str, Any] = exported.gate or {}
    if exported.gate and verdict["serving_version"] is None:
        base = locations.shown(arguments.push_to or arguments.compare_with)
        lines.append(f"  there was no version in {base} to compare it with")
        lines += filter(None, [small_test_text(verdict)])
    elif exported.gate:
        lines.append(verdict_text(verdict))
    if exported.published:
        if arguments.json != "-":
            sys.stdout.write("\n".join(lines) + "\n")
        return
    kept = "--rejected DIR keeps such a version"
    if exported.folder is not None:
        kept = f"the rejected version is in {locations.shown(exported.folder)}"
    lines.append(f"nothing was {'blessed' if arguments.compare_with else 'published'}; {kept}")
    sys.stderr.write("\n".join(lines) + "\n")
