"""One training run with everything around the loop: resuming, checkpoints, evaluations, summaries, progress."""

import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from rich import progress as bars
from rich.console import Console

from schemas import directories
from trainer.config import TrainConfig
from trainer.data.arrays import VignetteArrays
from trainer.data.tfrecord import DataDirectory
from trainer.dyqn.assembly import MakeEpisodes, build_loop
from trainer.dyqn.calibrate import Division, divide, settling
from trainer.dyqn.loop import Progress, TrainingLoop
from trainer.dyqn.rollout import METRICS, Outcomes, Rollout, greedy_policy, order_seeds
from trainer.dyqn.workers import ALONE, Workers
from trainer.graph.mixture import Mixture
from trainer.graph.questions import QuestionGraph
from trainer.interviews.episodes import InterviewEpisodes
from trainer.interviews.play import led_states
from trainer.training import set_apart, start
from trainer.training.checkpoints import Checkpoints
from trainer.training.job import JobDirectory
from triage_runtime.storage import locations

# Seed of the orders and bootstrap of the evaluations during training, always the same and unlike those of training.
EVALUATION_SEED = 2_020
EVALUATION_ORDERS = order_seeds(EVALUATION_SEED, 3)
"""Seeds of the random evidence orders that these evaluations average over."""
STEPS_PER_CALL = 100
"""Steps that the compiled loop runs before it returns to Python: often enough to notice an interrupt in seconds."""


class RunHooks(NamedTuple):
    """What a run has beside its data and its job directory."""

    measure: Callable[[Outcomes, np.ndarray, int], Mapping[str, Any]] | None = None
    """From episodes, the clinicians' decisions `[V, 4]` and a seed to each metric, a named tuple with its `mean`; None
    means that none are taken."""
    validation: DataDirectory | None = None  # with the test split to evaluate on; None means that of its own data
    logs: pathlib.Path | None = None  # directory of the summaries; None means in the job directory
    evaluated: Callable[[int, Mapping[str, float]], None] | None = None  # called with the step and the metrics' means
    saved: Callable[[], None] = lambda: None  # called after files were written that should be kept
    start_from: pathlib.Path | None = None  # job directory of an agent with the initial weights
    danger_signs: str | None = None  # content of a file of them; None means those of the package, or of the data


NO_HOOKS = RunHooks()


class RunFiles(NamedTuple):
    """Where a run is kept."""

    job: JobDirectory
    checkpoints: Checkpoints
    writer: tf.summary.SummaryWriter
    saved_step: int | None  # of the checkpoint with the current state of the loop; None if there is none


class EvaluatedSplit(NamedTuple):
    """What a run is evaluated on."""

    vignettes: VignetteArrays
    rollout: Rollout | None  # plays the agent on it; None where nothing is evaluated


def open_run(
    job_dir: pathlib.Path,
    data: DataDirectory,
    config: TrainConfig,
    workers: Workers = ALONE,
    hooks: RunHooks = NO_HOOKS,
) -> "TrainingSession":
    """Opens the run of a job directory: makes the directory, or resumes from its newest checkpoint.

    With several `workers`, each opens its own session, in the same job directory; the chief evaluates and reports.

    Raises:
        InputError: no training vignettes, or the job directory holds another run, or checkpoints that are all damaged,
            or the validation data has another vocabulary, or the agent to start from has seen too much of the data.
        LostWorkerError: another worker has ended.
    """
    watched = hooks.validation or data
    watched.require_vocabulary(data.vocabulary, data.path / directories.VOCABULARY)
    train, test = data.read("train", names=False, needed=True), watched.read("test", names=False)
    config = config.resolved(len(train.decision_counts))
    evidence_count = len(data.vocabulary)
    job, console = JobDirectory(job_dir), Console(stderr=True, quiet=not workers.chief)
    begin = None if hooks.start_from is None else start.read(hooks.start_from, data.vocabulary, config)
    learned_before = None if begin is None else begin.learned_from(train, data.vocabulary)
    division = divide(train, config.validation, config.loop.seed, learned_before)
    before = (None, None) if begin is None else (begin.seen, begin.apart)
    seen = set_apart.seen(division, data.vocabulary, *before)
    _prepare(job, data, config, begin, workers)
    if workers.chief:
        with job.writing():
            set_apart.prepare(job.path, division.apart, data.whole_patients, seen)
        job.prepare_statistics(division.learned, data.vocabulary, hooks.danger_signs)
    workers.exchange(0)
    if begin is not None:
        console.print(begin.description, highlight=False, soft_wrap=True)
    mixture, limit = job.questions(evidence_count), config.environment.max_questions
    make_episodes, led = _interviews(job, data, config, division, mixture)
    settle = None
    if division.held_out is not None:
        settle = settling(division.held_out, evidence_count, limit, config.loop.seed, led, data.whole_patients)
    loop = build_loop(
        division.learned,
        data.vocabulary,
        config,
        workers,
        mixture if config.network.outputs == "probabilities" else None,
        make_episodes,
        settle,
        None if begin is None else begin.initialise,
    )
    rollout = None
    if hooks.measure and workers.chief and config.loop.evaluation_interval and len(test.decision_counts):
        rollout = Rollout(test, evidence_count, limit, greedy_policy(loop.selection.chosen))
    checkpoints = Checkpoints(job, loop.checkpoint(), workers)
    resumed = _resume(loop, job, checkpoints, workers, console)
    logs = str(hooks.logs or job.logs)
    writer = tf.summary.create_file_writer(logs) if workers.chief else tf.summary.create_noop_writer()
    learned = len(division.learned.decision_counts)
    files = RunFiles(job, checkpoints, writer, resumed)
    return TrainingSession(loop, files, EvaluatedSplit(test, rollout), learned, console, workers, hooks)


