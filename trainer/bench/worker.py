"""Contestants as separate processes: one JSON line asks for training, and one says what has been learned.

Separate processes keep libraries, thread pools and peak memory apart. This module needs only the standard library, so
that a contestant can run in another Python environment.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple, cast

ROOT = pathlib.Path(__file__).resolve().parents[2]


class WorkerFailedError(RuntimeError):
    """A contestant ended without an answer; the message holds the last lines that it wrote."""


class Worker:
    """The `process` of a contestant, as its parent sees it; leaving the context kills it."""

    def __init__(self, name: str, command: Sequence[str]):
        """Starts the process.

        Args:
            name: of the contestant, for messages.
            command: arguments of a Python process that calls `answer`.
        """
        self.name = name
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        path = os.pathsep.join([str(ROOT), str(ROOT / "proto"), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(  # noqa: S603
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        self._to, self._from = cast(IO[str], self.process.stdin), cast(IO[str], self.process.stdout)

    def ask(self, **request: Any) -> dict[str, Any]:
        """Returns the answer to a request.

        Raises:
            WorkerFailedError: the process ended.
        """
        with contextlib.suppress(BrokenPipeError):  # the last lines of its standard error say why
            self._to.write(json.dumps(request) + "\n")
            self._to.flush()
        line = self._from.readline()
        if not line:
            self.process.wait()
            self._errors.seek(0)
            last = [text for text in self._errors.read().splitlines() if text.strip()][-3:]
            raise WorkerFailedError(f"{self.name}: ended with code {self.process.returncode}: {' / '.join(last)}")
        return json.loads(line)

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        self._errors.close()


def answer(respond: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
    """Answers every line on standard input until it ends; other output of the process goes to standard error."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        replies.write(json.dumps(respond(json.loads(line))) + "\n")
        replies.flush()


class Trained(NamedTuple):
    """How far a learner has come."""

    finished: bool  # it has learned all that it can
    steps: int | None = None  # training steps so far; None for a learner that takes none


def learning(
    train: Callable[[Callable[[], bool]], Trained], decide: Callable[[], Any]
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Returns what answers `{"began": time, "until": seconds}` with what a learner decides after so many seconds.

    They are counted from `began`, when the process was started, without the time that `decide` takes.

    Args:
        train: trains until the function that it is given returns true, or until it has learned all that it can. What is
            imported and built before the first request counts too.
        decide: returns the decisions on the test vignettes, ready for JSON.

    Returns:
        The answer: `seconds`, the `steps` and whether the training is `finished`, as in `Trained`, and `decisions`.
    """
    paused, since = 0.0, None

    def respond(request: Mapping[str, Any]) -> dict[str, Any]:
        nonlocal paused, since
        if since is not None:
            paused += time.time() - since

        def elapsed() -> float:
            return time.time() - float(request["began"]) - paused

        trained = train(lambda: elapsed() >= float(request["until"]))
        seconds, since = elapsed(), time.time()
        return {"seconds": seconds, **trained._asdict(), "decisions": decide()}

    return respond
