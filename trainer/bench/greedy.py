"""A contestant of `triage bench learn` with Q-values: what it decides on the test vignettes at each evaluation.

Needs only NumPy, so that a contestant can live in another Python environment.
"""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from schemas.triage import NUM_DECISIONS, Action
from trainer.bench import worker
from trainer.bench.settings import BenchVignettes, Settings, load_vignettes

ORDERS = (1, 2, 3)
"""Seeds of the evidence orders in which the test vignettes are played."""
STEPS_AT_ONCE = 200
"""Training steps before the clock is read again."""

QValues = Callable[[np.ndarray], np.ndarray]
"""From states float32 `[B, E]` to Q-values `[B, A]`."""


def learner(
    settings: Settings, tests: pathlib.Path, build: Callable[[Settings], tuple[QValues, Callable[[int], Any]]]
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Returns what answers the requests of `trainer.bench.worker.learning`.

    Args:
        settings: of the learner.
        tests: file of the test vignettes.
        build: returns the Q-values of a learner, and what takes a number of training steps.
    """
    q_values, take_steps = build(settings)
    vignettes = load_vignettes(tests)

    steps = 0

    def train(stopping: Callable[[], bool]) -> worker.Trained:
        nonlocal steps
        while not stopping():
            take_steps(STEPS_AT_ONCE)
            steps += STEPS_AT_ONCE
        return worker.Trained(finished=False, steps=steps)

    def decide() -> list[list[int]]:
        return decisions(q_values, vignettes, settings.evidence_count, settings.max_questions, ORDERS).tolist()

    return worker.learning(train, decide)


def decisions(
    q_values: QValues, vignettes: BenchVignettes, evidence_count: int, max_questions: int, orders: Sequence[int]
) -> np.ndarray:
    """Returns the triage decisions of the greedy agent, int64 `[K, V]`.

    It sees one piece of evidence, and one more for each question; it must triage after `max_questions`. Asking when no
    evidence is left changes nothing until then.

    Args:
        q_values: of the agent; ties go to the triage decision, and to the more urgent one.
        vignettes: V of them, each with evidence.
        evidence_count: E, the width of the states.
        max_questions: the question limit.
        orders: seeds of K evidence orders.
    """
    lengths = np.diff(vignettes.offsets)
    rows: np.ndarray = np.repeat(np.arange(len(lengths)), lengths)
    made: np.ndarray = np.empty([len(orders), len(lengths)], np.int64)
    for place, seed in enumerate(orders):
        keys = np.random.default_rng(seed).random(len(rows))
        codes = vignettes.signed_codes[np.lexsort((keys, rows))]  # in a random order within each vignette
        states: np.ndarray = np.zeros([len(lengths), evidence_count], np.float32)
        open_rows = np.arange(len(lengths))
        for known in range(1, int(lengths.max()) + 1):
            revealed = codes[vignettes.offsets[open_rows] + known - 1]
            states[open_rows, np.abs(revealed) - 1] = np.sign(revealed)
            values = q_values(states[open_rows])
            ends = (values.argmax(axis=1) != Action.ASK) | (lengths[open_rows] == known) | (known > max_questions)
            made[place, open_rows[ends]] = values[ends, :NUM_DECISIONS].argmax(axis=1)
            open_rows = open_rows[~ends]
            if not len(open_rows):
                break
    return made