def _interviews(
    job: JobDirectory, data: DataDirectory, config: TrainConfig, division: Division, mixture: Mixture | None
) -> tuple[MakeEpisodes | None, np.ndarray | None]:
    """Returns the maker of the agent's training interviews, and what is known in those with held-out patients.

    None both where the order of the evidence is random, as it is where there are too few vignettes to choose questions
    by.
    """
    if config.environment.episodes != "interview" or mixture is None:
        return None, None
    vocabulary, whole, settings = data.vocabulary, data.whole_patients, config.environment
    signs, led, limit = job.signs(vocabulary), None, settings.max_questions
    if division.held_out is not None:
        graph = QuestionGraph(mixture, vocabulary, (), signs)
        led = led_states(graph, vocabulary, division.held_out, whole, limit)
    return lambda generator: InterviewEpisodes(
        division.learned, whole, mixture, vocabulary, signs, settings.environments, limit, generator
    ), led


def _prepare(
    job: JobDirectory, data: DataDirectory, config: TrainConfig, begin: start.Start | None, workers: Workers
) -> None:
    """Makes the job directory; the other workers read it after the chief has made it."""
    identity = None if begin is None else begin.identity
    for turn in (True, False):
        if workers.chief is turn:
            job.prepare(config, data.vocabulary, data.data_fingerprint, workers.count, workers.chief, identity)
        workers.exchange(0)


def _resume(
    loop: TrainingLoop, job: JobDirectory, checkpoints: Checkpoints, workers: Workers, console: Console
) -> int | None:
    """Resumes from the newest whole checkpoint, with a warning for each damaged one that is skipped.

    Returns:
        Its step, None if the run has no checkpoint yet.
    """
    path = checkpoints.restore(lambda text: console.print(text, highlight=False, soft_wrap=True))
    if path is not None:
        there = locations.shown(path)
        console.print(f"resumed at step {loop.step:,} from {there}", highlight=False, soft_wrap=True)
    _require_same_weights(loop, workers)
    if workers.chief:
        job.forget_after(loop.step)
    return None if path is None else loop.step


def _require_same_weights(loop: TrainingLoop, workers: Workers) -> None:
    prints = workers.exchange(loop.fingerprint())
    if len(set(prints)) > 1:
        raise RuntimeError(
            f"step {loop.step}: the workers' weights have diverged ({prints}): run all of them on one kind of "
            "machine, with the same packages"
        )


