"""A job directory: the files of a training run, which resuming, evaluating and exporting read.

run.json           resolved configuration, fingerprints of vocabulary and data
novelty.npz        statistics of the training states for novelty; missing if there are few vignettes
questions.npz      classes of the training patients, from which questions are chosen; missing if there are few vignettes
danger_signs.toml  what each complaint requires to be known before an interview may end below Red; may be edited
vocabulary.csv     the evidence of each cell of the state
checkpoints/       see `TrainingLoop.checkpoint`; those of the other workers are in worker-1/ and so on
evaluations.jsonl  an evaluation on the test split per line
held_out.npz       outputs for held-out vignettes, if any
set_apart.npz      vignettes for promises only, and the key of each vignette that training used
promises.jsonl     every promise tested on them, and the result
logs/              TensorBoard summaries
lock               held by the run that works in the directory; lock-worker-1 and so on by its other workers
"""

import contextlib
import dataclasses
import fcntl
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from schemas import danger_signs, directories
from schemas.danger_signs import NO_SIGNS, DangerSigns
from schemas.errors import InputError, first_line
from schemas.evidence import Vocabulary
from schemas.safety_rules import NO_RULES, RuleSet
from schemas.text_file import read_text
from trainer.config import TargetConfig, TrainConfig
from trainer.data.state import Vignettes
from trainer.dyqn.network import build_network
from trainer.graph import mixture, novelty
from trainer.graph.danger_signs import compute
from trainer.graph.decide import NEUTRAL, OperatingPoint
from trainer.graph.mixture import Mixture
from trainer.graph.novelty import Novelty, fit
from trainer.graph.operating_point import HeldOutOutputs
from triage_runtime.case import parse_object
from triage_runtime.storage import arrays_file, whole_file
from triage_runtime.storage.whole_file import read_json

RUN = "run.json"
NOVELTY = "novelty.npz"
QUESTIONS = "questions.npz"
HELD_OUT = "held_out.npz"
"""Outputs for held-out vignettes, by the names of `HeldOutOutputs`; written last, at the end of training."""
EVALUATIONS = "evaluations.jsonl"
LOCK = "lock"
CHECKPOINTS = "checkpoints"
"""Folder of the checkpoints in a job directory."""
KEPT = 3
"""The newest checkpoints of a run, kept in case one of them is damaged."""
FORMAT = 8
"""In run.json. It rises whenever the code reads a job differently, or its network would answer differently."""
_NOVELTY_SEED, _QUESTIONS_SEED = 2_021, 2_022  # unlike the seeds of training
# Settings that may change when a run is resumed: they affect its length and its evaluations, not what it computes.
RESUMABLE = {"steps", "evaluation_interval", "checkpoint_interval"}


@dataclasses.dataclass(frozen=True)
class TrainedNetwork:
    """A trained Q-network and where it comes from."""

    model: keras.Model
    vocabulary: Vocabulary
    config: dict[str, Any]
    max_questions: int
    data_fingerprint: str
    metrics: dict[str, Any]  # on the test split, at this step and operating point; empty if there are none
    training: dict[str, int]  # steps and episodes
    rules: RuleSet = NO_RULES  # that an exported version obeys
    novelty: Novelty | None = None  # statistics of the training states; None if there are too few vignettes
    operating_point: OperatingPoint = NEUTRAL  # what a caller asks of it
    point_chosen: str = "default"  # "given" by the options; or "promise", to keep one
    promise: dict[str, Any] | None = None  # see `trainer.training.promises.Promise`
    held_out: HeldOutOutputs | None = None  # for which it was calibrated; None for all but the last checkpoint
    questions: Mixture | None = None  # from which it chooses questions; None if there are too few vignettes
    signs: DangerSigns = NO_SIGNS  # that it asks about first
    start_from: str | None = None  # the agent that its training started from, see `trainer.training.start`

    @property
    def target(self) -> TargetConfig:
        """The weight of safety in its Q-values, and the price of a question."""
        return TrainConfig.from_dict(self.config).target

    @property
    def has_probabilities(self) -> bool:
        """Whether the network gives probabilities of each decision beside its Q-values."""
        return "safe" in self.model.output


