"""`triage score --runner`: Apache Beam, which loads only here, scores each file of cases on one of its workers.

A worker copies what is at an address, and writes answers as the command does without a runner. One that fails leaves no
part of a file under its name, so that a runner may give its work to another. Only names and counts pass between them.
"""

import argparse
import collections
import contextlib
import dataclasses
import io
import pathlib
import re
import sys
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions
from apache_beam.runners.runner import PipelineResult, PipelineState
from rich.console import Console

from schemas import directories
from schemas.errors import InputError
from schemas.model_directory import version_folder
from serving.scoring.answers import Scorer
from serving.scoring.file import load_scorer, score_file
from serving.scoring.job import ScoreOptions, Shard, shards_of
from serving.security import VersionKey
from triage_runtime.storage import locations
from triage_runtime.storage.locations import Location

# What Beam's DirectRunner falls back to after trying to download another program.
_IN_PROCESS = "FnApiRunner"
_COUNTERS = "answers"  # the namespace of Beam's counters of cases by triage decision, or by what else is next
# What stands before an InputError of another process, of which only the traceback arrives, and behind any error.
_CLASS, _STEP = "schemas.errors.InputError: ", re.compile(r" \[while running '[^']*'\]$")


def score_on_beam(given: ScoreOptions, console: Console) -> collections.Counter[str] | None:
    """Scores the files of cases on workers.

    Returns:
        The number of cases by triage decision, or by what else is next, as the runner counts them; None if nobody waits
        for the end, as the job was written for Dataflow to start it.

    Raises:
        InputError: Beam refuses an option, an input is faulty, or the pipeline fails.
    """
    name = given.runner or ""
    options = _beam_options(_IN_PROCESS if name.lower() in ("direct", "directrunner") else name, given.beam_options)
    given, key = _for_workers(given)
    shards = shards_of(given)
    try:
        pipeline = beam.Pipeline(options=options)  # some runners are called as soon as they are made
    except Exception as error:
        raise InputError(f"--runner {name}: {_one_line(error)}") from error
    _ = pipeline | "shards" >> beam.Create(shards) | "score" >> RunInference(_Handler(given, key))
    template = options.view_as(GoogleCloudOptions).template_location if name.lower().startswith("dataflow") else None
    count = f"{len(shards):,} file{'s' if len(shards) != 1 else ''}"
    if template:
        _run(pipeline, name, wait=False)
        console.print(f"{count} to score; the job is in {template}, for Dataflow to start it")
        return None
    console.print(f"scoring {count} on {name}")
    counters = _run(pipeline, name, wait=True).metrics().query(MetricsFilter().with_namespace(_COUNTERS))["counters"]
    return collections.Counter({each.key.metric.name: each.result for each in counters})


def _for_workers(given: ScoreOptions) -> tuple[ScoreOptions, VersionKey | None]:
    """Returns the options with one version as model, and with paths that other processes understand; and the key.

    Raises:
        InputError: there is no version, or the key cannot be read.
    """
    with locations.staged(argparse.Namespace(key=given.require_signature)) as local:
        key = VersionKey.read(local.key) if local.key else None
    absolute = dataclasses.replace(
        given,
        model=_version(given.model),
        input=[_absolute(each) for each in given.input],
        output=_absolute(given.output),
    )
    return absolute, key


def _absolute(location: Location) -> Location:
    return location.resolve() if isinstance(location, pathlib.Path) else location


def _version(model: Location) -> Location:
    """Returns `model` if it is a version, otherwise the newest one below it, which all workers are to use."""
    if isinstance(model, pathlib.Path):
        return version_folder(model).resolve()
    with locations.store_errors(f"--model {model}: cannot read"):
        names = locations.names(model.uri)
    if directories.SAVED_MODEL in names:
        return model
    versions = locations.versions([name for name in names if name.endswith(f"/{directories.SAVED_MODEL}")])
    if not versions:
        raise InputError(f"--model {model}: no model version here")
    return model / versions[max(versions)]


class _Handler(ModelHandler):
    """Scores shards with a model that RunInference loads once for each process of a worker."""

    def __init__(self, given: ScoreOptions, key: VersionKey | None):
        super().__init__(min_batch_size=1, max_batch_size=1)  # a shard has batches of its own
        self._given = given
        self._key = key

    def load_model(self) -> Scorer:
        """Returns what answers cases with the version."""
        with locations.staged(argparse.Namespace(model=self._given.model)) as local:
            return load_scorer(local.model, self._key, self._given)

    def run_inference(
        self, batch: Sequence[Shard], model: Scorer, inference_args: dict[str, Any] | None = None
    ) -> Iterator[collections.Counter[str]]:
        """Writes the answers to shards, and yields the number of cases of each, as `score_file` does."""
        for shard in batch:
            with locations.staged(argparse.Namespace(source=shard.source, target=shard.target)) as local:
                local.target.parent.mkdir(parents=True, exist_ok=True)
                # Another worker may have the same shard at the same time.
                own = local.target.with_name(f".{uuid.uuid4().hex}.{local.target.name}")
                counts = score_file(model, local.source, own, lambda cases: None)
                own.replace(local.target)
            for decision, cases in counts.items():
                Metrics.counter(_COUNTERS, decision).inc(cases)
            yield counts


def _run(pipeline: beam.Pipeline, runner: str, wait: bool) -> PipelineResult:
    """Runs a pipeline, to its end if somebody waits for it; cancels a job that cannot be waited for.

    Raises:
        InputError: the pipeline failed, or its job cannot be cancelled.
    """
    started = None
    try:
        started = pipeline.run()
        if wait:
            started.wait_until_finish()
        return started
    except BaseException as error:
        if started and not PipelineState.is_terminal(started.state):
            _cancel(started, runner)
        if not isinstance(error, Exception):
            raise
        line = _one_line(error)
        if isinstance(error, InputError) or line.startswith(_CLASS):
            raise InputError(line.removeprefix(_CLASS)) from error
        raise InputError(f"the Beam pipeline failed on {runner}: {line}") from error


def _cancel(started: PipelineResult, runner: str) -> None:
    try:
        started.cancel()
    except Exception as error:
        # Dataflow's has a method for its name, the others have none.
        name = started.job_id() if hasattr(started, "job_id") else getattr(started, "_job_id", "")
        raise InputError(
            f"the job {name} on {runner} may be running still, as it could not be cancelled ({_one_line(error)}): "
            "cancel it there"
        ) from error


def _beam_options(runner: str, options: Sequence[str]) -> PipelineOptions:
    """Returns Beam's options.

    Raises:
        InputError: it refuses one.
    """
    parsed = PipelineOptions([f"--runner={runner}", *options])
    written = io.StringIO()
    try:
        with contextlib.redirect_stderr(written):
            parsed.get_all_options()
    except SystemExit:  # Beam names the faulty option after a list of all options
        raise InputError(f"--beam-options: {written.getvalue().strip().rpartition('error: ')[2]}") from None
    sys.stderr.write(written.getvalue())  # its warnings
    return parsed


def _one_line(error: BaseException) -> str:
    """Returns the message, or only its last line if it contains the traceback of another process."""
    lines = [line.strip() for line in (str(error) or repr(error)).splitlines() if line.strip()]
    return _STEP.sub("", lines[-1] if any(line.startswith("Traceback") for line in lines) else " ".join(lines))
