"""The options of `triage evaluate --questions`, without TensorFlow, which `--help` need not wait for."""

import argparse

OWN_CARD, WHOLE_PATIENT, DDXPLUS = TRACKS = "own-card", "whole-patient", "ddxplus"
"""Only what a vignette lists can be asked; or everything, where what is not listed is absent; or the same of patients
of DDXPlus, whose age and sex are known from the start."""

RANDOM, PREVALENCE, STATIC, UNCERTAINTY, NAIVE_BAYES, LEARNED, CLAIRVOYANT = POLICIES = (
    "random", "prevalence", "static", "uncertainty", "naive-bayes", "learned", "clairvoyant",
)  # fmt: skip
"""How questions may be chosen, see `trainer.questions.policies`; the last one knows the answers."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options."""
    parser.add_argument(
        "--questions",
        nargs="+",
        choices=POLICIES,
        metavar="POLICY",
        help=f"compare ways to choose questions instead, the first with each other one (docs/questions.md): "
        f"{', '.join(POLICIES)}",
    )
    parser.add_argument(
        "--track",
        choices=TRACKS,
        default=OWN_CARD,
        help=f"with --questions: patients answer what their vignette lists ({OWN_CARD}, the default), or everything",
    )
    parser.add_argument(
        "--question-limit", type=int, default=20, metavar="N", help="with --questions: the most (default 20)"
    )
