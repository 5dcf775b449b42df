"""The option that makes an agent with probabilities more careful, see `trainer.graph.decide.OperatingPoint`."""

import argparse
import dataclasses
import pathlib
from typing import TYPE_CHECKING

from schemas.errors import InputError

if TYPE_CHECKING:  # TensorFlow takes seconds to load, and `--help` needs none
    from trainer.training.job import TrainedNetwork


@dataclasses.dataclass(frozen=True)
class OperatingPointOptions:
    """The option, see `add_arguments`; None if it is not given."""

    sure_enough: float | None = None

    def __post_init__(self) -> None:
        if self.sure_enough is not None and not 0 < self.sure_enough <= 1:
            raise InputError(
                f"--sure-enough {self.sure_enough:g}: expected a number above 0 and at most 1, such as 0.9"
            )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the option."""
    parser.add_argument(
        "--sure-enough",
        type=float,
        metavar="S",
        help="ask more: keep asking while the Q-value of the best decision is below S, in (0, 1]; by default, the "
        "agent asks only while asking has the highest Q-value",
    )


def apply(given: OperatingPointOptions, trained: "TrainedNetwork", job_dir: pathlib.Path) -> "TrainedNetwork":
    """Returns `trained`, of `job_dir`, with the operating point that the option sets, or unchanged without it.

    Raises:
        InputError: the network has no probabilities.
    """
    if given.sure_enough is None:
        return trained
    if not trained.has_probabilities:
        raise InputError(
            f"--sure-enough: {job_dir} has a network without probabilities, which decides by its Q-values alone: leave "
            "the option out, or train with --preset default"
        )
    point = dataclasses.replace(trained.operating_point, sure_enough=given.sure_enough)
    return dataclasses.replace(trained, operating_point=point, point_chosen="given", metrics={})
