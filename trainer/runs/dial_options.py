"""The options that set how an agent with probabilities decides, see `trainer.dyqn.decision.Dial`."""

import argparse
import dataclasses
import math
import pathlib
from typing import TYPE_CHECKING

from schemas.errors import InputError
from schemas.triage import NUM_ACTIONS

if TYPE_CHECKING:  # TensorFlow takes seconds to load, and `--help` needs none
    from trainer.runs.job import TrainedNetwork

NEVER = "never"
"""What --sure-enough has in place of a number: questions end where the Q-values say so, and nowhere else."""


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
        "control on the vignettes that training held out",
    )
    parser.add_argument(
        "--sure-enough",
        metavar="S",
        help="stop asking as soon as (P(appropriate) + W P(safe)) / (1 + W) reaches S, in (0, 1]; never: only where "
        "the Q-values say so; by default training chose S",
    )


def chosen(arguments: argparse.Namespace, trained: "TrainedNetwork") -> "TrainedNetwork":
    """Returns `trained` with the dial that the options ask for, as it is where they ask for none.

    Raises:
        InputError: the network has no probabilities, a value is out of range, or the held-out vignettes cannot keep the
            bound on under-triage.
    """
    weight, bound = arguments.safety_weight, arguments.under_triage_at_most
    if weight is None and bound is None and arguments.sure_enough is None:
        return trained
    if trained.model.output_shape[-1] == NUM_ACTIONS:
        raise InputError(
            f"{_given(arguments)}: {arguments.job_dir} has a network without probabilities, which decides by its "
            "Q-values alone: leave the option out, or train with --preset default"
        )
    if weight is not None and not 0 <= weight < math.inf:
        raise InputError(f"--safety-weight {weight:g}: expected a number from 0, such as 2")
    sure_enough = _sure_enough(arguments.sure_enough, trained.dial.sure_enough)
    if bound is not None:
        weight = _least_weight(trained, bound, sure_enough, arguments.job_dir)
    weight = trained.dial.safety_weight if weight is None else weight
    return dataclasses.replace(
        trained,
        dial=dataclasses.replace(trained.dial, safety_weight=weight, sure_enough=sure_enough),
        dial_chosen="given" if bound is None else "bound",
        under_triage_at_most=bound,
    )


def _sure_enough(given: str | None, default: float | None) -> float | None:
    if given is None:
        return default
    if given == NEVER:
        return None
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        raise InputError(f"--sure-enough {given}: expected a number above 0 and at most 1, such as 0.9, or {NEVER}")
    return value


def _least_weight(trained: "TrainedNetwork", bound: float, sure_enough: float | None, job_dir: pathlib.Path) -> float:
    from trainer.dyqn.dial import weight_for

    if trained.held_out is None:
        raise InputError(
            f"--under-triage-at-most {bound:g}: {job_dir} has no held-out vignettes for this checkpoint: training held "
            "out none (--validation-share), has not ended, or --step is not the last one; give --safety-weight instead"
        )
    return weight_for(trained.held_out, bound, sure_enough)


def _given(arguments: argparse.Namespace) -> str:
    names = ("safety_weight", "under_triage_at_most", "sure_enough")
    return ", ".join(f"--{name.replace('_', '-')}" for name in names if getattr(arguments, name) is not None)
