"""The agents of the study without training: random, always Green, and the clinicians (paper, section "Baselines")."""

from typing import Any, NamedTuple

import numpy as np

from schemas.triage import Action
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation import metrics
from trainer.importing.vignette_statistics import MINIMUM_DECISIONS
from trainer.study.baselines import always_outcomes, random_outcomes
from trainer.study.comparison import clinician_figures, judged_alike, judged_rows, plain_values
from trainer.vignettes.arrays import VignetteArrays


class RandomPlay(NamedTuple):
    """How the random agent is evaluated."""

    orders: list[int]  # seeds of the evidence orders
    max_questions: int


def fixed_figures(
    train: VignetteArrays, test: VignetteArrays, evidence_count: int, play: RandomPlay, seed: int
) -> dict[str, Any]:
    """Returns the figures of `random`, `always_green` and `human`.

    See `plain_figures`. `human` is about the vignettes with enough decisions, whose places it has (`judged`), and has
    `beside_agents`, see `trainer.study.comparison.clinician_figures`. It is None if no vignette has enough.

    Args:
        train: one or more vignettes.
        test: one or more vignettes.
        evidence_count: E, the width of the state.
        play: of the random agent.
        seed: of its actions, and of the bootstrap.
    """

    def random(vignettes: VignetteArrays) -> Measures:
        outcomes = random_outcomes(vignettes, evidence_count, play.orders, seed, play.max_questions)
        return agent_measures(outcomes, vignettes)

    def always_green(vignettes: VignetteArrays) -> Measures:
        return agent_measures(always_outcomes(Action.GREEN, vignettes), vignettes)

    figures: dict[str, Any] = {}
    for name, measure in {"random": random, "always_green": always_green, "human": _clinicians}.items():
        on_train, on_test = measure(train), measure(test)
        enough = len(on_train.values["appropriateness"]) and len(on_test.values["appropriateness"])
        figures[name] = plain_figures(on_train, on_test, seed) if enough else None
    if figures["human"] is not None:
        figures["human"]["beside_agents"] = clinician_figures(test.decision_counts, seed)
        figures["human"]["judged"] = {
            split: judged_rows(vignettes.decision_counts).tolist()
            for split, vignettes in (("train", train), ("test", test))
        }
    return figures


class Measures(NamedTuple):
    """Metrics of an agent, float `[V]` each, and float `[V']` on the vignettes on which clinicians are judged."""

    values: dict[str, np.ndarray]
    as_clinicians: dict[str, np.ndarray]


def agent_measures(outcomes: Outcomes, vignettes: VignetteArrays) -> Measures:
    """Returns the metrics of rolled-out episodes."""
    values = metrics.agent_metrics(outcomes, vignettes.decision_counts)
    return Measures(values, judged_alike(outcomes.decisions, values, vignettes.decision_counts))


def plain_figures(train: Measures, test: Measures, seed: int) -> dict[str, Any]:
    """Returns figures of an agent, ready for JSON.

    Estimates on the test split (`metrics`), means on the training split (`train`), the value of each vignette
    (`vignettes`, by split), and those of the test vignettes as clinicians are judged (`as_clinicians`).
    """
    return {
        "vignettes": {"train": plain_values(train.values), "test": plain_values(test.values)},
        "as_clinicians": plain_values(test.as_clinicians),
        "metrics": metrics.summary(test.values, seed),
        "train": {name: float(values.mean()) for name, values in train.values.items()},
    }


def _clinicians(vignettes: VignetteArrays) -> Measures:
    counts = vignettes.decision_counts
    held = np.diff(vignettes.offsets)[judged_rows(counts)].astype(np.float64)
    values = {**metrics.human_metrics(counts, MINIMUM_DECISIONS), "evidence_seen": held}
    return Measures(values, values)
