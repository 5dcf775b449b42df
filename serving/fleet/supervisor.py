"""Starts the processes of a fleet, replaces those that die, and decides which versions all of them serve.

The supervisor answers no calls and loads no model. Its workers are copies of a process that has loaded the code and
nothing else (`multiprocessing`'s fork server), as gRPC and TensorFlow's threads do not survive a copy.
"""

import contextlib
import itertools
import logging
import multiprocessing
import multiprocessing.connection
import multiprocessing.forkserver
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schemas.errors import InputError
from serving import process
from serving.config import ServeConfig
from serving.fleet import worker
from serving.fleet.messages import DRAIN, PREPARE, SERVE, STOP, Pinned, Report
from serving.models.version_policy import Wanted

_LOGGER = logging.getLogger(__name__)
_MARGIN_SECONDS = 60.0  # for starting, and for what is not loading
_END_SECONDS = 6.0  # beyond the grace period
_AGAIN_SECONDS = 1.0  # until a process that did not start is started again
# What a worker imports where a SavedModel answers, once for all workers.
_WITH_TENSORFLOW = (
    "serving.models.saved_model", "serving.models.warmup", "serving.open_inference", "serving.tf_serving",
    "serving.http.open_inference_routes", "serving.http.tf_serving_routes",
)  # fmt: skip


class _GoneError(Exception):
    """A worker has died."""


