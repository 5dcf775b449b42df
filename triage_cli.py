"""The console script `triage`: one subcommand per job, each loaded only when it is called.

It sits above `trainer` and `serving`, which never import each other. `COMMANDS` names two modules of a subcommand:
one with its options, which is quick to load, and one with its work, which may load anything at its top. The first
offers `add_arguments(parser)`, the second `run(arguments) -> exit code`; they may be the same. The first may offer
`check(arguments)`, which refuses bad input before TensorFlow loads, `needs_tensorflow(arguments)`, for a subcommand
that does not always load it, and `reads_addresses(arguments)`, for one whose workers read and write addresses
themselves.
"""

import argparse
import contextlib
import errno
import importlib
import importlib.metadata
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from schemas import VERSION
from schemas.errors import InputError, first_line
from triage_runtime.command_line import extras, json_output
from triage_runtime.command_line.extras import SERVING, WHOLE
from triage_runtime.command_line.standard_error import silent_unless_failing
from triage_runtime.storage import locations


class Command(NamedTuple):
    """A subcommand of `triage`."""

    options: str
    """The module with its options."""
    summary: str
    tensorflow: bool = False
    """Whether it always loads TensorFlow."""
    work: str = ""
    """The module with its work, by default `options`."""


COMMANDS = {
    "simulate": Command(
        "trainer.commands.simulate",
        "make a data directory of simulated vignettes",
        tensorflow=True,
        work="trainer.commands.simulate_vignettes",
    ),
    "knowledge": Command("trainer.commands.knowledge", "check and print the clinical knowledge base"),
    "prepare": Command(
        "trainer.commands.prepare",
        "check vignettes and write them as a data directory of TFRecords",
        tensorflow=True,
        work="trainer.commands.prepare_data",
    ),
    "stats": Command(
        "trainer.commands.stats",
        "print statistics of a data directory, show vignettes, or check for anomalies",
        tensorflow=True,
        work="trainer.commands.data_statistics",
    ),
    "fold": Command(
        "trainer.commands.fold",
        "write one fold of a cross-validation as a data directory",
        tensorflow=True,
        work="trainer.commands.write_fold",
    ),
    "train": Command(
        "trainer.task", "train a DyQN agent on a data directory", tensorflow=True, work="trainer.commands.train"
    ),
    "evaluate": Command(
        "trainer.commands.evaluate",
        "evaluate a trained agent on the vignettes of a data directory",
        tensorflow=True,
        work="trainer.reports.evaluate",
    ),
    "reproduce": Command(
        "trainer.commands.reproduce",
        "repeat the paper's study on a data directory and write a report",
        tensorflow=True,
        work="trainer.commands.run_study",
    ),
    "export": Command(
        "trainer.commands.export",
        "export a trained agent as a SavedModel version, optionally through a safety gate",
        tensorflow=True,
        work="trainer.commands.export_version",
    ),
    "push": Command(
        "trainer.commands.push",
        "copy a blessed version to where a server reads it",
        tensorflow=True,
        work="trainer.commands.push_version",
    ),
    "kubeflow": Command(
        "trainer.commands.kubeflow", "compile the training pipeline for Kubeflow, or run it on this machine"
    ),
    "tflite": Command(
        "trainer.commands.tflite",
        "convert an exported version to a TFLite file for phones",
        tensorflow=True,
        work="trainer.commands.write_tflite",
    ),
    "vertex": Command("trainer.commands.vertex", "submit training jobs and models to Vertex AI"),
    "serve": Command("serving.commands.serve", "serve a model over gRPC as triage.v1.TriageService"),
    "ask": Command("serving.commands.ask", "ask a server about one patient"),
    "console": Command("serving.commands.console", "try a model in the browser"),
    "health": Command("serving.commands.health", "check whether a server is serving"),
    "score": Command(
        "serving.commands.score",
        "triage files of stored cases with a model, without a server",
        tensorflow=True,
        work="serving.commands.score_files",
    ),
    "monitor": Command(
        "serving.commands.monitor",
        "check a promise with cases that clinicians labelled",
        tensorflow=True,
        work="serving.commands.check_promise",
    ),
}
LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
GRPC_LOG = "GRPC_VERBOSITY"
BAD_INPUT = 2
INTERRUPTED = 128 + signal.SIGINT
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The errors of a full disk, which each library raises as an error of its own, with their words in it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand.

    Returns:
        0 on success, 2 on bad input or a full disk (with one line on standard error), 130 after Ctrl-C, 143 after
        SIGTERM with a runner of Apache Beam or in a study, or the exit code of the subcommand.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["serve"]:
        os.environ.setdefault(GRPC_LOG, "NONE")  # before gRPC is imported: a line for each stranger at the TLS port
    command = " ".join(arguments[:1])
    received: list[int] = []
    try:
        _check_installed(command)
        parsed = parser(arguments).parse_args(arguments)
        json_output.check(getattr(parsed, "json", None))
        module = importlib.import_module(COMMANDS[command].options)
        if hasattr(module, "check") and not locations.any_remote(parsed):
            module.check(parsed)
        staged = _staging(module, parsed)
        loads = module.needs_tensorflow(parsed) if hasattr(module, "needs_tensorflow") else COMMANDS[command].tensorflow
        if loads:
            extras.need("tensorflow", "this command", "tensorflow")
            with silent_unless_failing() if _is_quiet(parsed) else contextlib.nullcontext():
                importlib.import_module("tensorflow").config.list_physical_devices()
        # A job on a cluster has to be cancelled, vignettes may not stay behind, and a study's processes have to end.
        stopped = getattr(parsed, "runner", None) or command == "reproduce"
        cancellable = _interrupted_by(signal.SIGTERM, received) if stopped else None
        with cancellable or contextlib.nullcontext(), staged(parsed) as given:
            return importlib.import_module(COMMANDS[command].work or module.__name__).run(given)
    except InputError as error:
        sys.stderr.write(f"triage {command}: error: {error}\n")
        return BAD_INPUT
    except Exception as error:
        if not any(os.strerror(number) in str(error) for number in _NO_ROOM):
            raise
        where = getattr(error, "filename", None)
        fault = f"{where}: {first_line(error)}" if where else first_line(error)
        sys.stderr.write(f"triage {command}: error: {fault}: make room, then repeat the command\n")
        return BAD_INPUT
    except KeyboardInterrupt:
        sys.stderr.write(f"triage {command}: interrupted\n")
        return 128 + received[0] if received else INTERRUPTED


