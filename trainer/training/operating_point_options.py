"""The options that set how an agent with probabilities decides, see `trainer.graph.decide.OperatingPoint`."""

import argparse
import dataclasses
import math
import pathlib
from typing import TYPE_CHECKING

from schemas.errors import InputError
from triage_runtime.command_line import options

if TYPE_CHECKING:  # TensorFlow takes seconds to load, and `--help` needs none
    from trainer.graph.decide import OperatingPoint
    from trainer.training.job import TrainedNetwork


@dataclasses.dataclass(frozen=True)
class OperatingPointOptions:
    """The options, see `add_arguments`; None for those that are not given."""

    safety_weight: float | None = None
    question_price: float | None = None
    sure_enough: float | None = None

    @property
    def flags(self) -> list[str]:
        """The flags that are given."""
        return [options.flag(name) for name, value in dataclasses.asdict(self).items() if value is not None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options."""
    parser.add_argument(
        "--safety-weight",
        type=float,
        metavar="W",
        help="weight of safety: decide by the highest P(appropriate) + W P(safe); default: chosen in training",
    )
    parser.add_argument(
        "--question-price",
        type=float,
        metavar="PRICE",
        help="price of a question, in units of the utility (P(appropriate) + W P(safe)) / (1 + W), such as 0.004; "
        "default: chosen for the weight, as in training, and the stopping threshold with it",
    )
    parser.add_argument(
        "--sure-enough",
        type=float,
        metavar="S",
        help="stopping threshold: ask also while the utility (P(appropriate) + W P(safe)) / (1 + W) is below S, in "
        "(0, 1]; without --question-price, a question has the highest price, so that hardly anything else counts",
    )


def apply(given: OperatingPointOptions, trained: "TrainedNetwork", job_dir: pathlib.Path) -> "TrainedNetwork":
    """Returns `trained`, of `job_dir`, with the operating point that the options set, or unchanged if none is given.

    Raises:
        InputError: the network has no probabilities, or a value is out of range.
    """
    weight = given.safety_weight
    if not given.flags:
        return trained
    if not trained.has_probabilities:
        raise InputError(
            f"{', '.join(given.flags)}: {job_dir} has a network without probabilities, which decides by its Q-values "
            "alone: leave the option out, or train with --preset default"
        )
    if weight is not None and not 0 <= weight < math.inf:
        raise InputError(f"--safety-weight {weight:g}: expected a number from 0, such as 2")
    _check(given)
    point = with_weight(given, trained, trained.operating_point.safety_weight if weight is None else weight)
    return dataclasses.replace(trained, operating_point=point, point_chosen="given", metrics={})


def points_by_weight(given: OperatingPointOptions, trained: "TrainedNetwork") -> "list[OperatingPoint]":
    """Returns the operating point at each weight that training chooses from, and at the agent's own, in order."""
    from trainer.graph.operating_point import WEIGHTS

    return [with_weight(given, trained, weight) for weight in sorted({*WEIGHTS, trained.operating_point.safety_weight})]


def with_weight(given: OperatingPointOptions, trained: "TrainedNetwork", weight: float) -> "OperatingPoint":
    """Returns the operating point with `weight`, and what is given of where it stops, or else what suits the weight."""
    from trainer.graph.decide import PRICES, OperatingPoint
    from trainer.graph.operating_point import choose

    judged = trained.held_out
    if given.question_price is not None or given.sure_enough is not None:
        price = PRICES[-1] if given.question_price is None else given.question_price
        return OperatingPoint(weight, given.sure_enough, price)
    if judged is not None and weight != trained.operating_point.safety_weight:
        return choose(judged, weight)
    return dataclasses.replace(trained.operating_point, safety_weight=weight)


def _check(given: OperatingPointOptions) -> None:
    from trainer.graph.decide import PRICES

    price, sure_enough = given.question_price, given.sure_enough
    if price is not None and not PRICES[0] <= price <= PRICES[-1]:
        raise InputError(f"--question-price {price:g}: expected a number from {PRICES[0]:g} to {PRICES[-1]:g}")
    if sure_enough is not None and not 0 < sure_enough <= 1:
        raise InputError(f"--sure-enough {sure_enough:g}: expected a number above 0 and at most 1, such as 0.9")
