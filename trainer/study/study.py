"""The plan of the paper's study: its tasks, the inputs of each, and their dependencies."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from schemas.errors import InputError
from trainer import presets
from trainer.config import PAPER_QUERIES, TrainConfig
from trainer.reports.numbers import MARGIN

FORMAT = 4
"""Raised when tasks change what they compute from the same settings, so that earlier outcomes are not reused."""

DETAIL_ORDERS = 10
"""Random evidence orders of the evaluation in detail."""
CONVERGED = 10
"""Maximum number of evaluations at the end of training to average, as in the paper's table (tab:performance_test)."""
CONVERGED_PART = 4
"""With few evaluations, only the last 1 / CONVERGED_PART of them are averaged."""
JUDGED_ROWS = 10_000
"""Maximum number of rows of D_pow's test part that models are judged on, however many they learn from."""
TRAIN_SAMPLE = 150
"""Maximum number of training vignettes that evaluations during training include."""

DYQN, PRESET, DETAIL, ENSEMBLE, CALIBRATION, PARTIALLY_OBSERVED, FULLY_OBSERVED, FIXED = (
    "dyqn", "preset", "detail", "ensemble", "calibration", "partially_observed", "fully_observed", "fixed",
)  # fmt: skip
"""Kinds of tasks: `trainer.study.tasks` says what each does."""

MEMBERS = ("sgd", "logistic", "mlp", "tree", "forest", "svc")
"""Classifiers of the paper's ensemble (`trainer.study.ensemble`). The MLP and the SVC are by far the slowest."""

DEFAULT_PRESET = "default_preset"
"""The agent that `triage train` makes by default."""

_WITHOUT_EFFECT = ("steps_per_call", "checkpoint_interval", "checkpoints_kept", "window_episodes", "seed")
# A priority is at most 1, so all transitions are in the lower bucket; an empty bucket is not sampled.
_UNIFORM = {"memory": {"bucket_probabilities": [0.5, 0.5], "bucket_thresholds": [2.0], "priority_decay": 1.0}}
ALL_DECISIONS = "Q_m over all decisions"
ABLATIONS: dict[str, dict[str, dict[str, Any]]] = {
    "ask successor: taken only": {"target": {"ask_successor": "taken_only"}},
    "ask successor: same state": {"target": {"ask_successor": "same_state"}},
    ALL_DECISIONS: {"target": {"best_triage_over": "all"}},
    "uniform replay": _UNIFORM,
    # The paper's alternative (Discussion): the value of ask is the highest value in s', less the price of a question.
    "classic DQN, priced question": {"target": {"ask_query": "value"}},
    "no exploration noise": {"exploration": {"ask_noise_initial": 0.0, "ask_noise_final": 0.0}},
}
"""The change of each variant to the configuration of DyQN-OR, one choice at a time."""


