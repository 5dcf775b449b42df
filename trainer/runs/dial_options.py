"""The options that set how an agent with probabilities decides, see `trainer.dyqn.decision.Dial`."""

import argparse
import dataclasses
import math
import pathlib
from typing import TYPE_CHECKING, NamedTuple

from schemas.errors import InputError
from schemas.triage import NUM_ACTIONS
from triage_runtime.command_line import options

if TYPE_CHECKING:  # TensorFlow takes seconds to load, and `--help` needs none
    from trainer.dyqn.decision import Dial
    from trainer.runs.job import TrainedNetwork

NEVER = "never"
"""Value of --sure-enough with which the Q-values decide when to ask."""


@dataclasses.dataclass(frozen=True)
class DialOptions:
    """The options, see `add_arguments`; None for those that are not given."""

    safety_weight: float | None = None
    under_triage_at_most: float | None = None
    sure_enough: str | None = None
    question_cost: float | None = None

    @property
    def flags(self) -> list[str]:
        """The flags that are given."""
        return [options.flag(name) for name, value in dataclasses.asdict(self).items() if value is not None]


class Threshold(NamedTuple):
    """The value of --sure-enough."""

    value: float | None  # None is never


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options."""
    weight = parser.add_mutually_exclusive_group()
    weight.add_argument(
        "--safety-weight",
        type=float,
        metavar="W",
        help="choose the triage decision with the highest P(appropriate) + W P(safe); by default training chose W",
    )
    weight.add_argument(
        "--under-triage-at-most",
        type=float,
        metavar="SHARE",
        help="the least W that keeps under-triage at most SHARE in expectation, such as 0.05, chosen by conformal risk "
        "control: with a guarantee where training had --bound-share, an estimate otherwise",
    )
    parser.add_argument(
        "--sure-enough",
        metavar="S",
        help="ask until (P(appropriate) + W P(safe)) / (1 + W) reaches S, in (0, 1]; never: as the Q-values say; by "
        "default S is chosen for the weight, as in training",
    )
    parser.add_argument(
        "--question-cost",
        type=float,
        metavar="BITS",
        help="an interview whose questions the model chooses ends where no answer is worth more than BITS "
        "(docs/questions.md)",
    )


def apply(given: DialOptions, trained: "TrainedNetwork", job_dir: pathlib.Path) -> "TrainedNetwork":
    """Returns `trained`, of `job_dir`, with the dial that the options set, or unchanged if none is given.

    Raises:
        InputError: the network has no probabilities, or cannot choose questions, a value is out of range, or the
            held-out vignettes cannot keep the bound on under-triage.
    """
    if given.question_cost is not None:
        trained = _with_cost(trained, given.question_cost, job_dir)
        given = dataclasses.replace(given, question_cost=None)
    weight, bound = given.safety_weight, given.under_triage_at_most
    if not given.flags:
        return trained
    if trained.model.output_shape[-1] == NUM_ACTIONS:
        raise InputError(
            f"{', '.join(given.flags)}: {job_dir} has a network without probabilities, which decides by its Q-values "
            "alone: leave the option out, or train with --preset default"
        )
    if weight is not None and not 0 <= weight < math.inf:
        raise InputError(f"--safety-weight {weight:g}: expected a number from 0, such as 2")
    sure_enough = _threshold(given.sure_enough)
    if bound is not None:
        dial = _bounded(trained, bound, sure_enough, job_dir)
    else:
        dial = with_weight(trained, trained.dial.safety_weight if weight is None else weight, sure_enough)
    dial = dataclasses.replace(dial, question_cost=trained.dial.question_cost)
    chosen_by = "given" if bound is None else "bound"
    return dataclasses.replace(trained, dial=dial, dial_chosen=chosen_by, under_triage_at_most=bound)


def dials_by_weight(given: DialOptions, trained: "TrainedNetwork") -> "list[Dial]":
    """Returns the agent's dial at each weight that training chooses from, and at its own, by rising weight."""
    from trainer.dyqn.dial import WEIGHTS

    sure_enough = _threshold(given.sure_enough)
    weights = sorted({*WEIGHTS, trained.dial.safety_weight})
    return [with_weight(trained, weight, sure_enough) for weight in weights]


def with_weight(trained: "TrainedNetwork", weight: float, sure_enough: Threshold | None = None) -> "Dial":
    """Returns the dial with `weight`, and the threshold that is given, or else the one that suits this weight."""
    from trainer.dyqn.decision import Dial
    from trainer.dyqn.dial import with_threshold

    judged = trained.held_out.judged
    if sure_enough is None and judged is not None and weight != trained.dial.safety_weight:
        return with_threshold(judged, weight)
    return Dial(weight, trained.dial.sure_enough if sure_enough is None else sure_enough.value)


def _with_cost(trained: "TrainedNetwork", question_cost: float, job_dir: pathlib.Path) -> "TrainedNetwork":
    if not 0 <= question_cost < math.inf:
        raise InputError(f"--question-cost {question_cost:g}: expected bits from 0, such as 0.02")
    if trained.questions is None:
        raise InputError(f"--question-cost: {job_dir} cannot choose questions: train on at least 100 vignettes")
    return dataclasses.replace(trained, dial=dataclasses.replace(trained.dial, question_cost=question_cost))


def _threshold(text: str | None) -> Threshold | None:
    if text is None:
        return None
    if text == NEVER:
        return Threshold(None)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        raise InputError(f"--sure-enough {text}: expected a number above 0 and at most 1, such as 0.9, or {NEVER}")
    return Threshold(value)


def _bounded(trained: "TrainedNetwork", bound: float, sure_enough: Threshold | None, job_dir: pathlib.Path) -> "Dial":
    from trainer.dyqn.dial import WEIGHTS, least_dial

    vignettes = trained.held_out.apart or trained.held_out.judged
    if vignettes is None:
        raise InputError(
            f"--under-triage-at-most {bound:g}: {job_dir} has no held-out vignettes for this checkpoint: training held "
            "out none (--bound-share, --parts), has not ended, or --step is not the last one; give --safety-weight "
            "instead"
        )
    return least_dial(vignettes, bound, [with_weight(trained, weight, sure_enough) for weight in WEIGHTS])
