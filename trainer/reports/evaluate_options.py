"""The options of `triage evaluate`, without loading TensorFlow."""

import argparse
import dataclasses
import pathlib

from trainer.evaluation import question_options
from trainer.evaluation.measurement import ORDERS
from trainer.training import operating_point_options
from triage_runtime.command_line import json_output, options
from triage_runtime.storage import locations


@dataclasses.dataclass(frozen=True)
class EvaluateOptions:
    """The options of `triage evaluate --data`, see its help."""

    job_dir: pathlib.Path
    data: pathlib.Path
    split: str
    step: int | None
    orders: int
    seed: int
    minimum_decisions: int
    details: bool
    slice: list[str]
    rules: pathlib.Path | None
    cases: pathlib.Path | None
    html: pathlib.Path | None
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        options.check_bounds("orders", self.orders, 1)
        options.check_bounds("seed", self.seed, 0)
        options.check_bounds("minimum_decisions", self.minimum_decisions, 2)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage evaluate`."""
    parser.add_argument("--job-dir", type=locations.source_job, required=True, help="directory of the training run")
    parser.add_argument("--data", type=locations.source, help="data directory, as triage prepare makes it")
    parser.add_argument(
        "--cases",
        type=locations.source,
        metavar="FILE",
        help="textbook cases to play, a file (docs/evaluating.md) or default; alone it takes no options for vignettes",
    )
    parser.add_argument(
        "--html",
        type=locations.fresh_result,
        metavar="FILE",
        help="write a report on the agent as one page that loads nothing; if they fit the vocabulary and no others are "
        "named, the default safety rules and textbook cases are played too",
    )
    parser.add_argument("--split", choices=("train", "test"), default="test", help="vignettes to use (default test)")
    parser.add_argument("--step", type=int, help="step of the checkpoint (default: the newest)")
    parser.add_argument(
        "--orders", type=int, default=ORDERS, help=f"random evidence orders to average over (default {ORDERS})"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the orders and the bootstrap (default 0)")
    parser.add_argument(
        "--minimum-decisions", type=int, default=3, help="decisions a vignette needs for the human baseline (default 3)"
    )
    parser.add_argument(
        "--details",
        action="store_true",
        help="print all figures, also calibration, the frontier, and the metrics by tag, evidence, age and sex; "
        "with --questions, where interviews would stop at other prices and thresholds; without it, the verdict and the "
        "agent beside the clinicians",
    )
    parser.add_argument(
        "--slice",
        nargs="+",
        default=[],
        metavar="CODE",
        help="also the metrics where these pieces of evidence are present, absent or not stated",
    )
    question_options.add_arguments(parser)
    parser.add_argument(
        "--rules",
        type=locations.source,
        metavar="FILE",
        help="play the agent with these safety rules too, and print the difference: a file (docs/rules.md), or default",
    )
    operating_point_options.add_arguments(parser)
    json_output.add_argument(parser)
