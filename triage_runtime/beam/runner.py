"""Runs a command's pipeline on a runner of Apache Beam, which loads only here and in pipelines."""

import argparse
import contextlib
import io
import json
import logging
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from schemas.errors import InputError
from triage_runtime.beam.local_workers import HeldLog, ending_with_workers
from triage_runtime.command_line.extras import missing
from triage_runtime.command_line.options import flag

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineResult

LOCAL = "DirectRunner"
# What Beam's DirectRunner falls back to after trying to download another program.
_IN_PROCESS = "FnApiRunner"
# Those whose workers are on this machine, as Beam reads names: in any case, with or without "Runner".
_ON_THIS_MACHINE = ("direct", "fnapi", "bundlebaseddirect", "switchingdirect", "prism")
_LOG_LEVEL = "default_sdk_harness_log_level"
_CANCEL_SECONDS = 300  # until a job that is cancelled has ended
# What stands before an InputError of another process, of which only the traceback arrives, and behind any error.
_CLASS, _STEP = "schemas.errors.InputError: ", re.compile(r" \[while running '[^']*'\]$")


def add_arguments(parser: argparse.ArgumentParser, default: str | None, meaning: str, verb: str) -> None:
    """Gives `parser` the options `--dry-run`, `--runner` and `--beam-options`.

    Args:
        parser: of the command.
        default: the runner, None for a command that can do without Beam.
        meaning: of the default, for the help.
        verb: for what does not happen with `--dry-run`, such as "score".
    """
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help=f"with --runner: print the job as it would be sent, as JSON, and {verb} nothing",
    )
    parser.add_argument("--runner", default=default, help=f"Apache Beam runner (default: {meaning})")
    parser.add_argument(
        "--beam-options", nargs=argparse.REMAINDER, default=[], metavar="...",
        help="options for Apache Beam, such as --direct_running_mode=multi_processing; must come last",
    )  # fmt: skip


def check_unused(dry_run: bool, beam_options: Sequence[str]) -> None:
    """Checks that a command without a runner has no options for one.

    Raises:
        InputError: it has.
    """
    for option, given in (("--beam-options", beam_options), ("--dry-run", dry_run)):
        if given:
            raise InputError(f"{option}: needs --runner, such as --runner {LOCAL}")


def check(beam_options: Sequence[str], fields: Iterable[str], command: str) -> None:
    """Checks that the options for Beam are none of the command's own.

    Args:
        beam_options: what follows `--beam-options`.
        fields: the names of the command's options, with underscores.
        command: its name.

    Raises:
        InputError: one of them is.
    """
    ours = set(map(flag, fields))
    for option in beam_options:
        if option.partition("=")[0] in ours:
            raise InputError(f"{option}: an option of triage {command}: give it before --beam-options")


