"""One training run with everything around the loop: resuming, checkpoints, evaluations, summaries, progress."""

import functools
import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from rich import progress as bars
from rich.console import Console

from schemas.errors import InputError
from trainer.config import TrainConfig
from trainer.dyqn.decision import NEUTRAL
from trainer.dyqn.dial import choose
from trainer.dyqn.loop import Progress, TrainingLoop
from trainer.dyqn.network import start_from
from trainer.dyqn.policy import noise_scale
from trainer.dyqn.rollout import Rollout, greedy_policy
from trainer.dyqn.words import word_vectors
from trainer.dyqn.workers import ALONE, Workers
from trainer.evaluation import metrics
from trainer.evaluation.measurement import order_seeds
from trainer.runs import held_out, start
from trainer.runs.checkpoints import Checkpoints
from trainer.runs.job import JobDirectory
from trainer.vignettes.tfrecord import DataDirectory
from triage_runtime.storage import locations

# Seed of the orders and bootstrap of the evaluations during training, always the same and unlike those of training.
EVALUATION_SEED = 2_020


class Surroundings(NamedTuple):
    """The surroundings of a run beside its data and its job directory."""

    validation: DataDirectory | None = None  # with the test split to evaluate on; None means that of its own data
    logs: pathlib.Path | None = None  # directory of the summaries; None means in the job directory
    evaluated: Callable[[int, Mapping[str, float]], None] | None = None  # called with the step and the metrics' means
    saved: Callable[[], None] = lambda: None  # called after files were written that should be kept
    start_from: pathlib.Path | None = None  # job directory of an agent with the initial weights


