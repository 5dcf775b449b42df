"""What `triage evaluate` is asked for, without loading TensorFlow."""

import dataclasses
import pathlib

from schemas.errors import InputError
from triage_runtime.command_line import options
from triage_runtime.command_line.options import option
from triage_runtime.storage import locations

QUESTION_LIMIT = 20
"""Questions after which --questions stops: patients would hardly answer more."""
ORDERS = 10
"""Random evidence orders over which an evaluation averages by default."""

OWN_CARD, WHOLE_PATIENT, DDXPLUS = TRACKS = "own-card", "whole-patient", "ddxplus"
"""Only what a vignette lists can be asked; everything can, and evidence that is not listed is absent; or the same for
DDXPlus patients, whose age and sex are known at the start."""

RANDOM, STATIC, LEARNED = POLICIES = ("random", "static", "learned")
"""The policies of questions, see `trainer.evaluation.question_policies`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """The options of `triage evaluate`; what to evaluate on is `data`, `cases`, or both."""

    job_dir: pathlib.Path = option("directory of the training run", type=locations.source)
    data: pathlib.Path | None = option("data directory, as triage prepare makes it", type=locations.source)
    cases: pathlib.Path | None = option(
        "textbook cases to play: a file (docs/evaluating.md) or default; without --data, only these",
        type=locations.source, metavar="FILE",
    )  # fmt: skip
    html: pathlib.Path | None = option(
        "write a report as one self-contained page; the default safety rules and textbook cases are played too, "
        "if they fit the vocabulary and no others are given",
        type=locations.fresh_result, metavar="FILE",
    )  # fmt: skip
    split: str = option("vignettes to use (default test)", choices=("train", "test"), default="test")
    step: int | None = option("step of the checkpoint (default: the newest)")
    orders: int = option(f"random evidence orders to average over (default {ORDERS})", default=ORDERS)
    seed: int = option("seed of the orders and the bootstrap (default 0)", default=0)
    minimum_decisions: int = option("decisions a vignette needs to score clinicians (default 3)", default=3)
    details: bool = option(
        "print all figures, including calibration and the metrics by tag, evidence, age and sex; with --questions, "
        "also where interviews would stop with --sure-enough"
    )
    slice: list[str] = option(
        "also print the metrics where each of these codes is present, absent or not stated",
        action="extend", nargs="+", default=[], metavar="CODE",
    )  # fmt: skip
    questions: list[str] | None = option(
        f"compare ways to choose questions, the first with each of the others (docs/questions.md): "
        f"{', '.join(POLICIES)}",
        type=str, action="extend", nargs="+", choices=POLICIES, metavar="POLICY",
    )  # fmt: skip
    track: str = option(
        f"with --questions: patients answer what their vignette lists ({OWN_CARD}, the default), or everything",
        choices=TRACKS, default=OWN_CARD,
    )  # fmt: skip
    rules: pathlib.Path | None = option(
        "evaluate with these safety rules too, and print the difference: a file (docs/rules.md) or default",
        type=locations.source, metavar="FILE",
    )  # fmt: skip
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        options.check_bounds("orders", self.orders, 1)
        options.check_bounds("seed", self.seed, 0)
        options.check_bounds("minimum_decisions", self.minimum_decisions, 2)
        if self.data is None and self.cases is None:
            raise InputError("expected --data with vignettes, --cases with textbook cases, or both")
        if self.html is not None and (self.data is None or self.questions):
            raise InputError("--html reports on vignettes: give --data, and leave out --questions")
