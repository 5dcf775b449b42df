"""Collects the outcomes of a study's tasks into the figures of results.json: pure functions, without TensorFlow."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainer.evaluation import metrics
from trainer.study.comparison import QUALITY, paired
from trainer.study.measured import Measured, Outcomes
from trainer.study.study import (
    ABLATIONS,
    DEFAULT_PRESET,
    StudySettings,
    ablation_task,
    agent_task,
    fold_task,
    seeds_of,
)

_TARGETS = ("appropriateness", "safety", "questions")
METRICS = ("appropriateness", "safety", "over_triage", "under_triage", "questions", "evidence_seen", "forced")
COMPARED = ("dyqn_or", DEFAULT_PRESET)
"""The agents whose differences from clinicians and fully observed model are in the report's first sentences."""
K_FOLD_PAPER = {"appropriateness": 0.81, "safety": 0.90, "questions": 13.14}


@dataclasses.dataclass(frozen=True)
class AgentRow:
    """A row of the paper's table (tab:performance_test), or of ours; None where the table has no number."""

    label: str
    learns: bool
    appropriateness: float | None = None
    safety: float | None = None
    questions: float | None = None

    @property
    def paper(self) -> dict[str, float | None]:
        """The paper's figures."""
        return {"appropriateness": self.appropriateness, "safety": self.safety, "questions": self.questions}


AGENTS = {
    "dyqn_or": AgentRow("DyQN, OR query", True, 0.85, 0.93, 13.34),
    DEFAULT_PRESET: AgentRow("Preset default", True),
    "dyqn_and": AgentRow("DyQN, AND query", True, 0.76, 0.86, 1.40),
    "partially_observed_or": AgentRow("Partially observed, OR query", True, 0.79, 0.88, 23.0),
    "partially_observed_and": AgentRow("Partially observed, AND query", True, 0.79, 0.86, 10.35),
    "random": AgentRow("Random", False, 0.39, 0.74, 0.25),
    "always_green": AgentRow("Always Green", False, 0.71, 0.75, 0.0),
    "human": AgentRow("Human", False, 0.84, 0.93, None),
    "fully_observed": AgentRow("Fully observed", False, 0.86, 0.94, None),
}


def collect(measured: Measured) -> dict[str, Any]:
    """Returns the sections of results.json that come from tasks; those not measured are None or empty."""
    outcomes = measured.outcomes
    detail, calibration = outcomes.get("detail", {}), outcomes.get("calibration", {})
    by_evidence = {**calibration.get("by_evidence", {}), "dyqn_or": detail.get("by_evidence")}
    return {
        "agents": _agents(measured),
        "comparisons": _comparisons(measured),
        "beside_clinicians": _beside_clinicians(measured),
        "curves": {
            name: [_curve(seed, outcome["curve"]) for seed, outcome in measured.trained(name)]
            for name, row in AGENTS.items()
            if row.learns and name != DEFAULT_PRESET  # which is evaluated at its end only
        },
        "by_evidence": {name: by_evidence.get(name) or [] for name in ("calibrated", "uncalibrated", "dyqn_or")},
        "k_fold": _k_fold(measured),
        "agreement": detail.get("agreement"),
        "reliability": detail.get("reliability"),
        "slices": detail.get("slices", []),
        "unseen": detail.get("unseen"),
        "coverage": detail.get("coverage"),
        "errors": detail.get("errors", []),
        "ablations": _ablations(measured.settings, outcomes),
    }


def _agents(measured: Measured) -> dict[str, Any]:
    agents = {}
    for name, row in AGENTS.items():
        figures = _learned(measured, name) if row.learns else _fixed(measured, name)
        if figures is None:
            continue
        alike = measured.as_clinicians(name) or {}
        agents[name] = {
            "label": row.label, "learns": row.learns, "split": "test", **figures,
            "as_clinicians": {
                metric: metrics.estimate(alike[metric], measured.seed)
                for metric in METRICS
                if metric in alike
            },
            "paper": row.paper,
        }  # fmt: skip
    return agents


def _learned(measured: Measured, name: str) -> dict[str, Any] | None:
    """Returns the figures of a learning agent over its seeds.

    The mean is over seeds and last evaluations; the interval resamples the vignettes of that mean.
    """
    trained = [outcome for _, outcome in measured.trained(name)]
    values = measured.by_all(name, "test")
    if values is None:
        return None
    return {
        "metrics": {
            metric: {
                **over_seeds([outcome["converged"]["test"][metric] for outcome in trained]),
                **_interval(values[metric], measured.seed),
            }
            for metric in METRICS
        },
        "train": {
            metric: float(np.mean([outcome["converged"]["train"][metric] for outcome in trained])) for metric in METRICS
        },
    }