class Runner:
    """A runner of Apache Beam with its options, which Beam's file systems use, too.

    Args:
        name: as Beam's option `--runner` takes it.
        beam_options: Beam's other options.

    Raises:
        InputError: Beam is not installed, or refuses an option.
    """

    def __init__(self, name: str, beam_options: Sequence[str]):
        _require_beam()
        from apache_beam.io.filesystems import FileSystems

        self._name = name
        self._options = _parsed(_IN_PROCESS if _plain(name) == _plain(LOCAL) else name, beam_options)
        FileSystems.set_options(self._options)
        self._checked: beam.Pipeline | None = None

    @property
    def template(self) -> str | None:
        """The place to which the job is only written, for Dataflow to start it: Beam's option `--template_location`."""
        from apache_beam.options.pipeline_options import GoogleCloudOptions

        location: str | None = self._options.view_as(GoogleCloudOptions).template_location
        return location if _plain(self._name) == "dataflow" else None

    def check(self) -> None:
        """Checks Beam's options as the runner does, which may call a service for that; `run` does so, too.

        Raises:
            InputError: the runner is not known, refuses or misses an option, or cannot be reached.
        """
        self._checked = self._pipeline()

    def run(self, build: Callable[["beam.Pipeline"], None], alone: bool = False, folder: str = "") -> None:
        """Runs a pipeline to its end, or writes it to `template`. A job that cannot be waited for is cancelled.

        Args:
            build: adds the steps to the pipeline.
            alone: whether nobody has to wait for the end, so that the job may be written for a template.
            folder: of unfinished files, which the user has to delete after a job that cannot be cancelled.

        Raises:
            InputError: see `check`; or the pipeline failed; or its job cannot be cancelled.
        """
        if self.template and not alone:
            raise InputError("--template_location: this command has work to do when its workers are done: leave it out")
        pipeline, self._checked = self._checked or self._pipeline(), None
        build(pipeline)
        with contextlib.ExitStack() as stack:
            log = stack.enter_context(HeldLog()) if self._is_quiet() else None
            started = None
            try:
                with ending_with_workers():
                    started = pipeline.run()
                    if not self.template:
                        started.wait_until_finish()
            except BaseException as error:
                if started:
                    self._cancel(started, error, folder)
                if not isinstance(error, Exception) or not _is_failure(error):
                    raise
                line = _one_line(error)
                if isinstance(error, InputError) or line.startswith(_CLASS):
                    raise InputError(line.removeprefix(_CLASS)) from error
                kept = log.keep() if log else None
                place = f"; Beam's log is in {kept}" if kept else ""
                raise InputError(f"the Beam pipeline failed on {self._name}: {line}{place}") from error

    def _cancel(self, started: "PipelineResult", reason: BaseException, folder: str) -> None:
        """Cancels a job, whose workers would write on after this process has cleaned up, and waits until it has ended.

        Raises:
            InputError: it may be running still.
        """
        from apache_beam.runners.runner import PipelineState

        try:
            if PipelineState.is_terminal(started.state):
                return
            started.cancel()
            end = time.monotonic() + _CANCEL_SECONDS
            while not PipelineState.is_terminal(started.state):
                if time.monotonic() > end:
                    raise TimeoutError(f"it has not ended in {_CANCEL_SECONDS} s")
                time.sleep(1)
        except (Exception, KeyboardInterrupt) as error:
            if self._is_here():  # and ends with this process
                return
            # Dataflow's has a method for its name, the others have none.
            name = started.job_id() if hasattr(started, "job_id") else getattr(started, "_job_id", "")
            reason_line = "interrupted" if isinstance(reason, KeyboardInterrupt) else _one_line(reason)
            raise InputError(
                f"{reason_line}; the job {name} on {self._name} may be running still, as it could not be cancelled "
                f"({_one_line(error)}): cancel it there{f', then delete {folder}' if folder else ''}"
            ) from error

    def _pipeline(self) -> "beam.Pipeline":
        import apache_beam as beam

        try:
            return beam.Pipeline(options=self._options)
        except Exception as error:
            if not _is_failure(error) and not isinstance(error, (ValueError, AttributeError)):
                raise
            raise InputError(f"--runner {self._name}: {_one_line(error)}") from error

    def _is_here(self) -> bool:
        return _plain(self._name) in _ON_THIS_MACHINE

    def _is_quiet(self) -> bool:
        """Returns whether to hold back Beam's log: of workers that are here, unless the user asks for it."""
        return self._is_here() and _LOG_LEVEL not in self._options.get_all_options(drop_default=True)

    def describe(self, build: Callable[["beam.Pipeline"], None]) -> dict[str, Any]:
        """Returns what `run` would send: Beam's options, and the pipeline as its message `Pipeline` in JSON."""
        import apache_beam as beam
        from google.protobuf import json_format

        pipeline = beam.Pipeline(_IN_PROCESS, options=self._options)  # some runners are called as soon as they are made
        build(pipeline)
        options = {**self._options.get_all_options(drop_default=True), "runner": self._name}
        return {"options": options, "pipeline": json_format.MessageToDict(pipeline.to_runner_api())}

    def print_job(self, build: Callable[["beam.Pipeline"], None], **parts: Any) -> None:
        """Prints what `run` would send as JSON, after `parts` of the command's own."""
        sys.stdout.write(json.dumps({**parts, **self.describe(build)}, indent=2, default=str) + "\n")


def _is_failure(error: Exception) -> bool:
    """Returns whether an error is of a worker, or of a runner that cannot be reached, and not one in our code."""
    import grpc
    from apache_beam.runners.dataflow.dataflow_runner import DataflowRuntimeException

    known = (RuntimeError, OSError, InputError, ImportError, grpc.RpcError, grpc.FutureTimeoutError)
    # Google's clients come with an extra of Beam.
    return isinstance(error, (*known, DataflowRuntimeException)) or type(error).__module__.startswith("google.")


def _require_beam() -> None:
    # It warns about missing Google client libraries, even if they are not needed, and those about their own future.
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import apache_beam  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "apache_beam":
            raise
        raise missing("apache_beam", "--runner", "beam") from None
    finally:
        logging.disable(logging.NOTSET)


def _parsed(runner: str, beam_options: Sequence[str]) -> "PipelineOptions":
    from apache_beam.options.pipeline_options import PipelineOptions

    options = PipelineOptions([f"--runner={runner}", *beam_options])
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            options.get_all_options()
    except SystemExit:  # Beam names the faulty option after a list of all options
        raise InputError(f"--beam-options: {said.getvalue().strip().rpartition('error: ')[2]}") from None
    sys.stderr.write(said.getvalue())  # its warnings
    return options


def _one_line(error: BaseException) -> str:
    """Returns the message, or only its last line if it contains the traceback of another process."""
    lines = [line.strip() for line in (str(error) or repr(error)).splitlines() if line.strip()]
    return _STEP.sub("", lines[-1] if any(line.startswith("Traceback") for line in lines) else " ".join(lines))


def _plain(runner: str) -> str:
    return runner.lower().removesuffix("runner")
