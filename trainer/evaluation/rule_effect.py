"""The effect of safety rules: an agent without and with them, on the same vignettes in the same evidence orders."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from trainer.dyqn.rollout import Outcomes
from trainer.evaluation import metrics
from trainer.evaluation.agreement import agent_agreement
from triage_runtime.command_line.progress import print_table

METRICS = ("appropriateness", "safety", "over_triage", "under_triage", "questions")
_RED = ("red_sensitivity", "red_specificity")


class Compared(NamedTuple):
    """One figure without and with rules."""

    without: metrics.Estimate | None
    with_rules: metrics.Estimate | None
    difference: metrics.Estimate | None  # with minus without, over pairs; None for a figure that is no mean


def rule_effect(without: Outcomes, with_rules: Outcomes, decision_counts: np.ndarray, seed: int) -> dict[str, Any]:
    """Returns what rules change.

    Args:
        without: K evidence orders of V vignettes, played without rules.
        with_rules: the same orders, played with them.
        decision_counts: `[V, 4]`, the clinicians' decisions.
        seed: of the bootstrap.

    Returns:
        `metrics`: a `Compared` by name; `changed`: share of the episodes that end with another decision.
    """
    before, after = (metrics.agent_metrics(outcomes, decision_counts) for outcomes in (without, with_rules))
    compared = {
        name: Compared(
            metrics.estimate(before[name], seed),
            metrics.estimate(after[name], seed),
            metrics.estimate(after[name] - before[name], seed),
        )
        for name in METRICS
    }
    rates = [agent_agreement(outcomes.decisions, decision_counts, seed) for outcomes in (without, with_rules)]
    compared |= {name: Compared(rates[0][name], rates[1][name], None) for name in _RED}
    return {"metrics": compared, "changed": float((without.decisions != with_rules.decisions).mean())}


def print_effect(effect: Mapping[str, Any]) -> None:
    """Prints the result of `rule_effect` as `--json` writes it, with the rules under `rules`."""
    console = Console(highlight=False)
    console.print(
        f"Safety rules ({effect['rules']['source']}, {len(effect['rules']['rules'])} of them): they change the "
        f"decision in {effect['changed']:.1%} of the episodes."
    )
    table = Table("", "without", "with", "difference", box=box.SIMPLE)
    for name, compared in effect["metrics"].items():
        table.add_row(name.replace("_", " "), *(_cell(compared[side]) for side in Compared._fields))
    print_table(table)


def _cell(estimate: Mapping[str, Any] | None) -> str:
    if estimate is None:
        return "-"
    if estimate["low"] is None:
        return f"{estimate['mean']:.3f}"
    return f"{estimate['mean']:.3f} [{estimate['low']:.3f}, {estimate['high']:.3f}]"
