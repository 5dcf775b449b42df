"""The kinds of tasks of the study; each computes figures for JSON from data and the files of other tasks."""

import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import joblib
import keras
import numpy as np

from schemas import safety_rules
from schemas.evidence import Vocabulary
from trainer.config import NetworkConfig, TrainConfig
from trainer.decision.decision import NEUTRAL, utilities
from trainer.decision.rules import RuleGraph
from trainer.dyqn.assembly import build_loop
from trainer.dyqn.network import build_network
from trainer.dyqn.replay import BucketMemory
from trainer.dyqn.rollout import Outcomes, greedy_policy
from trainer.evaluation.measurement import order_seeds, play
from trainer.evaluation.walk import Agent, worst_cases
from trainer.study.by_evidence import calibration_figures, curve, judge
from trainer.study.comparison import agent_figures
from trainer.study.coverage import coverage_figures
from trainer.study.detail import detail_figures
from trainer.study.directory import StudyDirectory
from trainer.study.fixed import RandomPlay, fixed_figures
from trainer.study.learning import evaluated_splits, learn, rollout_evaluations, splits_of, table_evaluations
from trainer.study.partially_observed import PartiallyObservedLoop
from trainer.study.state_values import StateValues, rows_of
from trainer.study.study import (
    CALIBRATION,
    DETAIL,
    DYQN,
    ENSEMBLE,
    FIXED,
    FULLY_OBSERVED,
    PARTIALLY_OBSERVED,
    PRESET,
    Task,
)
from trainer.study.supervised import ensemble_config, fully_observed_figures, powerset_sample, train_on_powerset
from trainer.study.worker import Work
from trainer.training.job import load_network
from trainer.training.session import open_run
from trainer.vignettes.state import sparse_states
from trainer.vignettes.tfrecord import DataDirectory
from triage_runtime.storage import whole_file

WEIGHTS, VISITED, CLASSIFIER = "weights.h5", "visited.npy", "joblib"


def dyqn(job: Work) -> dict[str, Any]:
    """Trains a DyQN agent; saves its weights and the states that it visited if the settings say so."""
    settings = job.task.settings
    config = TrainConfig.from_dict(settings["config"])
    splits = splits_of(DataDirectory.open(job.data), settings)
    loop = build_loop(splits.train, splits.evidence_count, config)
    played = evaluated_splits(splits, settings["train_sample"])
    evaluations = rollout_evaluations(played, splits.evidence_count, loop.agent.policy, config)
    learn(loop, evaluations, config)
    if settings.get("keep_agent"):
        _save(loop.network, job)
        _save_visited(loop.memory, job)
    return evaluations.report(settings["converged"])


def partially_observed(job: Work) -> dict[str, Any]:
    """Trains when to ask for a partially-observed agent, whose triage values are those of an ensemble."""
    settings, data = job.task.settings, DataDirectory.open(job.data)
    config = TrainConfig.from_dict(settings["config"])
    [trained] = job.needs.values()
    ensemble = joblib.load(StudyDirectory(job.out).model_path(trained, CLASSIFIER))
    splits = splits_of(data, settings)
    loop = PartiallyObservedLoop(splits.train, splits.evidence_count, ensemble.triage_values, config)
    values = StateValues(ensemble.triage_values, splits.evidence_count)
    played = evaluated_splits(splits, settings["train_sample"])
    evaluations = table_evaluations(played, values, loop.ask_values, config)
    learn(loop, evaluations, config)
    return evaluations.report(settings["converged"])


def preset(job: Work) -> dict[str, Any]:
    """Trains an agent as `triage train` does, with its operating point, and evaluates it when it is done."""
    settings, data = job.task.settings, DataDirectory.open(job.data)
    config = TrainConfig.from_dict(settings["config"])
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "job"
        open_run(folder, data, config).train(lambda: False)
        trained = load_network(folder)
    splits = evaluated_splits(splits_of(data, settings), settings["train_sample"])
    policy = greedy_policy(trained.model, point=trained.operating_point)
    evaluations = rollout_evaluations(splits, len(data.vocabulary), policy, config)
    evaluations.add(trained.training["steps"])
    orders = order_seeds(config.loop.seed, config.loop.evaluation_orders)
    limit = config.environment.max_questions
    return {
        **evaluations.report(converged=1),
        "beside_clinicians": _beside_clinicians(
            lambda rules: play(trained.model, splits["test"], orders, limit, rules, trained.operating_point),
            data.vocabulary, splits["test"].decision_counts, config.loop.seed,
        ),
    }  # fmt: skip