class _Worker:
    """A process, and the pipe to it."""

    def __init__(self, context: Any, work: Callable[..., None], *arguments: Any):
        self.connection, other = context.Pipe()
        with multiprocessing.connection.Connection(
            os.dup(2), readable=False
        ) as stream:  # brings a file descriptor along
            arguments = (stream, work, other, *arguments)
            self.process = context.Process(target=process.with_standard_error, args=arguments, name="worker")
            self.process.start()
        other.close()
        self._lock = threading.Lock()

    def send(self, number: int, kind: str, details: Any = None) -> None:
        """Asks for something; an answer has the same number."""
        with self._lock, contextlib.suppress(OSError):  # it has died, which its sentinel tells
            self.connection.send((number, kind, details))

    def close(self) -> None:
        """Ends what is left of the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()


class Supervisor:
    """A fleet of processes that answer calls on the same ports.

    Args:
        config: of the server, with the number of processes and with the numbers of its ports.
        models: the arguments of `watcher_of` for each model.
        work: runs a worker, given its end of a pipe and both of the above.
    """

    def __init__(
        self,
        config: ServeConfig,
        models: Sequence[tuple[ServeConfig, Wanted]],
        work: Callable[..., None] = worker.work,
    ):
        self._config, self._models, self._work = config, models, work
        self._context = multiprocessing.get_context("forkserver")
        with_tensorflow = _WITH_TENSORFLOW if config.engine == "saved-model" else ()
        self._context.set_forkserver_preload([work.__module__, *with_tensorflow])
        self._numbers = itertools.count()
        self._workers: list[_Worker] = []
        self._stopping = threading.Event()
        self._warned = ""
        self._thread: threading.Thread | None = None
        self._wake, self._woken = multiprocessing.Pipe()
        self.pinned: Mapping[str, Pinned] = {}
        """What all workers serve, by the model's name."""
        self.reports: list[Report] = []
        """The versions of each model, as the worker that answered last has them."""

    @property
    def processes(self) -> list[int]:
        """The ids of the workers."""
        return [each.process.pid for each in self._workers]

    def start(self) -> None:
        """Returns when all workers answer calls; from then on dead ones are replaced, and new versions looked for.

        Raises:
            InputError: a model cannot be served, or a worker died.
        """
        _start_fork_server()
        self._workers = [self._new_worker() for _ in range(self._config.processes)]
        try:
            outcomes = self._ask(self._workers, PREPARE)
            choices = [self._value(outcome) for outcome in outcomes]
            if any(choice != choices[0] for choice in choices):
                raise InputError("the processes cannot load the same versions: see the log")
            for outcome in self._ask(self._workers, SERVE, choices[0]):
                self.reports = self._value(outcome)
            self.pinned = choices[0]
        except _GoneError:
            raise InputError("a process died while it started: see the log") from None
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Replaces workers that die, and looks for new versions, until `stop`."""
        seconds = self._config.poll_seconds
        look = time.monotonic() + seconds
        while not self._stopping.is_set():
            sentinels = [each.process.sentinel for each in self._workers]
            timeout = max(0.0, look - time.monotonic()) if seconds else None
            if len(self._workers) < self._config.processes:
                timeout = _AGAIN_SECONDS
            multiprocessing.connection.wait([*sentinels, self._woken], timeout)
            try:
                self._replace()
                if seconds and time.monotonic() >= look:
                    look = time.monotonic() + seconds
                    self._look()
            except _GoneError:
                pass  # it is replaced at once
            except Exception:
                _LOGGER.exception("supervising failed")

    def drain(self) -> None:
        """Lets all workers report NOT_SERVING."""
        for each in self._workers:
            each.send(next(self._numbers), DRAIN)

    def stop(self) -> None:
        """Lets all workers finish their calls, and ends those that take longer than the grace period."""
        self._stopping.set()
        self._wake.send(None)
        if self._thread is None:  # it did not start
            for each in self._workers:
                each.close()
            return
        self._thread.join(_END_SECONDS)
        for each in self._workers:
            each.send(next(self._numbers), STOP)
        end = time.monotonic() + self._config.grace_seconds + _END_SECONDS
        for each in self._workers:
            each.process.join(max(0.0, end - time.monotonic()))
            if each.process.is_alive():
                _LOGGER.error("process %d has not ended in time, and is killed", each.process.pid)
            each.close()

    def _new_worker(self) -> _Worker:
        return _Worker(self._context, self._work, self._config, list(self._models))

    def _replace(self) -> None:
        for dead in [each for each in self._workers if not each.process.is_alive()]:
            if self._stopping.is_set():
                return
            code = dead.process.exitcode
            _LOGGER.error("process %d died (exit code %s): another takes its place", dead.process.pid, code)
            self._workers.remove(dead)
            dead.close()
        while len(self._workers) < self._config.processes and not self._stopping.is_set():
            new = self._new_worker()
            try:
                [outcome] = self._ask([new], SERVE, self.pinned)
            except _GoneError:
                outcome = (False, "it died")
            if not outcome[0]:
                _LOGGER.error("process %d cannot serve, and is started again: %s", new.process.pid, outcome[1])
                new.close()
                return
            self._workers.append(new)

    def _look(self) -> None:
        """Lets all workers change to new versions once each has loaded them."""
        outcomes = self._ask(self._workers, PREPARE)
        refusals = [text for done, text in outcomes if not done]
        if refusals:
            self._warn(refusals[0])
            return
        choices = [choice for _, choice in outcomes]
        if any(choice != choices[0] for choice in choices):
            self._warn("the processes have not loaded the same versions: the old ones stay")
        elif choices[0] != self.pinned:
            self._change(choices[0])
        else:
            self._warned = ""

    def _change(self, pinned: Mapping[str, Pinned]) -> None:
        outcomes = self._ask(self._workers, SERVE, pinned)
        refusals = [text for done, text in outcomes if not done]
        if refusals:
            self._warn(f"the old versions stay: {refusals[0]}")
            self._ask(self._workers, SERVE, self.pinned)
            return
        self.pinned, self.reports = pinned, outcomes[0][1]
        texts = (f"{name} {', '.join(map(str, sorted(each.numbers)))}" for name, each in pinned.items())
        _LOGGER.info("all %d processes serve %s", len(self._workers), "; ".join(texts))

    def _warn(self, text: str) -> None:
        if text != self._warned:
            _LOGGER.warning("%s", text)
        self._warned = text

    def _ask(self, workers: Sequence[_Worker], kind: str, details: Any = None) -> list[tuple[bool, Any]]:
        """Asks workers at the same time, and returns for each whether it was done, and its answer or the reason.

        Raises:
            _GoneError: one of them died, or was killed as it did not answer.
        """
        number = next(self._numbers)
        for each in workers:
            each.send(number, kind, details)
        outcomes: dict[Any, tuple[bool, Any]] = {}
        versions = max(1, len(self._models))
        end = time.monotonic() + self._config.load_seconds * 2 * versions + _MARGIN_SECONDS
        while len(outcomes) < len(workers):
            waiting = [each for each in workers if each not in outcomes]
            objects = [
                *(each.connection for each in waiting),
                *(each.process.sentinel for each in waiting),
                self._woken,
            ]
            ready = multiprocessing.connection.wait(objects, max(0.0, end - time.monotonic()))
            if self._stopping.is_set():
                raise _GoneError
            if not ready:
                for each in waiting:
                    _LOGGER.error("process %d does not answer, and is killed", each.process.pid)
                    each.process.kill()
            for each in waiting:
                try:
                    while each.connection.poll():
                        answered, done, answer = each.connection.recv()
                        if answered == number:  # otherwise nobody waits for it any more
                            outcomes[each] = (done, answer)
                except (EOFError, OSError):
                    raise _GoneError from None
                if each not in outcomes and not each.process.is_alive():
                    raise _GoneError
        return [outcomes[each] for each in workers]

    @staticmethod
    def _value(outcome: tuple[bool, Any]) -> Any:
        """Returns an answer, or raises the reason there is none."""
        done, answer = outcome
        if not done:
            raise InputError(answer)
        return answer


def _start_fork_server() -> None:
    """Starts the process that workers are copies of.

    It and they ignore SIGTERM, which may be sent to all processes of a service. TensorFlow writes to standard error
    while it loads, which is hidden unless TF_CPP_MIN_LOG_LEVEL asks for it.
    """
    before, shown = signal.signal(signal.SIGTERM, signal.SIG_IGN), os.dup(2)
    try:
        if os.environ.get("TF_CPP_MIN_LOG_LEVEL") not in ("0", "1"):
            with open(os.devnull, "wb") as nothing:
                os.dup2(nothing.fileno(), 2)
        multiprocessing.forkserver.ensure_running()
    finally:
        os.dup2(shown, 2)
        os.close(shown)
        signal.signal(signal.SIGTERM, before)
