"""The options of `triage export` about a promise, without loading TensorFlow."""

import argparse
import dataclasses
import re

from schemas.errors import InputError
from schemas.promise import RISKS

_LEVEL = re.compile(r"(\w+)=([0-9.eE-]+)")


@dataclasses.dataclass(frozen=True)
class PromiseOptions:
    """The options, see `add_arguments`."""

    promise: dict[str, float]
    confidence: float

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise InputError(f"--confidence {self.confidence:g}: expected a number between 0 and 1, such as 0.9")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options."""
    parser.add_argument(
        "--promise",
        type=levels_of,
        default={},
        metavar="RISK=SHARE,...",
        help="export only with a promise about new patients, such as red=0.05,yellow=0.1,over=0.4: caps the share of "
        + "; ".join(f"{risk.patients} who {risk.error} ({name})" for name, risk in RISKS.items())
        + ". It is tested on the vignettes that training set apart (--set-apart 0.1)",
    )
    parser.add_argument(
        "--confidence", type=float, default=0.9, metavar="C",
        help="confidence level of the promise, over draws of the vignettes set apart (default 0.9)",
    )  # fmt: skip


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