def detail(job: Work) -> dict[str, Any]:
    """Computes detailed figures of a trained DyQN agent."""
    settings, data = job.task.settings, DataDirectory.open(job.data)
    [trained] = job.needs.values()
    network = _load(job, trained, len(data.vocabulary), NetworkConfig(**settings["network"]))
    vignettes, seed, limit = data.read("test"), settings["seed"], settings["max_questions"]
    orders = order_seeds(seed, settings["orders"])
    outcomes = play(network, vignettes, orders, limit)
    rules, _ = safety_rules.choose(None, data.vocabulary)
    train, test = (powerset_sample(data, settings["rows"], seed, split) for split in ("train", "test"))
    codes = np.load(StudyDirectory(job.out).model_path(trained, VISITED))
    visited = sparse_states(rows_of(codes), len(data.vocabulary))
    judged = judge(lambda states: np.asarray(utilities(network(states.toarray()), NEUTRAL)), test)
    return {
        **detail_figures(outcomes, vignettes, seed),
        "beside_clinicians": _beside_clinicians(
            lambda rules: outcomes if rules is None else play(network, vignettes, orders, limit, rules),
            data.vocabulary, vignettes.decision_counts, seed,
        ),
        "by_evidence": curve(judged, seed),
        "coverage": coverage_figures(visited, train, test, judged, seed),
        "errors": worst_cases(Agent(network, data.vocabulary, limit, rules=rules), outcomes, vignettes, orders),
    }  # fmt: skip


def _beside_clinicians(
    played: Callable[[RuleGraph | None], Outcomes], vocabulary: Vocabulary, counts: np.ndarray, seed: int
) -> dict[str, Any]:
    """Returns `comparison.agent_figures` of the agent `alone` and `with_rules`, the default safety rules.

    None where these do not fit the vocabulary.
    """
    rules, _ = safety_rules.choose(None, vocabulary)
    graph = RuleGraph(rules.rules, vocabulary) if len(rules) else None
    return {
        "alone": agent_figures(played(None), counts, seed),
        "with_rules": None if graph is None else agent_figures(played(graph), counts, seed),
    }


def fixed(job: Work) -> dict[str, Any]:
    """Evaluates the agents without training."""
    settings, data = job.task.settings, DataDirectory.open(job.data)
    orders = order_seeds(settings["seed"], settings["orders"])
    return fixed_figures(
        data.read("train"), data.read("test"), len(data.vocabulary), RandomPlay(orders, settings["max_questions"]),
        settings["seed"],
    )  # fmt: skip


def fully_observed(job: Work) -> dict[str, Any]:
    """Trains and evaluates the supervised model of whole vignettes."""
    config = ensemble_config(job.task.settings, job.threads)
    return fully_observed_figures(DataDirectory.open(job.data), config)


def ensemble(job: Work) -> dict[str, Any]:
    """Trains and saves the supervised model of parts of vignettes."""
    settings, data = job.task.settings, DataDirectory.open(job.data)
    trained, rows = train_on_powerset(data, settings["rows"], ensemble_config(settings, job.threads))
    with whole_file.path_replacing(StudyDirectory(job.out).model_path(job.task, CLASSIFIER)) as unfinished:
        joblib.dump(trained, unfinished, compress=True)
    return {"rows": rows}


def calibration(job: Work) -> dict[str, Any]:
    """Compares the calibrated ensemble with the other one on rows of D_pow's test part."""
    settings = job.task.settings
    rows = powerset_sample(DataDirectory.open(job.data), settings["rows"], settings["seed"], "test")
    judged = {}
    for name, trained in job.needs.items():
        model = joblib.load(StudyDirectory(job.out).model_path(trained, CLASSIFIER))
        judged[name.removeprefix("ensemble_")] = judge(model.triage_values, rows)
    return {
        "by_evidence": {name: curve(each, settings["seed"]) for name, each in judged.items()},
        **calibration_figures(judged["calibrated"], judged["uncalibrated"], settings["seed"]),
    }


def _save(network: keras.Model, job: Work) -> None:
    """Saves the weights, whole or not at all."""
    with whole_file.path_replacing(StudyDirectory(job.out).model_path(job.task, WEIGHTS)) as unfinished:
        network.save_weights(unfinished)


def _save_visited(memory: BucketMemory, job: Work) -> None:
    """Saves the states in the memory, each once, as signed codes; of long trainings the last ones."""
    codes = memory.s_tm1[: memory.size].numpy().astype(np.int32)
    each_once = np.unique(np.sort(codes, axis=1), axis=0)
    with (
        whole_file.path_replacing(StudyDirectory(job.out).model_path(job.task, VISITED)) as unfinished,
        unfinished.open("wb") as file,
    ):
        np.save(file, each_once)


def _load(job: Work, task: Task, evidence_count: int, config: NetworkConfig) -> keras.Model:
    network = build_network(evidence_count, config, seed=0)
    network.load_weights(StudyDirectory(job.out).model_path(task, WEIGHTS))
    return network


KINDS: dict[str, Callable[[Work], dict[str, Any]]] = {
    DYQN: dyqn,
    PRESET: preset,
    PARTIALLY_OBSERVED: partially_observed,
    DETAIL: detail,
    FIXED: fixed,
    FULLY_OBSERVED: fully_observed,
    ENSEMBLE: ensemble,
    CALIBRATION: calibration,
}
