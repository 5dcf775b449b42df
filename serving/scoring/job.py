"""`triage score --runner`: starts the pipeline, and keeps what its workers have done."""

import dataclasses
import pathlib
import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from schemas import directories
from schemas.errors import InputError
from schemas.model_directory import version_folder
from serving.scoring.bar import following
from serving.scoring.options import ScoreOptions
from serving.scoring.outcomes import add_outcomes, in_words, outcomes_in, read_record, save_record
from serving.scoring.record import Record
from serving.scoring.shards import Shard, in_folder, local_files, shards_of
from triage_runtime.beam.runner import Runner
from triage_runtime.storage import files, locations

if TYPE_CHECKING:  # Beam loads only when it is to run
    from serving.scoring.pipeline import Job


def score_on_beam(given: ScoreOptions, console: Console) -> tuple[Record, list[Shard]] | None:
    """Scores the inputs that are not done.

    Returns:
        The record and what these were; None if the job was only written down, for Dataflow to start it.

    Raises:
        InputError: Beam is missing or refuses an option, the pipeline fails, or there are faulty inputs. The answers
            to the others stay.
    """
    runner = Runner(given.runner or "", given.beam_options)
    try:
        record, left, job = _planned(_absolute(given))
        runner.check()
        save_record(record, job.output, job.scratch)
        files.remove(job.scratch)
        count = f"{len(left):,} file{'s' if len(left) != 1 else ''}"
        if runner.template:
            _write_down(left, job, runner)
            console.print(f"{count} to score; the job is in {runner.template}, for Dataflow to start it")
            return None
        if left:
            console.print(f"scoring {count} on {given.runner}")
            _score(record, left, job, runner, console)
    except OSError as error:
        raise InputError(str(error)) from error
    return record, left


def print_job(given: ScoreOptions) -> None:
    """Prints what `score_on_beam` would send to the runner as JSON, and writes nothing.

    Raises:
        InputError: Beam is missing or refuses an option, or an input is faulty.
    """
    from serving.scoring.pipeline import build

    runner = Runner(given.runner or "", given.beam_options)
    try:
        _, left, job = _planned(_absolute(given))
    except OSError as error:
        raise InputError(str(error)) from error
    runner.print_job(
        lambda pipeline: build(pipeline, left, job, alone=bool(runner.template)),
        job=dataclasses.asdict(job),
        shards=list(map(dataclasses.asdict, left)),
    )


def _planned(given: ScoreOptions) -> tuple[Record, list[Shard], "Job"]:
    """Returns the record with what is done, what is left, and how to score it."""
    from serving.scoring.pipeline import Job

    model = _version(given.model)
    inputs = [entry for location in given.input for entry in _files(location)]
    shards = shards_of(inputs, given.output, given.output_format)
    manifest = files.read(posixpath.join(model, directories.MANIFEST))
    if manifest is None:
        raise InputError(f"{model}: no {directories.MANIFEST}: write the version again with triage export")
    record = Record.continued(given, posixpath.basename(model), manifest, read_record(given.output))
    job = Job(
        model, given.output, given.questions, given.allow_unknown_codes, given.defer_below, given.batch_size,
        given.read_key(),
    )  # fmt: skip
    _collect(record, shards, job.scratch)  # of a run that was killed
    there = {posixpath.basename(entry.location) for entry in files.entries(f"{given.output}/*")}
    return record, [shard for shard in shards if not (record.is_done(shard) and shard.name in there)], job


def _write_down(shards: Sequence[Shard], job: "Job", runner: Runner) -> None:
    from serving.scoring.pipeline import build

    runner.run(lambda pipeline: build(pipeline, shards, job, alone=True), alone=True)


def _score(record: Record, shards: Sequence[Shard], job: "Job", runner: Runner, console: Console) -> None:
    from serving.scoring.pipeline import build

    try:
        with following(console, shards, job.scratch):
            runner.run(lambda pipeline: build(pipeline, shards, job))
    finally:
        faults = _collect(record, shards, job.scratch)
        save_record(record, job.output, job.scratch)
    files.remove(job.scratch)
    if faults:
        raise InputError(in_words(faults))
    lost = [shard.source for shard in shards if not record.is_done(shard)]
    if lost:
        raise InputError(f"{lost[0]}: the workers left no answers to it: run again")


def _absolute(given: ScoreOptions) -> ScoreOptions:
    """Returns the options with paths that other processes understand."""
    model, output = files.absolute(given.model), files.absolute(given.output)
    return dataclasses.replace(given, model=model, input=[files.absolute(each) for each in given.input], output=output)


def _version(location: str) -> str:
    """Returns `location` if it is a version, otherwise the highest version below it."""
    if not locations.is_remote(location):
        return str(version_folder(pathlib.Path(location)))
    if files.entries(f"{location}/{directories.SAVED_MODEL}"):
        return location
    models = files.entries(f"{location}/*/{directories.SAVED_MODEL}")
    folders = {posixpath.basename(posixpath.dirname(entry.location)) for entry in models}
    versions = {number: name for name in folders if (number := directories.version_number(name)) is not None}
    if not versions:
        raise InputError(f"--model {location}: no model version here")
    return posixpath.join(location, versions[max(versions)])


def _files(location: str) -> list[files.Entry]:
    """Returns the files of cases at a path or an address."""
    if not locations.is_remote(location):
        return local_files([location])
    if one := files.entries(location):
        return one
    below = files.entries(f"{location}/*")
    if not below:
        raise InputError(f"--input {location}: no such file or directory")
    return in_folder(location, below)


def _collect(record: Record, shards: Sequence[Shard], scratch: str) -> list[str]:
    """Adds to the record what the workers have done, and returns the faults that they met."""
    states = {shard.name: shard.state for shard in shards}
    outcomes = outcomes_in(scratch).items()
    return add_outcomes(record, {name: each for name, each in outcomes if each.get("input") == states.get(name, "")})
