"""`triage evaluate`: measures a trained agent on the vignettes of a data directory, on textbook cases, or on both."""

import argparse

from schemas.errors import InputError
from trainer.evaluation.options import ORDERS, OWN_CARD, POLICIES, TRACKS, EvaluateOptions
from trainer.training import operating_point_options
from trainer.training.operating_point_options import OperatingPointOptions
from triage_runtime.command_line import json_output, options
from triage_runtime.storage import locations


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage evaluate`."""
    parser.add_argument("--job-dir", type=locations.source, required=True, help="directory of the training run")
    parser.add_argument("--data", type=locations.source, help="data directory, as triage prepare makes it")
    parser.add_argument(
        "--cases",
        type=locations.source,
        metavar="FILE",
        help="textbook cases to play: a file (docs/evaluating.md) or default; without --data, only these",
    )
    parser.add_argument(
        "--html",
        type=locations.fresh_result,
        metavar="FILE",
        help="write a report as one self-contained page; the default safety rules and textbook cases are played too, "
        "if they fit the vocabulary and no others are given",
    )
    parser.add_argument("--split", choices=("train", "test"), default="test", help="vignettes to use (default test)")
    parser.add_argument("--step", type=int, help="step of the checkpoint (default: the newest)")
    parser.add_argument(
        "--orders", type=int, default=ORDERS, help=f"random evidence orders to average over (default {ORDERS})"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the orders and the bootstrap (default 0)")
    parser.add_argument(
        "--minimum-decisions", type=int, default=3, help="decisions a vignette needs to score clinicians (default 3)"
    )
    parser.add_argument(
        "--details",
        action="store_true",
        help="print all figures, including calibration and the metrics by tag, evidence, age and sex; with "
        "--questions, also where interviews would stop with --sure-enough",
    )
    parser.add_argument(
        "--slice",
        nargs="+",
        default=[],
        metavar="CODE",
        help="also print the metrics where each of these codes is present, absent or not stated",
    )
    parser.add_argument(
        "--questions",
        nargs="+",
        choices=POLICIES,
        metavar="POLICY",
        help=f"compare ways to choose questions, the first with each of the others (docs/questions.md): "
        f"{', '.join(POLICIES)}",
    )
    parser.add_argument(
        "--track",
        choices=TRACKS,
        default=OWN_CARD,
        help=f"with --questions: patients answer what their vignette lists ({OWN_CARD}, the default), or everything",
    )
    parser.add_argument(
        "--question-limit", type=int, default=20, metavar="N", help="with --questions: question limit (default 20)"
    )
    parser.add_argument(
        "--rules",
        type=locations.source,
        metavar="FILE",
        help="evaluate with these safety rules too, and print the difference: a file (docs/rules.md) or default",
    )
    operating_point_options.add_arguments(parser)
    json_output.add_argument(parser)


def check(arguments: argparse.Namespace) -> None:
    """Checks what can be checked before TensorFlow loads.

    Raises:
        InputError: neither vignettes nor cases are given, or a file cannot be written.
    """
    if arguments.data is None and arguments.cases is None:
        raise InputError("expected --data with vignettes, --cases with textbook cases, or both")
    if arguments.html is not None and (arguments.data is None or arguments.questions):
        raise InputError("--html reports on vignettes: give --data, and leave out --questions")
    json_output.check(arguments.html, "--html")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    from trainer.reports import evaluate  # loads TensorFlow

    check(arguments)  # again, for addresses in an object store
    evaluate.run(options.read(EvaluateOptions, arguments), options.read(OperatingPointOptions, arguments))
    return 0