@contextlib.contextmanager
def _interrupted_by(number: signal.Signals, received: list[int]) -> Iterator[None]:
    """Makes a signal interrupt the block as Ctrl-C does, and adds its number to `received`."""

    def interrupt(*_: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    try:
        yield
    finally:
        signal.signal(number, before)


class _Subcommand(argparse.ArgumentParser):
    """Refuses unknown options with its own usage; argparse would show that of `triage`."""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown


def parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Returns the parser of the command line; only the subcommand that `arguments` name has its options."""
    top = argparse.ArgumentParser(
        prog="triage",
        description="Learn medical triage from clinicians' decisions, and serve what was learned. Research software, "
        "not a medical device.",
    )
    top.add_argument("--version", action="version", version=f"triage {VERSION}")
    subparsers = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Subcommand)
    _add_commands(subparsers, COMMANDS, arguments)
    return top


def _check_installed(command: str) -> None:
    """Refuses a subcommand of the other distribution, and a mixture of both.

    Raises:
        InputError: the subcommand trains and nothing here does, or both distributions are there in different versions:
            they ship the same packages of the server.
    """
    if command in COMMANDS and not extras.is_installed(COMMANDS[command].options):
        raise InputError(f"{SERVING} does not train: pip uninstall {SERVING}, then install {WHOLE}")
    there = {}
    for name in (WHOLE, SERVING):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            there[name] = importlib.metadata.version(name)
    if len(set(there.values())) > 1:
        named = " and ".join(f"{name} {version}" for name, version in there.items())
        raise InputError(f"{named} have overwritten each other: pip uninstall {WHOLE} {SERVING}, then install one")


def _is_quiet(parsed: argparse.Namespace) -> bool:
    """Sets TensorFlow's log level, unless it is set, and returns whether to hide what TensorFlow writes as it loads.

    Its lines are not JSON, so they are always hidden where the log is.
    """
    if getattr(parsed, "log_format", "") == "json":
        os.environ[LOG_LEVEL] = "3"
    return os.environ.setdefault(LOG_LEVEL, "3") not in ("0", "1")


def _staging(
    module: Any, parsed: argparse.Namespace
) -> Callable[[argparse.Namespace], contextlib.AbstractContextManager[argparse.Namespace]]:
    """Returns what replaces addresses in an object store with paths of local copies, if the subcommand needs that.

    Raises:
        InputError: it does, and this distribution cannot.
    """
    itself = hasattr(module, "reads_addresses") and module.reads_addresses(parsed)
    if itself or not locations.any_remote(parsed):
        return contextlib.nullcontext
    extras.need("tensorflow", "an address here", "tensorflow")
    if extras.is_installed("trainer"):
        importlib.import_module("trainer")  # before TensorFlow, whose Keras it chooses
    return locations.staged


def _add_commands(subparsers: Any, commands: Mapping[str, Command], arguments: Sequence[str]) -> None:
    """Adds a parser for each command, with options only for the one that `arguments` begins with."""
    for name, command in commands.items():
        if extras.is_installed(command.options):
            description = command.summary[0].upper() + command.summary[1:] + "."
            subparser = subparsers.add_parser(name, help=command.summary, description=description)
            if arguments[:1] == [name]:
                importlib.import_module(command.options).add_arguments(subparser)


if __name__ == "__main__":
    sys.exit(main())
