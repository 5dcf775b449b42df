"""Collects the outcomes of a study's tasks into the figures of results.json: pure functions, without TensorFlow."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainer.evaluation.metrics import estimate
from trainer.studies.study import ABLATIONS, StudySettings, ablation_task, agent_task, fold_task, seeds_of

Outcomes = Mapping[str, Mapping[str, Any]]
"""The result of each finished task by name; without tasks that failed or were not planned."""

METRICS = ("appropriateness", "safety", "over_triage", "under_triage", "questions", "evidence_seen", "forced")
K_FOLD_PAPER = {"appropriateness": 0.81, "safety": 0.90, "questions": 13.14}


@dataclasses.dataclass(frozen=True)
class AgentRow:
    """A row of the paper's table (tab:performance_test); None where the table has no number."""

    label: str
    learns: bool
    appropriateness: float
    safety: float
    questions: float | None

    @property
    def paper(self) -> dict[str, float | None]:
        """The paper's figures."""
        return {"appropriateness": self.appropriateness, "safety": self.safety, "questions": self.questions}


AGENTS = {
    "dyqn_or": AgentRow("DyQN, OR query", True, 0.85, 0.93, 13.34),
    "dyqn_and": AgentRow("DyQN, AND query", True, 0.76, 0.86, 1.40),
    "partially_observed_or": AgentRow("Partially observed, OR query", True, 0.79, 0.88, 23.0),
    "partially_observed_and": AgentRow("Partially observed, AND query", True, 0.79, 0.86, 10.35),
    "random": AgentRow("Random", False, 0.39, 0.74, 0.25),
    "always_green": AgentRow("Always Green", False, 0.71, 0.75, 0.0),
    "human": AgentRow("Human", False, 0.84, 0.93, None),
    "fully_observed": AgentRow("Fully observed", False, 0.86, 0.94, None),
}


def collect(settings: StudySettings, outcomes: Outcomes) -> dict[str, Any]:
    """Returns the sections of results.json that come from tasks; those not measured are None or empty."""
    detail = outcomes.get("detail", {})
    by_evidence = {
        "calibrated": outcomes.get("ensemble_calibrated", {}).get("by_evidence"),
        "uncalibrated": outcomes.get("ensemble_uncalibrated", {}).get("by_evidence"),
        "dyqn_or": detail.get("by_evidence"),
    }
    return {
        "agents": _agents(settings, outcomes),
        "curves": {
            name: [_curve(seed, outcome["curve"]) for seed, outcome in _trained(settings, name, outcomes)]
            for name, row in AGENTS.items()
            if row.learns
        },
        "by_evidence": {name: points or [] for name, points in by_evidence.items()},
        "k_fold": _k_fold(settings, outcomes),
        "agreement": detail.get("agreement"),
        "reliability": detail.get("reliability"),
        "slices": detail.get("slices", []),
        "unseen": detail.get("unseen"),
        "errors": detail.get("errors", []),
        "ablations": _ablations(settings, outcomes),
    }


def _agents(settings: StudySettings, outcomes: Outcomes) -> dict[str, Any]:
    agents = {}
    for name, row in AGENTS.items():
        measured = _learned(settings, name, outcomes) if row.learns else _fixed(name, outcomes)
        if measured is not None:
            agents[name] = {"label": row.label, "learns": row.learns, "split": "test", **measured, "paper": row.paper}
    return agents


def _learned(settings: StudySettings, name: str, outcomes: Outcomes) -> dict[str, Any] | None:
    """Returns the figures of a learning agent over its seeds.

    The mean is over seeds and last evaluations; the interval resamples the vignettes of that mean.
    """
    trained = [outcome for _, outcome in _trained(settings, name, outcomes)]
    if not trained:
        return None
    return {
        "metrics": {
            metric: {
                **over_seeds([outcome["converged"]["test"][metric] for outcome in trained]),
                **_interval(np.mean([outcome["vignettes"][metric] for outcome in trained], axis=0), settings),
            }
            for metric in METRICS
        },
        "train": {
            metric: float(np.mean([outcome["converged"]["train"][metric] for outcome in trained])) for metric in METRICS
        },
    }


def _fixed(name: str, outcomes: Outcomes) -> dict[str, Any] | None:
    """Returns the figures of an agent that does not learn to stop, from its task."""
    outcome = outcomes.get("fully_observed") if name == "fully_observed" else outcomes.get("fixed", {}).get(name)
    if outcome is None:
        return None
    measured = {
        metric: {**figure, "sd_over_seeds": None, "per_seed": [figure["mean"]]} if figure else None
        for metric, figure in ((metric, outcome["metrics"].get(metric)) for metric in METRICS)
    }
    return {"metrics": measured, "train": outcome["train"]}


def over_seeds(values: Sequence[float]) -> dict[str, Any]:
    """Returns `mean`, `sd_over_seeds` (sample standard deviation, None for one seed) and `per_seed`."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "sd_over_seeds": spread, "per_seed": list(values)}


def _interval(values: np.ndarray, settings: StudySettings) -> dict[str, float | None]:
    interval = estimate(values, settings.config.loop.seed)
    return {"low": interval.low, "high": interval.high}


def _trained(settings: StudySettings, name: str, outcomes: Outcomes) -> list[tuple[int, Mapping[str, Any]]]:
    count = settings.seeds if name.startswith("dyqn") else settings.partially_observed_seeds
    tasks = [(seed, agent_task(name, seed)) for seed in seeds_of(settings, count)]
    return [(seed, outcomes[task]) for seed, task in tasks if task in outcomes]


def _curve(seed: int, curve: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("appropriateness", "safety", "questions")
    splits = {split: {metric: curve[split][metric] for metric in kept} for split in ("test", "train")}
    return {"seed": seed, "steps": curve["steps"], **splits}


def _k_fold(settings: StudySettings, outcomes: Outcomes) -> dict[str, Any] | None:
    runs = []
    for seed in seeds_of(settings, settings.fold_seeds):
        for fold in range(settings.folds):
            outcome = outcomes.get(fold_task(seed, fold))
            if outcome is not None:
                means = outcome["converged"]["test"]
                figures = {metric: means[metric] for metric in ("appropriateness", "safety", "questions")}
                runs.append({"seed": seed, "fold": fold, **figures})
    return {"runs": runs, "paper": K_FOLD_PAPER} if runs else None


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