def _comparisons(measured: Measured) -> dict[str, Any]:
    """Returns the paired differences of the agents to others, and the margin within which they are negligible.

    All are judged by leave-one-out, on the same vignettes.
    """
    compared: dict[str, Any] = {"margin": measured.settings.margin}
    for name in COMPARED:
        ours = measured.as_clinicians(name)
        compared[name] = {
            other: {metric: paired(ours[metric], theirs[metric], measured.seed) for metric in QUALITY}
            for other in ("human", "fully_observed")
            if ours and (theirs := measured.as_clinicians(other))
        }
    return compared


def _beside_clinicians(measured: Measured) -> list[dict[str, Any]]:
    """Returns the agents alone and with safety rules, and the clinicians, on the same vignettes and judged alike.

    One training of each agent, that of the first seed.
    """
    outcomes = measured.outcomes
    trained = measured.trained(DEFAULT_PRESET)
    agents = {"DyQN, OR query": outcomes.get("detail", {}), "Preset default": trained[0][1] if trained else {}}
    rows = [
        {"label": f"{label}{rules}", "metrics": figures}
        for label, outcome in agents.items()
        for key, rules in (("alone", ""), ("with_rules", ", with safety rules"))
        if (figures := outcome.get("beside_clinicians", {}).get(key))
    ]
    clinicians = (outcomes.get("fixed", {}).get("human") or {}).get("beside_agents")
    return [*rows, {"label": "Clinicians", "metrics": clinicians}] if clinicians else rows


def _fixed(measured: Measured, name: str) -> dict[str, Any] | None:
    """Returns the figures of an agent that does not learn to stop, from its task."""
    outcomes = measured.outcomes
    outcome = outcomes.get("fully_observed") if name == "fully_observed" else outcomes.get("fixed", {}).get(name)
    if outcome is None:
        return None
    figures = {
        metric: {**figure, "sd_over_seeds": None, "per_seed": [figure["mean"]]} if figure else None
        for metric, figure in ((metric, outcome["metrics"].get(metric)) for metric in METRICS)
    }
    return {"metrics": figures, "train": outcome["train"]}


def over_seeds(values: Sequence[float]) -> dict[str, Any]:
    """Returns `mean`, `sd_over_seeds` (sample standard deviation, None for one seed) and `per_seed`."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "sd_over_seeds": spread, "per_seed": list(values)}


def _interval(values: np.ndarray, seed: int) -> dict[str, float | None]:
    interval = metrics.estimate(values, seed)
    return {"low": interval.low, "high": interval.high}


def _curve(seed: int, curve: Mapping[str, Any]) -> dict[str, Any]:
    splits = {split: {metric: curve[split][metric] for metric in _TARGETS} for split in ("test", "train")}
    return {"seed": seed, "steps": curve["steps"], **splits}


def _k_fold(measured: Measured) -> dict[str, Any] | None:
    """Returns each fold, and over all repetitions that are complete the mean of each metric with its interval."""
    settings, runs = measured.settings, []
    for seed in seeds_of(settings, settings.fold_seeds):
        for fold in range(settings.folds):
            outcome = measured.outcomes.get(fold_task(seed, fold))
            if outcome is not None:
                means = outcome["converged"]["test"]
                runs.append({"seed": seed, "fold": fold, **{metric: means[metric] for metric in _TARGETS}})
    if not runs:
        return None
    folds = measured.folds()
    return {
        "runs": runs,
        "repetitions": folds.repetitions if folds else 0,
        "mean": {
            metric: metrics.estimate(folds.values[metric], measured.seed) for metric in _TARGETS
        } if folds else None,
        "paper": K_FOLD_PAPER,
    }  # fmt: skip


def _ablations(settings: StudySettings, outcomes: Outcomes) -> list[dict[str, Any]]:
    if not settings.ablations:
        return []
    seeds = seeds_of(settings, settings.seeds)
    names = {"default": [agent_task("dyqn_or", seed) for seed in seeds]}
    names.update({name: [ablation_task(name, seed) for seed in seeds] for name in ABLATIONS})
    rows = []
    for name, tasks in names.items():
        means = [outcomes[task]["converged"]["test"] for task in tasks if task in outcomes]
        if means:
            measured = {metric: over_seeds([each[metric] for each in means]) for metric in METRICS}
            rows.append({"name": name, "metrics": measured})
    return rows
