"""The work of `triage train`; its options are in `trainer.task`, which loads no TensorFlow."""

import argparse
import dataclasses
import os
import pathlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

from rich.console import Console

from schemas import danger_signs, directories
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.safety_rules import NO_RULES, RuleSet
from schemas.text_file import read_text
from trainer import presets
from trainer.config import TrainConfig
from trainer.data.tfrecord import DataDirectory
from trainer.dyqn.loop import TrainingDivergedError
from trainer.dyqn.workers import LOST_WORKER, LostWorkerError, join
from trainer.evaluation import cautions
from trainer.evaluation.metrics import episode_metrics
from trainer.evaluation.options import ORDERS
from trainer.export import publish, saved_model
from trainer.task import TrainOptions
from trainer.training.agent_options import read_rules
from trainer.training.job import JobDirectory, load_network
from trainer.training.session import RunHooks, open_run
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.progress import say, say_result
from triage_runtime.storage import locations

DIVERGED = 1
EVALUATION_SEED = 0
TRIAL, METRIC_FILE = "CLOUD_ML_TRIAL_ID", "CLOUD_ML_HP_METRIC_FILE"
"""Variables of the environment; one of them is set where a tuning service has started this process."""


class StopRequest:
    """Turns the first Ctrl-C or SIGTERM into a request to stop after a checkpoint; a second one stops at once."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __enter__(self) -> "StopRequest":
        self._previous = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number


def run(arguments: argparse.Namespace) -> int:
    """Trains.

    Returns:
        0 when all steps are done, 128 + the signal's number after Ctrl-C (130) or SIGTERM (143) with a checkpoint,
        1 when the training diverged, 138 when another worker of the run ended before that: start all of them again.

    Raises:
        InputError: the configuration, the data or the job directory is not as expected.
    """
    resolved, given = presets.from_arguments(arguments), options.read(TrainOptions, arguments)
    _check_trial(resolved)
    workers = join()
    data = DataDirectory.open(given.data)
    _require_shared(given.job_dir, workers.count)
    rules = NO_RULES if given.model_dir is None else read_rules(given.rules, data.vocabulary)
    with JobDirectory(given.job_dir).locked(workers.index), StopRequest() as stop:
        try:
            hooks = _hooks(given, data.vocabulary, locations.upload(arguments))
            session = open_run(given.job_dir, data, resolved, workers, hooks)
            _warn(
                cautions.before_training(data.stats["splits"], session.learned, resolved.optimiser)
                if workers.chief
                else []
            )
            report = session.train(lambda: stop.signal is not None)
        except TrainingDivergedError as error:
            sys.stderr.write(
                f"triage train: error: {error}. The last good checkpoint is kept; try a lower --learning-rate "
                "in a new --job-dir\n"
            )
            return DIVERGED
        except LostWorkerError as error:
            sys.stderr.write(
                f"triage train: another worker has failed ({error}): start all workers again; they resume from the "
                "last checkpoint\n"
            )
            return LOST_WORKER
    if workers.chief:
        if report["finished"]:
            if report["last_evaluation"]:
                metrics = report["last_evaluation"]["metrics"]
                _warn(cautions.about_asking(metrics["forced"]["mean"], metrics["questions"]["mean"]))
            report |= write_final_model(given, rules)
        json_output.write(report, given.json)
        _say_end(report, given)
    if stop.signal is not None:
        return 128 + stop.signal
    return 0 if report["finished"] else LOST_WORKER  # another worker received the signal


def _say_end(report: Mapping[str, Any], given: TrainOptions) -> None:
    """Says where the run is, and what follows."""
    console, job_dir = Console(stderr=True), report["job_dir"]
    if not report["finished"]:
        stopped = f"stopped at step {report['steps']:,}; its checkpoint is {report['checkpoint']}"
        say(console, f"triage train: {stopped}: repeat the command to resume")
        return
    if not report["steps_this_session"]:
        say(console, f"nothing to train: the run in {job_dir} is finished")
    say_result(console, job_dir, f"triage evaluate --job-dir {job_dir} --data {locations.shown(given.data)}")


def _warn(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        sys.stderr.write(f"warning: {sentence}\n")


def _require_shared(job_dir: pathlib.Path, workers: int) -> None:
    """Raises an InputError if several workers would each have a copy of the job directory."""
    shown = locations.shown(job_dir)
    if workers > 1 and locations.is_remote(shown):
        raise InputError(
            f"--job-dir {shown}: {workers} workers need a shared directory: give a mounted path, such as "
            "/gcs/BUCKET/... on Vertex AI"
        )


def _check_trial(resolved: TrainConfig) -> None:
    """Raises an InputError if a trial of a tuning service would report no evaluation."""
    if _in_trial() and not resolved.loop.evaluation_interval:
        raise InputError(
            f"--evaluation-interval 0: {TRIAL} is set, and a tuning service learns how good a trial is "
            "from its evaluations: give the steps between them"
        )


def _in_trial() -> bool:
    return bool(os.environ.get(TRIAL) or os.environ.get(METRIC_FILE))


def _tuning_report() -> Callable[[int, Mapping[str, float]], None]:
    """Returns a function that reports the step and the metrics of an evaluation to the tuning service.

    Raises:
        InputError: `cloudml-hypertune` is not installed.
    """
    try:
        import hypertune
    except ImportError as error:
        raise InputError(
            f"{TRIAL} is set, but the package for reporting to the tuning service is missing: "
            "pip install 'dyqn-triage[hypertune]'"
        ) from error
    service = hypertune.HyperTune()  # one for the whole process: a second one would overwrite the file

    def report(step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            service.report_hyperparameter_tuning_metric(name, value, global_step=step)

    return report


def _hooks(given: TrainOptions, vocabulary: Vocabulary, upload: Callable[[], None]) -> RunHooks:
    if given.danger_signs is not None:
        danger_signs.load(given.danger_signs, vocabulary)  # its faults are said before anything is written
    return RunHooks(
        episode_metrics,
        validation=None if given.validation_data is None else DataDirectory.open(given.validation_data),
        logs=given.log_dir,
        evaluated=_tuning_report() if _in_trial() else None,
        saved=upload,
        start_from=given.start_from,
        danger_signs=None if given.danger_signs is None else read_text(given.danger_signs),
    )


def write_final_model(given: TrainOptions, rules: RuleSet) -> dict[str, Any]:
    """Exports the newest checkpoint to --model-dir, overwriting files, and returns its figures; none without it.

    It lies right in that directory, where a model registry expects it; saved_model.pb is written last.

    Raises:
        InputError: there is no trained agent, or it cannot be exported, evaluated or written.
    """
    if given.model_dir is None:
        return {}
    trained = dataclasses.replace(load_network(given.job_dir), rules=rules)
    evaluation = None if given.test_data is None else publish.VersionTest(given.test_data, ORDERS, EVALUATION_SEED)
    with tempfile.TemporaryDirectory() as scratch:
        target = publish.Target(pathlib.Path(scratch), given.model_version, saved_model.MODEL_NAME)
        exported = publish.export(trained, given.job_dir, target, evaluation)
        whole, last = pathlib.Path(scratch) / str(given.model_version), directories.SAVED_MODEL
        try:
            shutil.copytree(whole, given.model_dir, dirs_exist_ok=True, ignore=shutil.ignore_patterns(last))
            shutil.copy2(whole / last, given.model_dir / last)
        except (OSError, shutil.Error) as error:
            raise InputError(f"--model-dir {given.model_dir}: cannot write: {error}") from error
    shown = locations.shown(given.model_dir)
    sys.stderr.write(f"wrote model version {given.model_version} to {shown}\n")
    figures = exported.evaluation and exported.evaluation.described()
    return {"model_dir": shown, "model_version": exported.model_version, "evaluation": figures}
