"""The options about how a trained agent decides, without loading TensorFlow: safety rules, caution and a promise."""

import argparse
import dataclasses
import pathlib
import re
import sys
from typing import TYPE_CHECKING

from schemas import safety_rules
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.promise import RISKS
from schemas.safety_rules import RuleSet
from triage_runtime.command_line.options import option
from triage_runtime.storage import locations

if TYPE_CHECKING:  # TensorFlow takes seconds to load, and `--help` needs none
    from trainer.training.job import TrainedNetwork

RULES = (
    "safety rules that the model obeys: a file (docs/rules.md), default (the red flags of this package) or none; if "
    "omitted, default where the vocabulary has all of their codes"
)
"""The help of `--rules` of the commands that write a model."""
_LEVEL = re.compile(r"(\w+)=([0-9.eE-]+)")


def read_rules(path: pathlib.Path | None, vocabulary: Vocabulary) -> RuleSet:
    """Returns the rules that the option names; warns on standard error if, without the option, none apply.

    Raises:
        InputError: the rules are faulty, or do not fit the vocabulary.
    """
    rules, remark = safety_rules.choose(None if path is None else str(path), vocabulary)
    if remark:
        sys.stderr.write(f"{remark}\n")
    return dataclasses.replace(rules, source=locations.shown(path)) if path is not None and len(rules) else rules


@dataclasses.dataclass(frozen=True)
class OperatingPointOptions:
    """The option that makes an agent more careful, see `trainer.graph.decide.OperatingPoint`."""

    sure_enough: float | None = option(
        "ask more: keep asking while the Q-value of the best decision is below S, in (0, 1]; by default, the agent "
        "asks only while asking has the highest Q-value",
        metavar="S",
    )

    def __post_init__(self) -> None:
        if self.sure_enough is not None and not 0 < self.sure_enough <= 1:
            raise InputError(
                f"--sure-enough {self.sure_enough:g}: expected a number above 0 and at most 1, such as 0.9"
            )

    def apply(self, trained: "TrainedNetwork", job_dir: pathlib.Path) -> "TrainedNetwork":
        """Returns `trained`, of `job_dir`, with the operating point that the option sets, or unchanged without it.

        Raises:
            InputError: the network has no probabilities.
        """
        if self.sure_enough is None:
            return trained
        if not trained.has_probabilities:
            raise InputError(
                f"--sure-enough: {job_dir} has a network without probabilities, which decides by its Q-values alone: "
                "leave the option out, or train with --preset default"
            )
        point = dataclasses.replace(trained.operating_point, sure_enough=self.sure_enough)
        return dataclasses.replace(trained, operating_point=point, point_chosen="given", metrics={})


def levels_of(text: str) -> dict[str, float]:
    """Returns the level of each risk of `--promise`; raises argparse.ArgumentTypeError if `text` is something else."""
    levels: dict[str, float] = {}
    for part in text.split(","):
        match = _LEVEL.fullmatch(part.strip())
        name, share = match.groups() if match else ("", "")
        try:
            level = float(share)
        except ValueError:
            level = 0.0
        if name not in RISKS or name in levels or not 0 < level < 1:
            raise argparse.ArgumentTypeError(
                f"{part!r}: expected RISK=SHARE with a share between 0 and 1, each of {', '.join(RISKS)} at most once, "
                "such as red=0.05,over=0.4"
            )
        levels[name] = level
    return levels


@dataclasses.dataclass(frozen=True)
class PromiseOptions:
    """The options of `triage export` about a promise."""

    promise: dict[str, float] = option(
        "export only with a promise about new patients, such as red=0.05,yellow=0.1,over=0.4: caps the share of "
        + "; ".join(f"{risk.patients} who {risk.error} ({name})" for name, risk in RISKS.items())
        + ". It is tested on the vignettes that training set apart (--set-apart 0.1)",
        type=levels_of, default={}, metavar="RISK=SHARE,...",
    )  # fmt: skip
    confidence: float = option(
        "confidence level of the promise, over draws of the vignettes set apart (default 0.9)", default=0.9, metavar="C"
    )

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise InputError(f"--confidence {self.confidence:g}: expected a number between 0 and 1, such as 0.9")