class TrainingSession:
    """Trains in a job directory, from its newest checkpoint if there is one.

    With several `workers`, each trains in its own session, in the same job directory; the chief evaluates and reports.

    Raises:
        InputError: no training vignettes, or the job directory holds another run, or checkpoints that are all damaged,
            or the validation data has another vocabulary.
        LostWorkerError: another worker has ended.
    """

    def __init__(
        self,
        job_dir: pathlib.Path,
        data: DataDirectory,
        config: TrainConfig,
        workers: Workers = ALONE,
        surroundings: Surroundings = Surroundings(),  # noqa: B008  # immutable
    ):
        watched = surroundings.validation or data
        if watched.vocabulary.fingerprint != data.vocabulary.fingerprint:
            raise InputError(
                f"{watched.path}: its vocabulary is not that of {data.path}: prepare the validation data with "
                f"--vocabulary {data.path / 'vocabulary.csv'}"
            )
        train, test = data.read("train", names=False), watched.read("test", names=False)
        if not len(train.decision_counts):
            raise InputError(f"{data.path}: the train split has no vignettes")
        config = config.resolved(len(train.decision_counts))
        self._config = config
        self._workers = workers
        self._surroundings = surroundings
        self._job = JobDirectory(job_dir)
        self._console = Console(stderr=True, quiet=not workers.chief)
        begin = None
        if surroundings.start_from is not None:
            begin = start.read(surroundings.start_from, data.vocabulary, config)
        self._prepare(data, begin)
        evidence_count = len(data.vocabulary)
        if workers.chief:
            self._job.prepare_statistics(train, evidence_count)
        size = config.network.words
        words = word_vectors(data.vocabulary, size) if size else None
        set_weights = None
        if begin is not None:
            self._console.print(begin.description, highlight=False, soft_wrap=True)
            set_weights = functools.partial(start_from, other=begin.network, places=begin.places)
        self._loop = TrainingLoop(train, evidence_count, config, workers, words, set_weights)
        self._test_counts = test.decision_counts
        self._rollout = None
        if workers.chief and config.loop.evaluation_interval and len(test.decision_counts):
            limit = config.environment.max_questions
            self._rollout = Rollout(test, evidence_count, limit, self._loop.agent.policy)
        self._test = test
        self._checkpoints = Checkpoints(self._job, self._loop.checkpoint(), config.loop.checkpoints_kept, workers)
        self._saved_step: int | None = None  # of the checkpoint with the current state of the loop
        self._restore()
        logs = str(surroundings.logs or self._job.logs)
        self._writer = tf.summary.create_file_writer(logs) if workers.chief else tf.summary.create_noop_writer()

    def train(self, stopping: Callable[[], bool]) -> dict[str, Any]:
        """Trains until all steps are done or `stopping` returns true on any worker; then saves a checkpoint.

        Returns:
            Figures: steps, episodes, steps per second of this session, the last evaluation, whether it is `finished`.

        Raises:
            TrainingDivergedError: see `TrainingLoop.run`; no checkpoint is written then.
            InputError: the job directory cannot be written, such as on a full disk; what stands there stays whole.
            LostWorkerError: another worker has ended.
        """
        loop, first_step, began = self._loop, self._loop.step, time.monotonic()
        if not loop.finished and self._workers.chief:
            held_out.remove(self._job.path)
        with self._progress_bar() as bar:
            burn_in, steps = self._config.loop.burn_in_steps, self._config.loop.steps
            # Steps of the burn-in learn nothing and are fast: the time left is estimated from the others.
            learns = first_step >= burn_in
            task = bar.add_task("train", start=learns, total=steps, completed=first_step, window="", rate="")
            while not loop.finished and not any(self._workers.exchange(int(stopping()))):
                before, since = loop.step, time.monotonic()
                done = loop.run(self._next_stop())
                rate = (loop.step - before) / (time.monotonic() - since)
                if before < burn_in <= loop.step:
                    bar.reset(task, total=steps, completed=loop.step)
                bar.update(task, completed=loop.step, window=_window_text(loop.window.means()), rate=f"{rate:.0f}/s")
                self._summarise(done, rate)
                self._after_call()
        if loop.finished and loop.judges and self._job.held_out() is None:
            self._settle()
        if loop.step != self._saved_step:
            self._save()
        self._surroundings.saved()
        elapsed = time.monotonic() - began
        evaluations = self._job.evaluations()
        return {
            "job_dir": locations.shown(self._job.path),
            "finished": loop.finished,
            "checkpoint": locations.shown(self._checkpoints.newest),
            **({"best_step": loop.best_step} if loop.judges else {}),
            "workers": self._workers.count,
            "steps": loop.step,
            "episodes": sum(self._workers.exchange(loop.episode)),
            "steps_this_session": loop.step - first_step,
            "steps_per_second": (loop.step - first_step) / elapsed,
            "window": loop.window.means(),
            "last_evaluation": evaluations[-1] if evaluations else None,
        }

    def _prepare(self, data: DataDirectory, begin: start.Start | None) -> None:
        """Makes the job directory; the other workers read it after the chief has made it."""
        for turn in (True, False):
            if self._workers.chief is turn:
                self._job.prepare(
                    self._config,
                    data.vocabulary,
                    data.data_fingerprint,
                    self._workers.count,
                    self._workers.chief,
                    None if begin is None else begin.identity,
                )
            self._workers.exchange(0)

    def _restore(self) -> None:
        """Resumes from the newest whole checkpoint, with a warning for each damaged one that is skipped."""
        path = self._checkpoints.restore(lambda text: self._console.print(text, highlight=False, soft_wrap=True))
        if path is not None:
            self._saved_step = self._loop.step
            there = locations.shown(path)
            self._console.print(f"resumed at step {self._loop.step:,} from {there}", highlight=False, soft_wrap=True)
        self._require_same_weights()
        if self._workers.chief:
            self._job.forget_after(self._loop.step)

    def _require_same_weights(self) -> None:
        prints = self._workers.exchange(self._loop.fingerprint())
        if len(set(prints)) > 1:
            raise RuntimeError(
                f"step {self._loop.step}: the workers' weights have parted ({prints}): run all of them on one kind of "
                "machine, with the same packages"
            )

    def _save(self) -> None:
        self._require_same_weights()
        self._loop.choose_latest()
        try:
            self._writer.flush()
        except (tf.errors.OpError, OSError) as error:
            raise self._job.unwritable(error) from error
        self._checkpoints.save(self._loop.step)
        self._saved_step = self._loop.step
        self._surroundings.saved()

    def _next_stop(self) -> int:
        """Returns the next step at which the loop must return to Python."""
        loop, step = self._config.loop, self._loop.step
        intervals = [loop.steps_per_call, loop.checkpoint_interval, loop.evaluation_interval or loop.steps_per_call]
        if self._loop.judges:
            intervals.append(self._config.validation.validation_interval)
        return min(loop.steps, *((step // interval + 1) * interval for interval in intervals))

    def _after_call(self) -> None:
        """Evaluates and saves a checkpoint if they are due; an evaluation is written before its checkpoint."""
        loop, step = self._config.loop, self._loop.step
        if self._loop.judges:
            due = step % self._config.validation.validation_interval == 0 or step == loop.steps
            if due and step > loop.burn_in_steps and (loss := self._loop.validate()) is not None:
                self._write_scalars({"validation/loss": loss})
                if self._workers.chief:
                    self._job.append_validation_loss(step, loss)
            if self._loop.finished:  # `_settle` evaluates and saves the chosen weights
                return
        final = step == loop.steps
        if self._rollout is not None and (final or step % loop.evaluation_interval == 0):
            self._evaluate(self._rollout)
        if final or step % loop.checkpoint_interval == 0:
            self._save()

    def _settle(self) -> None:
        """Calibrates the chosen weights, chooses the dial, and evaluates the resulting agent.

        The last file written marks all of this as done: a run that is killed earlier repeats it.
        """
        settled = self._loop.settle()
        dial = NEUTRAL
        if settled.judged is not None and self._config.network.outputs == "probabilities":
            dial = choose(settled.judged)
        if self._rollout is not None:
            limit, chosen = self._config.environment.max_questions, self._loop.chosen
            policy = greedy_policy(chosen, dial=dial)
            self._evaluate(Rollout(self._test, chosen.input_shape[-1], limit, policy))
        self._save()
        if self._workers.chief:
            self._job.write_held_out(settled, dial)

    def _evaluate(self, rollout: Rollout) -> None:
        outcomes = rollout.run(order_seeds(EVALUATION_SEED, self._config.loop.evaluation_orders))
        estimates = metrics.summary(metrics.agent_metrics(outcomes, self._test_counts), EVALUATION_SEED)
        step, episode = self._loop.step, self._loop.episode
        values = {name: estimate._asdict() for name, estimate in estimates.items()}
        means = {name: estimate.mean for name, estimate in estimates.items()}
        self._job.append_evaluation({"step": step, "episode": episode, "split": "test", "metrics": values})
        self._write_scalars({f"test/{name}": mean for name, mean in means.items()})
        self._writer.flush()
        if self._surroundings.evaluated is not None:
            self._surroundings.evaluated(step, means)
        self._surroundings.saved()
        self._console.print(f"step {step:,}: test {_window_text(means)}", highlight=False)

    def _summarise(self, done: Progress, rate: float) -> None:
        loop, exploration = self._loop, self._config.exploration
        noise = noise_scale(
            loop.agent.episode,
            exploration.ask_noise_initial,
            exploration.ask_noise_final,
            exploration.ask_noise_episodes,
        )
        values = {
            **loop.window.means(),
            **({} if done.loss is None else {"loss": done.loss}),
            **{f"squared_td_error_{label.lower()}": loss for label, loss in done.action_losses.items()},
            "episodes": loop.episode,
            "ask_noise": noise,
            "steps_per_second": rate,
            **{f"memory_bucket_{n}": size for n, size in enumerate(loop.memory.bucket_sizes.numpy(), start=1)},
        }
        self._write_scalars({f"train/{name}": value for name, value in values.items()})

    def _write_scalars(self, values: Mapping[str, Any]) -> None:
        # TensorFlow caches a tensor for every Python number that it is given, but not for arrays.
        with self._writer.as_default(step=np.asarray(self._loop.step, np.int64)):
            for name, value in values.items():
                tf.summary.scalar(name, np.asarray(value, np.float32))

    def _progress_bar(self) -> bars.Progress:
        return bars.Progress(
            bars.BarColumn(bar_width=None),
            bars.TextColumn("{task.completed:,}/{task.total:,}"),
            bars.TextColumn("{task.fields[rate]}"),
            bars.TimeRemainingColumn(compact=True),
            bars.TextColumn("{task.fields[window]}"),
            console=self._console,
            expand=True,
        )


def _window_text(values: dict[str, float]) -> str:
    if not values:
        return ""
    return (
        f"appropriate {values['appropriateness']:.2f}, safe {values['safety']:.2f}, questions {values['questions']:.1f}"
    )