class JobDirectory:
    """Reads and writes a job directory."""

    def __init__(self, path: pathlib.Path):
        self.path = path

    @property
    def logs(self) -> pathlib.Path:
        """The directory of the TensorBoard summaries."""
        return self.path / "logs"

    def manager(self, checkpoint: tf.train.Checkpoint, worker: int = 0) -> tf.train.CheckpointManager:
        """Returns the manager of the newest checkpoints; those of worker 0, the chief, are the run's."""
        folder = self.path / CHECKPOINTS
        return tf.train.CheckpointManager(
            checkpoint, str(folder / f"worker-{worker}" if worker else folder), max_to_keep=KEPT
        )

    @contextlib.contextmanager
    def locked(self, worker: int = 0) -> Iterator[None]:
        """Locks the directory against other training runs; makes it if it is missing.

        The lock ends with the process that holds it, even if that is killed. On a file system without locks, nothing
        is locked.

        Raises:
            InputError: another run works in the directory, or it cannot be written.
        """
        with self.writing():
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / (f"{LOCK}-worker-{worker}" if worker else LOCK)).open("w")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):  # EAGAIN or EACCES, by file system
                raise InputError(
                    f"{self.path}: another training run uses it: wait until it ends, stop it, or choose another "
                    "--job-dir"
                ) from None
            except OSError:  # a file system without locks
                pass
            yield

    def prepare(
        self,
        config: TrainConfig,
        vocabulary: Vocabulary,
        data_fingerprint: str,
        workers: int = 1,
        write: bool = True,
        start_from: str | None = None,
    ) -> None:
        """Makes the directory, or checks that the run in it is the same one.

        All workers but the chief only check, without `write`. For the agent that the run started from, see
        `trainer.training.start.Start`.

        Raises:
            InputError: it holds a run with another configuration, vocabulary, data or number of workers; the chief has
                made no run in it; or it cannot be written.
        """
        run = {
            "format": FORMAT,
            "config": config.to_dict(),
            "vocabulary_fingerprint": vocabulary.fingerprint,
            "data_fingerprint": data_fingerprint,
            "workers": workers,
            "start_from": start_from,
        }
        if not write and not (self.path / RUN).exists():
            raise InputError(f"{self.path}: the chief's {RUN} is not there: give all workers the same --job-dir")
        if (self.path / RUN).exists():
            self._require_same(self.run(), run, vocabulary)
        if not write:
            return
        with self.writing():
            self.path.mkdir(parents=True, exist_ok=True)
            vocabulary.save(self.path / directories.VOCABULARY)
            with whole_file.replacing(self.path / RUN) as file:
                file.write(json.dumps(run, indent=2) + "\n")

    def _require_same(self, there: dict[str, Any], given: dict[str, Any], vocabulary: Vocabulary) -> None:
        # With the schedule cosine, the number of steps decides each step size.
        resumable = RESUMABLE - ({"steps"} if given["config"]["optimiser"]["schedule"] == "cosine" else set())
        differences = [
            f"{name} {there['config'].get(section, {}).get(name)!r} there, {value!r} given"
            for section, values in given["config"].items()
            for name, value in values.items()
            if name not in resumable and there["config"].get(section, {}).get(name) != value
        ]
        if there["workers"] != given["workers"]:
            differences.append(f"workers {there['workers']} there, {given['workers']} in TF_CONFIG")
        if there["vocabulary_fingerprint"] != given["vocabulary_fingerprint"]:
            there_vocabulary = Vocabulary.load(self.path / directories.VOCABULARY)
            difference = there_vocabulary.difference(vocabulary) or "is not that of the run"
            differences.append(f"the vocabulary given {difference}")
        if there["data_fingerprint"] != given["data_fingerprint"]:
            differences.append(
                f"data fingerprint {there['data_fingerprint'][:19]}... there, {given['data_fingerprint'][:19]}... given"
            )
        if there["start_from"] != given["start_from"]:
            differences.append(f"--start-from {there['start_from']} there, {given['start_from']} given")
        if differences:
            raise InputError(
                f"{self.path}: holds a run that differs ({'; '.join(differences)}): choose another --job-dir, or give "
                "the same settings and data to resume it"
            )

    def prepare_statistics(self, vignettes: Vignettes, vocabulary: Vocabulary, signs: str | None = None) -> None:
        """Writes danger signs, and the training vignettes' statistics for novelty and questions, unless they exist.

        Where novelty is written again, a finished run has yet to widen it: it does so with the same outcome. `signs` is
        the content of a file of danger signs; None stands for `signs_for`.

        Raises:
            InputError: they cannot be written, or existing ones are damaged, or the danger signs are others.
        """
        path = self.path / directories.DANGER_SIGNS
        if signs is not None and path.exists() and read_text(path) != signs:
            raise InputError(
                f"--danger-signs: this run began with others, those of {path}: leave the option out to resume it, or "
                "choose another --job-dir"
            )
        count = len(vocabulary)
        if self.novelty(count) is None and (fitted := fit(vignettes, vocabulary, _NOVELTY_SEED)) is not None:
            with self.writing():
                self.forget_held_out()  # first: whatever interrupts this, both are done by the next start
                arrays_file.write(self.path / NOVELTY, fitted._asdict())
        classes = self.questions(count)
        if classes is None and (classes := mixture.fit(vignettes, vocabulary, _QUESTIONS_SEED)) is not None:
            with self.writing():
                arrays_file.write(self.path / QUESTIONS, classes._asdict())
        if not path.exists():
            chosen = signs_for(vocabulary, classes).to_toml() if signs is None else signs
            with self.writing(), whole_file.replacing(path) as file:
                file.write(chosen)

    def signs(self, vocabulary: Vocabulary) -> DangerSigns:
        """Returns the danger signs, none if there is no such file.

        Raises:
            InputError: the file has faults.
        """
        path = self.path / directories.DANGER_SIGNS
        return danger_signs.load(path, vocabulary) if path.exists() else NO_SIGNS

    def widen_novelty(self, led: np.ndarray | None) -> None:
        """Adds the agent's interviews, states int8 `[R, E]`, to the statistics of what is usual, if there are any.

        Raises:
            InputError: they cannot be written, or existing ones are damaged.
        """
        if led is None or (fitted := self.novelty(led.shape[1])) is None:
            return
        wider = novelty.with_interviews(fitted, led, Vocabulary.load(self.path / directories.VOCABULARY))
        with self.writing():
            arrays_file.write(self.path / NOVELTY, wider._asdict())

    def novelty(self, evidence_count: int) -> Novelty | None:
        """Returns the statistics of the training states, over E pieces of evidence; None if there are none.

        Raises:
            InputError: the file is damaged.
        """
        return novelty.load(self.path / NOVELTY, evidence_count)

    def questions(self, evidence_count: int) -> Mixture | None:
        """Returns the classes from which questions are chosen, over E pieces of evidence; None if there are none.

        Raises:
            InputError: the file is damaged.
        """
        return mixture.load(self.path / QUESTIONS, evidence_count)

    def write_held_out(self, outputs: HeldOutOutputs) -> None:
        """Writes the agent's outputs for held-out vignettes.

        Raises:
            InputError: they cannot be written.
        """
        with self.writing():
            arrays_file.write(self.path / HELD_OUT, outputs._asdict())

    def held_out(self) -> HeldOutOutputs | None:
        """Returns the agent's outputs for held-out vignettes; None if training has not ended.

        Raises:
            InputError: the file is damaged.
        """
        path = self.path / HELD_OUT
        if not path.exists():
            return None
        with arrays_file.damage_named(path, "train again in a new --job-dir"):
            return HeldOutOutputs(**arrays_file.read(path))

    def forget_held_out(self) -> None:
        """Removes these outputs, if there are any: the run has yet to calibrate its agent."""
        (self.path / HELD_OUT).unlink(missing_ok=True)

    def run(self) -> dict[str, Any]:
        """Returns the content of run.json.

        Raises:
            InputError: there is none, or it is not what training wrote, or that of another version wrote it.
        """
        if not (self.path / RUN).exists():
            raise InputError(f"{self.path}: no {RUN}: expected a job directory, as triage train --job-dir makes it")
        run = read_json(self.path / RUN)
        missing = {"config", "vocabulary_fingerprint", "data_fingerprint", "workers", "start_from"} - set(run)
        if missing:
            raise InputError(f"{self.path / RUN}: expected the keys {', '.join(sorted(missing))}")
        if run.get("format") != FORMAT:
            raise InputError(
                f"{self.path / RUN}: format {run.get('format', 1)}, expected {FORMAT}: another version of dyqn-triage "
                "trained this agent, and its answers may differ here: train again in another --job-dir"
            )
        return run

    def evaluations(self) -> list[dict[str, Any]]:
        """Returns the evaluations so far, oldest first.

        Raises:
            InputError: the file is damaged.
        """
        path = self.path / EVALUATIONS
        text = read_text(path) if path.exists() else ""
        try:
            evaluations = list(map(parse_object, text.splitlines()))
            if not all(isinstance(each.get("step"), int) for each in evaluations):
                raise InputError("a line without a step")
        except InputError as error:
            raise InputError(
                f"{path}: {error}: delete the file; only the figures of past evaluations are lost"
            ) from error
        return evaluations

    def append_evaluation(self, evaluation: Mapping[str, Any]) -> None:
        """Adds one evaluation, replacing any of the same `step`; raises InputError if it cannot be written."""
        self.forget_after(evaluation["step"] - 1, evaluation)

    def forget_after(self, step: int, *later: Mapping[str, Any]) -> None:
        """Deletes the evaluations after `step`, as a run that resumes there repeats them, and adds `later` ones.

        Raises:
            InputError: the file cannot be written; it stays whole.
        """
        before = self.evaluations()
        kept = [*(each for each in before if each["step"] <= step), *later]
        if kept != before:
            with self.writing(), whole_file.replacing(self.path / EVALUATIONS) as file:
                file.writelines(json.dumps(each, allow_nan=False) + "\n" for each in kept)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Says in an InputError that the job directory cannot be written, and what to do, if the block fails at it."""
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            if self.path.is_file():
                raise InputError(
                    f"--job-dir {self.path}: this is a file: name a directory, which is made if it is missing"
                ) from error
            way_on = ", or choose another --job-dir"
            if any((self.path / CHECKPOINTS).glob("*.index")):
                way_on = "; its checkpoints are whole, and the same command resumes from the newest"
            raise InputError(
                f"{self.path}: cannot write the job directory: {first_line(error)}: make room, or allow writing "
                f"there{way_on}"
            ) from error


def load_network(job_dir: pathlib.Path, step: int | None = None) -> TrainedNetwork:
    """Returns the trained network of a job directory, by default that of the newest checkpoint.

    Raises:
        InputError: it is not a job directory, has no checkpoint (of that step), or has another run's vocabulary.
    """
    job = JobDirectory(job_dir)
    run = job.run()
    config = TrainConfig.from_dict(run["config"], str(job_dir / RUN))
    vocabulary = Vocabulary.load(job_dir / directories.VOCABULARY)
    if vocabulary.fingerprint != run["vocabulary_fingerprint"]:
        raise InputError(f"{job_dir / directories.VOCABULARY}: not the vocabulary of the training run")
    patients = job.questions(len(vocabulary))
    model = build_network(vocabulary, config.network, 0, patients, config.target)
    counters = {"step": tf.Variable(0, dtype=tf.int64), "episode": tf.Variable(0, dtype=tf.int64)}
    checkpoint = tf.train.Checkpoint(chosen=model, **counters)
    paths = existing_checkpoints(job.manager(checkpoint))
    path = checkpoint_path(paths, step, job_dir)
    newest = path == checkpoint_path(paths, None, job_dir)  # held-out outputs are only of this one
    restore(checkpoint, path).assert_existing_objects_matched().expect_partial()
    training = {"steps": int(counters["step"]), "episodes": int(counters["episode"])}
    evaluated = {evaluation["step"]: evaluation for evaluation in job.evaluations()}
    return TrainedNetwork(
        model=model,
        vocabulary=vocabulary,
        config=run["config"],
        max_questions=config.environment.max_questions,
        data_fingerprint=run["data_fingerprint"],
        metrics=evaluated.get(training["steps"], {}),
        training=training,
        start_from=run["start_from"],
        novelty=job.novelty(len(vocabulary)),
        held_out=job.held_out() if newest else None,
        questions=patients,
        signs=job.signs(vocabulary),
    )


def signs_for(vocabulary: Vocabulary, patients: Mixture | None) -> DangerSigns:
    """Returns the danger signs of this package where they fit, or else those that a mixture of patients suggests."""
    own = danger_signs.packaged(vocabulary)
    if own is not None or patients is None:
        return own or NO_SIGNS
    return compute(patients, vocabulary)


def existing_checkpoints(manager: tf.train.CheckpointManager) -> list[str]:
    """Returns the checkpoints whose files exist, oldest first; the manager itself trusts its list."""
    return [path for path in manager.checkpoints if pathlib.Path(f"{path}.index").exists()]


def checkpoint_step(path: str) -> int:
    """Returns the step at which a checkpoint was written."""
    return int(path.rsplit("-", 1)[1])


def restore(checkpoint: tf.train.Checkpoint, path: str) -> Any:
    """Restores `checkpoint` from `path`; returns TensorFlow's status, to assert what must have matched.

    Raises:
        InputError: the files are damaged or missing.
    """
    try:
        return checkpoint.restore(path)
    # Depending on the damage, TensorFlow's readers raise different errors.
    except (tf.errors.OpError, IndexError, ValueError, RuntimeError) as error:
        advice = "put its files back, or delete them to use an older one"
        raise InputError(f"{path}: a damaged checkpoint ({first_line(error)}): {advice}") from error


def checkpoint_path(paths: list[str], step: int | None, job_dir: pathlib.Path) -> str:
    """Returns the checkpoint of a step, the newest one without a step.

    Raises:
        InputError: there is none.
    """
    steps = {checkpoint_step(path): path for path in paths}
    if not steps:
        raise InputError(f"{job_dir}: no checkpoint yet: train for longer, or lower --checkpoint-interval")
    if step is not None and step not in steps:
        raise InputError(f"{job_dir}: no checkpoint of step {step}; there are {', '.join(map(str, sorted(steps)))}")
    return steps[max(steps) if step is None else step]