@dataclasses.dataclass(frozen=True)
class StudySettings:
    """The size of the study."""

    mode: str  # "quick" or "full": only a label
    seeds: int
    partially_observed_seeds: int
    folds: int  # 0 means no cross-validation
    fold_seeds: int
    powerset_rows: int  # rows of D_pow, at most, to train an ensemble on
    members: tuple[str, ...]  # of the ensembles, one or more of MEMBERS
    ablations: bool
    config: TrainConfig
    default_preset_seeds: int = 0
    margin: float = MARGIN  # difference up to which two shares are equivalent

    def __post_init__(self) -> None:
        for name, least in (("seeds", 1), ("default_preset_seeds", 0), ("partially_observed_seeds", 0), ("folds", 0),
                            ("fold_seeds", 0), ("powerset_rows", 100)):  # fmt: skip
            if getattr(self, name) < least:
                raise InputError(f"--{name.replace('_', '-')} {getattr(self, name)}: expected {least} or more")
        if not 0 < self.margin < 1:
            raise InputError(f"--margin {self.margin:g}: expected a share above 0 and below 1, such as {MARGIN}")
        if self.folds == 1:
            raise InputError("--folds 1: expected 2 or more, or 0 for no cross-validation")
        if not self.config.loop.evaluation_interval:
            raise InputError("--evaluation-interval 0: the study needs evaluations: expected 1 or more")

    @property
    def judged_rows(self) -> int:
        """Number of rows of D_pow's test part, at most, that models are judged on."""
        return min(self.powerset_rows, JUDGED_ROWS)

    @property
    def converged(self) -> int:
        """Number of evaluations at the end of training that count as those of the trained agent."""
        loop = self.config.loop
        evaluations = -(-loop.steps // loop.evaluation_interval)
        return max(1, min(CONVERGED, evaluations // CONVERGED_PART))

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as JSON can hold them."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "config"}
        return {
            **values,
            "evaluations_averaged": self.converged,
            "evaluated_train_vignettes": TRAIN_SAMPLE,
            "detail_orders": DETAIL_ORDERS,
            "train": self.config.to_dict(),
        }


@dataclasses.dataclass(frozen=True)
class DataFacts:
    """The facts about the data that the plan needs."""

    data_fingerprint: str
    vocabulary_fingerprint: str
    train: int  # vignettes
    test: int


@dataclasses.dataclass(frozen=True)
class Task:
    """A task of the study, which runs in a process."""

    name: str  # unique in the study, and part of a file name
    kind: str
    settings: dict[str, Any]  # JSON; together with the data, determines the result
    fingerprint: str  # 64 hexadecimal digits over everything that determines the result
    needs: tuple[str, ...] = ()  # names of tasks whose files it reads


class _Planner:
    """Collects tasks, each with the fingerprint of its inputs."""

    def __init__(self, facts: DataFacts):
        self.tasks: dict[str, Task] = {}
        self._facts = facts

    def add(self, name: str, kind: str, settings: Mapping[str, Any], needs: tuple[str, ...] = ()) -> None:
        inputs = {
            "format": FORMAT,
            "kind": kind,
            "settings": settings,
            "data": [self._facts.data_fingerprint, self._facts.vocabulary_fingerprint],
            "needs": [self.tasks[need].fingerprint for need in needs],
        }
        digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
        self.tasks[name] = Task(name, kind, dict(settings), digest, needs)


def plan(settings: StudySettings, facts: DataFacts) -> tuple[Task, ...]:
    """Returns the tasks of a study.

    Raises:
        InputError: the data is too small for the folds.
    """
    if settings.folds > facts.train + facts.test:
        raise InputError(f"--folds {settings.folds}: more than the {facts.train + facts.test} vignettes")
    planner = _Planner(facts)
    _plan_agents(planner, settings)
    _plan_default_preset(planner, settings)
    _plan_ensembles(planner, settings)
    _plan_folds(planner, settings)
    if settings.ablations:
        _plan_ablations(planner, settings)
    return tuple(planner.tasks.values())


def agent_task(agent: str, seed: int) -> str:
    """Returns the name of the task of a learning agent, such as `dyqn_or`."""
    return f"{agent}-seed-{seed}"


def fold_task(seed: int, fold: int) -> str:
    """Returns the name of the task of a fold."""
    return f"k_fold-seed-{seed}-fold-{fold}"


def ablation_task(name: str, seed: int) -> str:
    """Returns the name of the task of a variant."""
    words = "".join(letter if letter.isalnum() else " " for letter in name.lower()).split()
    return f"ablation-{'_'.join(words)}-seed-{seed}"


def seeds_of(settings: StudySettings, count: int) -> list[int]:
    """Returns `count` seeds, from `--seed` on."""
    first = settings.config.loop.seed
    return list(range(first, first + count))


def variant(config: TrainConfig, changes: Mapping[str, Mapping[str, Any]]) -> TrainConfig:
    """Returns the configuration with some settings changed, by section."""
    values = config.to_dict()
    for section, fields in changes.items():
        values[section] = {**values[section], **fields}
    return TrainConfig.from_dict(values, "study")


def _training(settings: StudySettings, config: TrainConfig, seed: int, **more: Any) -> dict[str, Any]:
    """Returns the settings of a training task, without those that do not affect its result."""
    values = config.to_dict()
    values["loop"] = {name: value for name, value in values["loop"].items() if name not in _WITHOUT_EFFECT}
    values["loop"]["seed"] = seed
    return {"config": values, "train_sample": TRAIN_SAMPLE, "converged": settings.converged, **more}


def _plan_agents(planner: _Planner, settings: StudySettings) -> None:
    first, *_ = seeds_of(settings, 1)
    for query in PAPER_QUERIES:
        config = variant(settings.config, {"target": {"ask_query": query}})
        for seed in seeds_of(settings, settings.seeds):
            values = _training(settings, config, seed, keep_agent=True)
            planner.add(agent_task(f"dyqn_{query}", seed), DYQN, values)
    detail = {
        "orders": DETAIL_ORDERS,
        "rows": settings.judged_rows,
        "seed": first,
        "max_questions": settings.config.environment.max_questions,
        "network": settings.config.to_dict()["network"],
    }
    planner.add("detail", DETAIL, detail, (agent_task("dyqn_or", first),))
    fixed = {"seed": first, "orders": DETAIL_ORDERS, "max_questions": settings.config.environment.max_questions}
    planner.add("fixed", FIXED, fixed)


def _plan_default_preset(planner: _Planner, settings: StudySettings) -> None:
    preset = presets.preset("default")
    for seed in seeds_of(settings, settings.default_preset_seeds):
        # It is evaluated once, when it is done; the paper's agents are at many steps.
        config = variant(preset, {"loop": {"seed": seed, "evaluation_interval": 0, "evaluation_orders": DETAIL_ORDERS}})
        values = {"config": config.to_dict(), "train_sample": TRAIN_SAMPLE}
        planner.add(agent_task(DEFAULT_PRESET, seed), PRESET, values)


def _plan_ensembles(planner: _Planner, settings: StudySettings) -> None:
    first, *_ = seeds_of(settings, 1)
    shared = {"seed": first, "members": settings.members}
    planner.add("fully_observed", FULLY_OBSERVED, shared)
    for calibrated in (True, False):
        name = "calibrated" if calibrated else "uncalibrated"
        values = {**shared, "calibrated": calibrated, "rows": settings.powerset_rows}
        planner.add(f"ensemble_{name}", ENSEMBLE, values)
    compared = {"seed": first, "rows": settings.judged_rows}
    planner.add("calibration", CALIBRATION, compared, ("ensemble_calibrated", "ensemble_uncalibrated"))
    for query in PAPER_QUERIES:
        config = variant(settings.config, {"target": {"ask_query": query}})
        for seed in seeds_of(settings, settings.partially_observed_seeds):
            planner.add(
                agent_task(f"partially_observed_{query}", seed), PARTIALLY_OBSERVED, _training(settings, config, seed),
                ("ensemble_calibrated",),
            )  # fmt: skip


def _plan_folds(planner: _Planner, settings: StudySettings) -> None:
    config = variant(settings.config, {"target": {"ask_query": "or"}})
    for seed in seeds_of(settings, settings.fold_seeds if settings.folds else 0):
        for fold in range(settings.folds):
            split = {"folds": settings.folds, "fold": fold}
            planner.add(fold_task(seed, fold), DYQN, _training(settings, config, seed, **split))


def _plan_ablations(planner: _Planner, settings: StudySettings) -> None:
    default = variant(settings.config, {"target": {"ask_query": "or"}})
    for name, changes in ABLATIONS.items():
        config = variant(default, changes)
        for seed in seeds_of(settings, settings.seeds):
            planner.add(ablation_task(name, seed), DYQN, _training(settings, config, seed))
