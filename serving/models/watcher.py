"""Keeps the loaded versions in step with the versions that there are."""

import gc
import logging
import pathlib
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from schemas.errors import InputError
from schemas.model_directory import file_states, find_version
from serving.errors import DeadlineError, PreconditionError, UnavailableError
from serving.models.engine import Engine
from serving.models.version_policy import Wanted
from serving.models.versions import State, Versions

_LOGGER = logging.getLogger(__name__)


class Source(Protocol):
    """Where versions come from."""

    def versions(self, base: pathlib.Path) -> dict[int, pathlib.Path]:
        """Returns the folder of each version.

        Raises:
            InputError: the versions cannot be told from the base path.
            UnavailableError: a remote engine cannot be reached; DeadlineError where it is too slow.
        """

    def load(self, folder: pathlib.Path) -> Engine:
        """Returns the engine of a version, warm; raises whatever is wrong with the version."""


class Watcher:
    """Loads new versions beside the old ones, makes the best one the default, and retires what is not wanted any more.

    A version that cannot be loaded is told once, by log and status, and tried again when its files have changed. The
    versions of the policy count without it: the next lower one stays, or is loaded. What answers is retired only when
    another wanted version answers, so the last one stays, whatever becomes of its files.

    Args:
        versions: the loaded versions; nobody else changes them.
        source: where versions come from.
        wanted: what to serve.
    """

    def __init__(self, versions: Versions, source: Source, wanted: Wanted):
        self.versions = versions
        self._source = source
        self._wanted = wanted
        self._lock = threading.Lock()
        self._reachable = True
        self._folders: dict[int, pathlib.Path] = {}  # of the loaded versions
        self._broken: dict[int, tuple[pathlib.Path, object]] = {}  # folder and its files when it could not be loaded
        self._errors: dict[int, str] = {}  # why a version is not loaded
        self._told: set[str] = set()  # what the last look logged
        self._telling: set[str] = set()

    @property
    def ready(self) -> bool:
        """Whether a version answers, and the last look could reach what it runs in."""
        return self._reachable and self.versions.default is not None

    def look(self) -> None:
        """Compares what is loaded with what there is, once, and returns when the difference is made up."""
        with self._lock:
            self._look()

    def check(self) -> None:
        """Refuses to go on without a default version, or without one that has a label.

        Raises:
            InputError: why a version is not there, or could not be loaded.
            UnavailableError: a remote engine cannot be reached; DeadlineError where it is too slow.
        """
        with self._lock:
            loaded = self.versions.loaded
            needed = [*(self._wanted.policy.numbers or ()), *self._wanted.labels.values()]
            for number in needed:
                if number not in loaded:
                    raise self._reason(number)
            if self.versions.default is None:
                raise self._reason(None)

    def reload(self, wanted: Wanted) -> None:
        """Serves something else from now on, or goes on as before where nothing of it can be served.

        Raises:
            PreconditionError: no version of it can be served; the message says why.
        """
        with self._lock:
            before, self._wanted = self._wanted, wanted
            if self._look():
                return
            reason = self._reason(None)
            self._wanted = before
            self._look()
            raise PreconditionError(f"no such version can be served, the old configuration stays: {reason}")

    def run(self, seconds: float, stop: threading.Event, after: Callable[[], None]) -> None:
        """Looks every so many seconds until `stop` is set, and calls `after` each time."""
        while not stop.wait(seconds):
            try:
                self.look()
                after()
            except Exception:  # nothing here sees evidence, and the server must outlive a fault in here
                _LOGGER.exception("looking for new versions failed")

    def _look(self) -> bool:
        """Returns whether a version of the policy answers now."""
        self._told, self._telling = self._telling, set()
        try:
            there = self._source.versions(self._wanted.base)
            self._reachable = True
        except (InputError, UnavailableError, DeadlineError) as error:
            self._reachable = isinstance(error, InputError)
            self._tell(str(error))
            return False
        for number, (folder, files) in list(self._broken.items()):
            if there.get(number) != folder or file_states(folder) != files:
                del self._broken[number]
        self._errors = {number: text for number, text in self._errors.items() if number in there}
        self.versions.forget(self._errors.keys())
        failed = set(self._broken)
        while missing := self._missing(there, failed):
            chosen, _ = self._wanted_of(there, failed)
            number = max(missing & chosen or missing)  # labelled ones can wait
            if not self._load(number, there[number]):
                failed.add(number)
                gc.collect()  # of half a SavedModel, see below
            self._settle(there, failed)
        return self._settle(there, failed)

    def _wanted_of(self, there: Mapping[int, pathlib.Path], failed: set[int]) -> tuple[frozenset[int], frozenset[int]]:
        """Returns the versions that the policy wants, and those together with the labelled ones."""
        chosen = self._wanted.policy.choose(there.keys() - failed)
        return chosen, chosen | (frozenset(self._wanted.labels.values()) & there.keys())

    def _missing(self, there: Mapping[int, pathlib.Path], failed: set[int]) -> set[int]:
        _, wanted = self._wanted_of(there, failed)
        return {number for number in wanted - failed if self._folders.get(number) != there[number]}

    def _load(self, number: int, folder: pathlib.Path) -> bool:
        self.versions.note(number, State.LOADING)
        files = file_states(folder)
        try:
            engine = self._source.load(folder)
            if file_states(folder) != files:
                raise InputError(f"{folder}: its files changed while they were read: it is read again")
        except (UnavailableError, DeadlineError) as error:
            self._fail(number, str(error))
            self._tell(str(error))
            return False
        except Exception as error:
            text = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            self._broken[number] = (folder, files)
            self._fail(number, text)
            _LOGGER.error("version %d cannot be loaded, until its files change: %s", number, text)
            return False
        self.versions.publish(engine)
        self._folders[number] = folder
        self._errors.pop(number, None)
        return True

    def _fail(self, number: int, text: str) -> None:
        self._errors[number] = text
        self.versions.note(number, State.END, text)

    def _settle(self, there: Mapping[int, pathlib.Path], failed: set[int]) -> bool:
        """Chooses the default version, moves the labels and retires the rest; returns whether the policy has a say."""
        chosen, wanted = self._wanted_of(there, failed)
        loaded = self.versions.loaded
        ready = {number for number in chosen & loaded if self._folders[number] == there[number]}
        if ready:
            best, default = max(ready), self.versions.default
            if best != default:
                self.versions.set_default(best)
                _LOGGER.info("version %d answers%s", best, "" if default is None else f" in place of {default}")
            for number in sorted(loaded - wanted):
                self.versions.retire(number)
                del self._folders[number]
                _LOGGER.info("version %d is not wanted any more", number)
        elif self.versions.default is not None:
            self._tell(f"{self._wanted.base}: no version that is wanted: version {self.versions.default} stays")
        self.versions.set_labels({label: n for label, n in self._wanted.labels.items() if n in self.versions.loaded})
        if self.versions.take_ended():
            gc.collect()  # a SavedModel refers to itself in circles, and holds much memory for few objects
        return bool(ready)

    def _reason(self, number: int | None) -> Exception:
        """Returns why a version, the highest if None, is not loaded."""
        try:
            there = self._source.versions(self._wanted.base)
        except (InputError, UnavailableError, DeadlineError) as error:
            return error
        if number is None and there:
            number = max(there)
        if number in there and number in self._errors:
            return InputError(self._errors[number])
        try:
            return InputError(f"{find_version(self._wanted.base, number)}: the engine has no such version")
        except InputError as error:
            return error

    def _tell(self, text: str) -> None:
        """Logs a state that lasts, unless the look before did so."""
        if text not in self._told:
            _LOGGER.warning("%s", text)
        self._telling.add(text)
