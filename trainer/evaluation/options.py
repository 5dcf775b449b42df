"""What `triage evaluate` is asked for, without loading TensorFlow."""

import dataclasses
import pathlib

from triage_runtime.command_line import options

ORDERS = 10
"""Random evidence orders over which an evaluation averages by default."""

OWN_CARD, WHOLE_PATIENT, DDXPLUS = TRACKS = "own-card", "whole-patient", "ddxplus"
"""Only what a vignette lists can be asked; everything can, and evidence that is not listed is absent; or the same for
DDXPlus patients, whose age and sex are known at the start."""

RANDOM, PREVALENCE, STATIC, UNCERTAINTY, NAIVE_BAYES, LEARNED, CLAIRVOYANT = POLICIES = (
    "random", "prevalence", "static", "uncertainty", "naive-bayes", "learned", "clairvoyant",
)  # fmt: skip
"""The policies of questions, see `trainer.evaluation.question_policies`; the last one knows the answers."""


@dataclasses.dataclass(frozen=True)
class EvaluateOptions:
    """The options of `triage evaluate`, see its help; what to evaluate on is `data`, `cases`, or both."""

    job_dir: pathlib.Path
    data: pathlib.Path | None
    split: str
    step: int | None
    orders: int
    seed: int
    minimum_decisions: int
    details: bool
    slice: list[str]
    questions: list[str] | None
    track: str
    question_limit: int
    rules: pathlib.Path | None
    cases: pathlib.Path | None
    html: pathlib.Path | None
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        options.check_bounds("orders", self.orders, 1)
        options.check_bounds("seed", self.seed, 0)
        options.check_bounds("minimum_decisions", self.minimum_decisions, 2)
        options.check_bounds("question_limit", self.question_limit, 1)
