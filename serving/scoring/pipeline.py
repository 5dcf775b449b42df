"""Scoring as an Apache Beam pipeline: an input file is a unit of work, whose answers are one file.

A worker that fails leaves no part of a file under its name. If the runner gives its work to another one, that one
skips what is done, and writes the same bytes where it does not know. Only names and counts pass between workers.
"""

import dataclasses
import json
import pathlib
import posixpath
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.ml.inference.base import ModelHandler, RunInference

from schemas.errors import InputError
from serving.scoring.answers import Scorer
from serving.scoring.file import score_file
from serving.scoring.outcomes import (
    Outcome,
    add_outcomes,
    in_words,
    outcome_location,
    outcomes_in,
    read_record,
    save_record,
    write_outcome,
)
from serving.scoring.shards import Shard
from serving.security import VersionKey, verified
from triage_runtime.storage import files, locations


@dataclasses.dataclass(frozen=True)
class Job:
    """What every worker has to know."""

    model: str  # folder of the version
    output: str  # folder of the answers
    questions: int
    allow_unknown_codes: bool
    defer_below: float | None
    batch_size: int
    key: VersionKey | None  # of whoever must have signed the version

    @property
    def scratch(self) -> str:
        """The folder of outcomes and unfinished files."""
        return posixpath.join(self.output, ".score")


def build(pipeline: beam.Pipeline, shards: Iterable[Shard], job: Job, alone: bool = False) -> None:
    """Adds the steps to a pipeline.

    Args:
        pipeline: a Beam pipeline.
        shards: what to score: each gets its answers and its outcome.
        job: how.
        alone: whether nobody waits for the end: a last step writes the record, see `finish`.
    """
    outcomes = pipeline | "shards" >> beam.Create(list(shards)) | "score" >> RunInference(ShardScorer(job))
    if alone:
        count = outcomes | "when all are scored" >> beam.combiners.Count.Globally()
        _ = count | "record" >> beam.Map(finish, job)


class ShardScorer(ModelHandler):
    """Scores shards with a model that RunInference loads once for each process of a worker."""

    def __init__(self, job: Job):
        super().__init__(min_batch_size=1, max_batch_size=1)  # a shard has batches of its own
        self._job = job

    def load_model(self) -> Scorer:
        """Returns the scorer of a copy of the version."""
        model, given = self._job.model, self._job
        with tempfile.TemporaryDirectory(prefix="triage-") as scratch:
            folder = pathlib.Path(scratch) / posixpath.basename(model)
            files.fetch_folder(model, folder)
            with locations.standing_for({str(folder): model}), verified(folder, given.key) as signed:
                return Scorer(signed, given.questions, given.allow_unknown_codes, given.defer_below)

    def run_inference(
        self, batch: Sequence[Shard], model: Scorer, inference_args: dict[str, Any] | None = None
    ) -> list[Outcome]:
        """Returns the outcomes of shards, see `score_shard`."""
        return [score_shard(model, shard, self._job) for shard in batch]


def score_shard(scorer: Scorer, shard: Shard, job: Job) -> Outcome:
    """Writes the answers to a shard, and then its outcome; a shard that has its answers is left alone.

    Raises:
        OSError: a file cannot be read or written: the runner may try again.
    """
    content = files.read(outcome_location(shard, job.scratch))
    if content:  # of this run, before its worker failed
        done: Outcome = json.loads(content)
        return done
    outcome: dict[str, Any] = {"input": shard.state}
    with tempfile.TemporaryDirectory(prefix="triage-") as folder:
        source = pathlib.Path(folder) / "cases" / posixpath.basename(shard.source)
        target = pathlib.Path(folder) / shard.name
        files.fetch(shard.source, source)
        copies = {str(source.parent): posixpath.dirname(shard.source), folder: posixpath.dirname(shard.target)}
        try:
            with locations.standing_for(copies):
                counts = score_file(scorer, source, target, job.batch_size, lambda cases: None)
        except InputError as error:  # another attempt would find the same
            outcome["fault"] = str(error)
        else:
            with target.open("rb") as answers:
                files.replace(shard.target, answers, job.scratch)
            outcome["best_triage"] = dict(counts)
            beam.metrics.Metrics.counter("score", "cases").inc(counts.total())
    write_outcome(outcome, shard, job.scratch)
    return outcome


def finish(_: int, job: Job) -> None:
    """Adds what was done to the record; a worker that does so again changes nothing.

    Raises:
        InputError: there are faulty inputs. The others are in the record.
    """
    outcomes, record = outcomes_in(job.scratch), read_record(job.output)
    if record and outcomes:
        faults = add_outcomes(record, outcomes)
        save_record(record, job.output, job.scratch)
        if faults:
            raise InputError(in_words(faults))
    files.remove(job.scratch)