class TrainingSession:
    """A run that is open: its `loop` trains, and it evaluates, and saves checkpoints and summaries.

    `open_run` makes its parts. `learned` is the number of vignettes that it learns from, without those held out or set
    apart.
    """

    def __init__(
        self,
        loop: TrainingLoop,
        files: RunFiles,
        test: EvaluatedSplit,
        learned: int,
        console: Console,
        workers: Workers,
        hooks: RunHooks,
    ):
        self.loop = loop
        self.learned = learned
        self._config = loop.config
        self._job, self._checkpoints, self._writer, self._saved_step = files
        self._test, self._rollout = test
        self._console = console
        self._workers = workers
        self._hooks = hooks

    def train(self, stopping: Callable[[], bool]) -> dict[str, Any]:
        """Trains until all steps are done or `stopping` returns true on any worker; then saves a checkpoint.

        Returns:
            Figures: steps, episodes, steps per second of this session, the last evaluation, whether it is `finished`.

        Raises:
            TrainingDivergedError: see `TrainingLoop.run`; no checkpoint is written then.
            InputError: the job directory cannot be written, such as on a full disk; what stands there stays whole.
            LostWorkerError: another worker has ended.
        """
        loop, first_step, began = self.loop, self.loop.step, time.monotonic()
        if not loop.finished and self._workers.chief:
            self._job.forget_held_out()
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
                bar.update(
                    task, completed=loop.step, window=_window_text(loop.episodes.summary()), rate=f"{rate:.0f}/s"
                )
                self._summarise(done, rate)
                self._after_call()
        if loop.finished and loop.selection.settles and self._job.held_out() is None:
            self._settle()
        if loop.step != self._saved_step:  # it was stopped
            loop.selection.choose_latest()
            self._save()
        self._hooks.saved()
        elapsed = time.monotonic() - began
        evaluations, episodes = self._job.evaluations(), sum(self._workers.exchange(loop.episode))
        self._workers.leave()
        return {
            "job_dir": locations.shown(self._job.path),
            "finished": loop.finished,
            "checkpoint": locations.shown(self._checkpoints.newest),
            "workers": self._workers.count,
            "steps": loop.step,
            "episodes": episodes,
            "steps_this_session": loop.step - first_step,
            "steps_per_second": (loop.step - first_step) / elapsed,
            "window": {name: value for name, value in loop.episodes.summary().items() if name in METRICS},
            "last_evaluation": evaluations[-1] if evaluations else None,
        }

    def _save(self) -> None:
        _require_same_weights(self.loop, self._workers)
        with self._job.writing():
            self._writer.flush()
        self._checkpoints.save(self.loop.step)
        self._saved_step = self.loop.step
        self._hooks.saved()

    def _next_stop(self) -> int:
        """Returns the next step at which the loop must return to Python."""
        loop, step = self._config.loop, self.loop.step
        intervals = [STEPS_PER_CALL, loop.checkpoint_interval, loop.evaluation_interval or STEPS_PER_CALL]
        return min(loop.steps, *((step // interval + 1) * interval for interval in intervals))

    def _after_call(self) -> None:
        """Evaluates and saves a checkpoint if they are due; an evaluation is written before its checkpoint."""
        loop, step = self._config.loop, self.loop.step
        if self.loop.finished and self.loop.selection.settles:  # `_settle` evaluates and saves the weights
            return
        final = step == loop.steps
        self.loop.selection.choose_latest()
        if self._rollout is not None and (final or step % loop.evaluation_interval == 0):
            self._evaluate(self._rollout)
        if final or step % loop.checkpoint_interval == 0:
            self._save()

    def _settle(self) -> None:
        """Calibrates the weights, and evaluates the resulting agent.

        The last file written marks all of this as done: a run that is killed earlier repeats it.
        """
        settled = self.loop.selection.settle()
        if self._rollout is not None:
            self._evaluate(self._rollout)
        self._save()
        if self._workers.chief and settled is not None:
            self._job.widen_novelty(self.loop.selection.interview_states)
            self._job.write_held_out(settled)

    def _evaluate(self, rollout: Rollout) -> None:
        if self._hooks.measure is None:
            return
        outcomes = rollout.run(EVALUATION_ORDERS)
        estimates = self._hooks.measure(outcomes, self._test.decision_counts, EVALUATION_SEED)
        step, episode = self.loop.step, self.loop.episode
        values = {name: estimate._asdict() for name, estimate in estimates.items()}
        means = {name: estimate.mean for name, estimate in estimates.items()}
        self._job.append_evaluation({"step": step, "episode": episode, "split": "test", "metrics": values})
        self._write_scalars({f"test/{name}": mean for name, mean in means.items()})
        self._writer.flush()
        if self._hooks.evaluated is not None:
            self._hooks.evaluated(step, means)
        self._hooks.saved()
        self._console.print(f"step {step:,}: test {_window_text(means)}", highlight=False)

    def _summarise(self, done: Progress, rate: float) -> None:
        loop = self.loop
        values = {
            **loop.episodes.summary(),
            **({} if done.loss is None else {"loss": done.loss}),
            **{f"loss_{label.lower().replace(' ', '_')}": loss for label, loss in done.losses.items()},
            "episodes": loop.episode,
            "steps_per_second": rate,
            **{f"memory_bucket_{n}": size for n, size in enumerate(loop.memory.bucket_sizes.numpy(), start=1)},
        }
        self._write_scalars({f"train/{name}": value for name, value in values.items()})

    def _write_scalars(self, values: Mapping[str, Any]) -> None:
        # TensorFlow caches a tensor for every Python number that it is given, but not for arrays.
        with self._writer.as_default(step=np.asarray(self.loop.step, np.int64)):
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
    if METRICS[0] not in values:
        return ""
    return (
        f"appropriate {values['appropriateness']:.2f}, safe {values['safety']:.2f}, questions {values['questions']:.1f}"
    )
