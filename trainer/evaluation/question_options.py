"""The options of `triage evaluate --questions`, without loading TensorFlow."""

import argparse
import dataclasses
import pathlib

from triage_runtime.command_line import options

OWN_CARD, WHOLE_PATIENT, DDXPLUS = TRACKS = "own-card", "whole-patient", "ddxplus"
"""Only what a vignette lists can be asked; everything can, and evidence that is not listed is absent; or the same for
DDXPlus patients, whose age and sex are known at the start."""

RANDOM, PREVALENCE, STATIC, UNCERTAINTY, NAIVE_BAYES, LEARNED, CLAIRVOYANT = POLICIES = (
    "random", "prevalence", "static", "uncertainty", "naive-bayes", "learned", "clairvoyant",
)  # fmt: skip
"""The policies of questions, see `trainer.evaluation.question_policies`; the last one knows the answers."""


@dataclasses.dataclass(frozen=True)
class QuestionOptions:
    """The options of `triage evaluate --questions`, see its help."""

    job_dir: pathlib.Path
    data: pathlib.Path
    split: str
    seed: int
    minimum_decisions: int
    rules: pathlib.Path | None
    questions: list[str]
    track: str
    question_limit: int

    def __post_init__(self) -> None:
        options.check_bounds("question_limit", self.question_limit, 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options."""
    parser.add_argument(
        "--questions",
        nargs="+",
        choices=POLICIES,
        metavar="POLICY",
        help=f"compare ways to choose questions instead, the first with each of the others (docs/questions.md): "
        f"{', '.join(POLICIES)}",
    )
    parser.add_argument(
        "--track",
        choices=TRACKS,
        default=OWN_CARD,
        help=f"with --questions: patients answer what their vignette lists ({OWN_CARD}, the default), or everything",
    )
    parser.add_argument(
        "--question-limit", type=int, default=20, metavar="N", help="with --questions: maximum number (default 20)"
    )
