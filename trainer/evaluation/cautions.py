"""Warnings about training runs and evaluations that show little."""

from collections.abc import Mapping
from typing import Any

from trainer.config import OptimiserConfig
from trainer.data.split import FEW_TEST_VIGNETTES, split_warnings
from trainer.evaluation.estimates import Estimate
from trainer.graph import mixture, novelty

HIGH_LEARNING_RATES = {"adam": 0.05, "sgd": 1.0}
"""By algorithm, 50 times the learning rate of the preset that uses it. No agent has been seen to learn with more."""


def before_training(splits: Mapping[str, Any], learned: int, optimiser: OptimiserConfig) -> list[str]:
    """Returns the warnings that a training on these data with this optimiser needs, as sentences.

    Of the training vignettes, `learned` are neither held out nor set apart. `splits` are as stats.json holds them.
    """
    sentences = list(split_warnings(splits))
    lacks = {
        mixture.FEWEST_LEARNED: "choose questions, so nobody can be interviewed",
        novelty.FEWEST_LEARNED: "recognise cases unlike anything in training",
    }
    missing = [f"with fewer than {fewest} it cannot {what}" for fewest, what in lacks.items() if learned < fewest]
    if missing:
        sentences.append(
            f"the agent learns from {learned} of {splits['train']['vignettes']} training vignettes: "
            f"{', and '.join(missing)}"
        )
    if optimiser.learning_rate > HIGH_LEARNING_RATES[optimiser.algorithm]:
        sentences.append(
            f"the learning rate of {optimiser.learning_rate:g} is very high for {optimiser.algorithm}: expected "
            f"{HIGH_LEARNING_RATES[optimiser.algorithm]:g} or less"
        )
    return sentences


def cautions(split: str, vignettes: int, agent: Mapping[str, Estimate]) -> list[str]:
    """Returns the warnings that an evaluation needs, as sentences."""
    sentences = []
    if vignettes < FEW_TEST_VIGNETTES:
        sentences.append(
            f"the {split} split has {vignettes} vignettes: with fewer than {FEW_TEST_VIGNETTES} "
            "these figures are unreliable"
        )
    forced, questions = agent["forced"].mean, agent["questions"].mean
    if 0 == forced < questions:
        sentences.append("the agent is never forced to decide: it always stops asking before the limit")
    return sentences + about_asking(forced, questions)


def about_asking(forced: float, questions: float) -> list[str]:
    """Returns the warnings about an agent that never or always asks, by the means of both figures."""
    if forced == 1:
        return [
            "the agent is forced to decide in every episode: it has not learned to stop asking; train on more "
            "vignettes or for longer"
        ]
    if questions == 0:
        return ["the agent asks nothing: it decides on the first finding"]
    return []
