"""The agents of the study without training: random, always Green, and the clinicians (paper, section "Baselines")."""

from typing import Any, NamedTuple

import numpy as np

from schemas.triage import Action
from trainer.evaluation import metrics
from trainer.importing.vignette_statistics import MINIMUM_DECISIONS
from trainer.study.baselines import always_metrics, random_metrics
from trainer.study.comparison import QUALITY, clinician_figures
from trainer.vignettes.arrays import VignetteArrays


class RandomPlay(NamedTuple):
    """How the random agent is evaluated."""

    orders: list[int]  # seeds of the evidence orders
    max_questions: int


def fixed_figures(
    train: VignetteArrays, test: VignetteArrays, evidence_count: int, play: RandomPlay, seed: int
) -> dict[str, Any]:
    """Returns `random`, `always_green` and `human`: `metrics` on the test split, and their means on the training split.

    `human` has the values of single test vignettes too (`vignettes`), and `beside_agents`, see
    `trainer.study.comparison.clinician_figures`. It is None if no vignette has enough decisions.

    Args:
        train: one or more vignettes.
        test: one or more vignettes.
        evidence_count: E, the width of the state.
        play: of the random agent.
        seed: of its actions, and of the bootstrap.
    """

    def random(vignettes: VignetteArrays) -> dict[str, np.ndarray]:
        return random_metrics(vignettes, evidence_count, play.orders, seed, play.max_questions)

    agents = {
        "random": random,
        "always_green": lambda vignettes: always_metrics(Action.GREEN, vignettes),
        "human": _clinicians,
    }
    figures: dict[str, Any] = {}
    for name, measure in agents.items():
        on_train, on_test = measure(train), measure(test)
        enough = len(on_train["appropriateness"]) and len(on_test["appropriateness"])
        figures[name] = plain_figures(on_train, on_test, seed) if enough else None
        if name == "human" and figures[name] is not None:
            figures[name]["beside_agents"] = clinician_figures(test.decision_counts, seed)
    return figures


def plain_figures(train: dict[str, np.ndarray], test: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    """Returns the estimates on the test split (`metrics`) and the means on the training split, ready for JSON.

    Of appropriateness and safety it also returns the value of each test vignette (`vignettes`).
    """
    return {
        "vignettes": {name: test[name].tolist() for name in QUALITY},
        "metrics": {name: estimate._asdict() for name, estimate in metrics.summary(test, seed).items()},
        "train": {name: float(values.mean()) for name, values in train.items()},
    }


def _clinicians(vignettes: VignetteArrays) -> dict[str, np.ndarray]:
    counts = vignettes.decision_counts
    held = np.diff(vignettes.offsets)[counts.sum(axis=1) >= MINIMUM_DECISIONS]
    return {**metrics.human_metrics(counts, MINIMUM_DECISIONS), "evidence_seen": held.astype(np.float64)}
