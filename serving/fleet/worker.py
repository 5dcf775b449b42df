"""A process of a fleet: loads versions and answers calls, and does so as its supervisor says."""

import contextlib
import logging
import queue
import signal
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from schemas.errors import InputError
from serving import http, http_port, process, triage  # noqa: F401 (once for all workers)
from serving.calls import step_back, take_short_turns
from serving.config import ServeConfig
from serving.errors import DeadlineError, PreconditionError, UnavailableError
from serving.fleet.messages import DRAIN, PREPARE, STOP, Pinned, Report
from serving.models.served_models import watcher_of
from serving.models.version_policy import VersionPolicy, Wanted
from serving.server import TriageServer
from serving.telemetry import configure_logging

if TYPE_CHECKING:
    from serving.models.watcher import Watcher

_LOGGER = logging.getLogger(__name__)


def work(connection: Connection, config: ServeConfig, models: "list[tuple[ServeConfig, Wanted]]") -> None:
    """Runs a worker until the supervisor says STOP or is gone.

    Args:
        connection: to the supervisor.
        config: with the numbers of the ports.
        models: the arguments of `watcher_of` for each.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # they reach the supervisor too, which says what to do
    process.limit_arenas()
    configure_logging(config.log_format)
    take_short_turns()
    worker = Worker(connection, config, models)
    process.freeze_loaded_objects()  # before loading models, which must be freed
    worker.run()
    process.end(0)  # a version may be loading, and the interpreter must not be taken apart meanwhile


class Worker:
    """Does what the supervisor says; see `work` for the arguments."""

    def __init__(self, connection: Connection, config: ServeConfig, models: "list[tuple[ServeConfig, Wanted]]"):
        self._connection, self._config = connection, config
        self._watchers = {of_model.model_name: watcher_of(of_model, wanted) for of_model, wanted in models}
        self._wanted = {name: watcher.wanted for name, watcher in self._watchers.items()}
        self._server: TriageServer | None = None
        self._jobs: queue.SimpleQueue[tuple[int, str, Any]] = queue.SimpleQueue()

    def run(self) -> None:
        """Returns after STOP, or when the supervisor is gone; once calls are answered, a load keeps neither waiting."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                number, kind, details = self._connection.recv()
                if kind == STOP:
                    break
                if kind == DRAIN:
                    if self._server is not None:
                        self._server.drain()
                elif self._server is not None:
                    self._jobs.put((number, kind, details))
                else:  # in this thread, whose priority the server's threads inherit
                    self._do(number, kind, details)
                    if self._server is not None:
                        threading.Thread(target=self._work, name="versions", daemon=True).start()
        if self._server is not None:
            self._server.stop()

    def _work(self) -> None:
        step_back()
        while True:
            self._do(*self._jobs.get())

    def _do(self, number: int, kind: str, details: Any) -> None:
        try:
            answer: Any = self._prepare() if kind == PREPARE else self._serve(details)
            done = True
        except (InputError, PreconditionError, UnavailableError, DeadlineError) as error:
            done, answer = False, str(error)
        except Exception as error:
            _LOGGER.exception("%s failed", kind)
            done, answer = False, f"an unexpected {type(error).__name__}: see the log"
        with contextlib.suppress(OSError):  # the supervisor is gone
            self._connection.send((number, done, answer))

    def _prepare(self) -> dict[str, Pinned]:
        """Returns what can be served."""
        pinned = {}
        for name, watcher in self._watchers.items():
            if self._server is None:  # at the start of the fleet each pinned or labelled version has to be there
                watcher.look()
                watcher.check()
            wanted = watcher.prepare(self._wanted[name])
            pinned[name] = Pinned(wanted.policy.numbers or frozenset(), wanted.labels)
        return pinned

    def _serve(self, pinned: Mapping[str, Pinned]) -> list[Report]:
        for name, watcher in self._watchers.items():
            policy = VersionPolicy(numbers=pinned[name].numbers)
            watcher.reload(Wanted(self._wanted[name].base, policy, pinned[name].labels))
        if self._server is None:
            # Not before a version is loaded: the system gives connections to any process that listens.
            server = TriageServer(self._config)
            server.start(*self._watchers.values())
            self._server = server
        self._server.update_health()
        return [_report(watcher) for watcher in self._watchers.values()]


def _report(watcher: "Watcher") -> Report:
    versions = watcher.versions
    return Report(versions.model_name, versions.default, versions.labels, tuple(versions.statuses()))
