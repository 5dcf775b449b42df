"""Warnings about evaluations from which little can be concluded."""

from collections.abc import Mapping
from typing import Any

ENOUGH_VIGNETTES = 50
"""With fewer, intervals are too wide to distinguish a good agent from a bad one."""


def cautions(report: Mapping[str, Any]) -> list[str]:
    """Returns the warnings that a report of `trainer.evaluation.evaluate` needs, as sentences."""
    sentences = []
    if report["vignettes"] < ENOUGH_VIGNETTES:
        sentences.append(
            f"the {report['split']} split has {report['vignettes']} vignettes: with fewer than {ENOUGH_VIGNETTES} "
            "these figures say little"
        )
    forced, questions = (report["agent"][name]["mean"] for name in ("forced", "questions"))
    if forced == 1:
        sentences.append(
            "the agent is forced to decide in every episode: it has not learned to stop asking; train on more "
            "vignettes or for longer"
        )
    elif questions == 0:
        sentences.append("the agent asks nothing: it decides on the first piece of evidence")
    elif forced == 0:
        sentences.append("the agent is never forced to decide: it always stops asking by itself")
    return sentences
