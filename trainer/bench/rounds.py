"""Rounds in which contestants take turns, and their summary.

Other load on the machine slows neighbours in a round equally. So ratios are taken within each round, and the median
over rounds is reported: on a busy machine a ratio is reliable where a time is not.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Spread(NamedTuple):
    """A value over the rounds."""

    median: float
    low: float  # the lowest round
    high: float  # the highest round


def spread(values: Sequence[float]) -> Spread:
    """Returns median, lowest and highest of at least one value."""
    return Spread(statistics.median(values), min(values), max(values))


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> Spread:
    """Returns the spread of the quotients, round by round."""
    return spread([above / below for above, below in zip(numerators, denominators, strict=True)])


def play(
    contestants: Mapping[str, Callable[[], Mapping[str, Any]]], rounds: int, done: Callable[[], None] = lambda: None
) -> dict[str, list[Mapping[str, Any]]]:
    """Lets each contestant take its turn in each round, and returns the answers.

    The first contestant changes from round to round. `done` is called after each turn.
    """
    answers: dict[str, list[Mapping[str, Any]]] = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            answers[name].append(contestants[name]())
            done()
    return answers
