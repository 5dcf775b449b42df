"""Collects the outcomes of a study's tasks into the figures of results.json: pure functions, without TensorFlow."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainer.evaluation.metrics import estimate
from trainer.importing.vignette_statistics import MINIMUM_DECISIONS
from trainer.study.comparison import QUALITY, paired
from trainer.study.study import (
    ABLATIONS,
    DEFAULT_PRESET,
    StudySettings,
    ablation_task,
    agent_task,
    fold_task,
    seeds_of,
)

Outcomes = Mapping[str, Mapping[str, Any]]
"""The result of each finished task by name; without tasks that failed or were not planned."""

METRICS = ("appropriateness", "safety", "over_triage", "under_triage", "questions", "evidence_seen", "forced")
COMPARED = ("dyqn_or", DEFAULT_PRESET)
"""The agents that are compared with clinicians and fully-observed model."""
_SUFFIX = "_as_clinicians"
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


_AS_CLINICIANS = f", {MINIMUM_DECISIONS} or more decisions"
AGENTS = {
    "dyqn_or": AgentRow("DyQN, OR query", True, 0.85, 0.93, 13.34),
    "dyqn_or_as_clinicians": AgentRow(f"DyQN, OR query{_AS_CLINICIANS}", False),
    DEFAULT_PRESET: AgentRow("Preset default", True),
    f"{DEFAULT_PRESET}_as_clinicians": AgentRow(f"Preset default{_AS_CLINICIANS}", False),
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
        "comparisons": _comparisons(settings, outcomes),
        "beside_clinicians": _beside_clinicians(settings, outcomes),
        "curves": {
            name: [_curve(seed, outcome["curve"]) for seed, outcome in _trained(settings, name, outcomes)]
            for name, row in AGENTS.items()
            if row.learns and name != DEFAULT_PRESET  # which is evaluated at its end only
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
        if name.endswith(_SUFFIX):
            measured = _judged_as_clinicians(settings, name.removesuffix(_SUFFIX), outcomes)
        else:
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


def _judged_as_clinicians(settings: StudySettings, name: str, outcomes: Outcomes) -> dict[str, Any] | None:
    """Returns the figures of a learning agent on vignettes with enough decisions, judged as clinicians are."""
    judged = [outcome["as_clinicians"] for _, outcome in _trained(settings, name, outcomes)]
    if not judged or not judged[0]["safety"]:
        return None
    return {
        "metrics": {
            metric: {
                **over_seeds([float(np.mean(each[metric])) for each in judged]),
                **_interval(np.mean([each[metric] for each in judged], axis=0), settings),
            }
            for metric in METRICS
        },
        "train": None,
    }


def _comparisons(settings: StudySettings, outcomes: Outcomes) -> dict[str, Any]:
    """Returns the paired differences of the agents to others, and the margin within which they are negligible.

    Agents and clinicians are judged by all clinicians but one, agents and the fully-observed model by all of them.
    """
    theirs = {
        "human": (outcomes.get("fixed", {}).get("human") or {}).get("vignettes"),
        "fully_observed": outcomes.get("fully_observed", {}).get("vignettes"),
    }
    compared: dict[str, Any] = {"margin": settings.margin}
    for name in COMPARED:
        trained = [outcome for _, outcome in _trained(settings, name, outcomes)]
        ours = {"human": "as_clinicians", "fully_observed": "vignettes"}
        compared[name] = {
            other: {
                metric: paired(np.mean([each[ours[other]][metric] for each in trained], axis=0).tolist(),
                               values[metric], settings.config.loop.seed)
                for metric in QUALITY
            }
            for other, values in theirs.items()
            if values and trained
        }  # fmt: skip
    return compared


def _beside_clinicians(settings: StudySettings, outcomes: Outcomes) -> list[dict[str, Any]]:
    """Returns the agents alone and with safety rules, and the clinicians, on the same vignettes and judged alike.

    One training of each agent, that of the first seed.
    """
    trained = _trained(settings, DEFAULT_PRESET, outcomes)
    agents = {"DyQN, OR query": outcomes.get("detail", {}), "Preset default": trained[0][1] if trained else {}}
    rows = [
        {"label": f"{label}{rules}", "metrics": figures}
        for label, outcome in agents.items()
        for key, rules in (("alone", ""), ("with_rules", ", with safety rules"))
        if (figures := outcome.get("beside_clinicians", {}).get(key))
    ]
    clinicians = (outcomes.get("fixed", {}).get("human") or {}).get("beside_agents")
    return [*rows, {"label": "Clinicians", "metrics": clinicians}] if clinicians else rows


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
    counts = {"dyqn": settings.seeds, "default": settings.default_preset_seeds}
    count = counts.get(name.partition("_")[0], settings.partially_observed_seeds)
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
