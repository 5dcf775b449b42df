"""Keeps the loaded versions up to date with the versions in the model base path."""

import gc
import logging
import pathlib
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from schemas.errors import InputError
from schemas.model_directory import check_files, file_states, find_version
from serving.engine.engine import Engine
from serving.engine.model_config import Wanted
from serving.engine.versions import State, Versions
from serving.errors import DeadlineError, PreconditionError, UnavailableError
from triage_runtime.storage import locations

_LOGGER = logging.getLogger(__name__)


class VersionSource(Protocol):
    """Where versions come from."""

    def versions(self, base: pathlib.Path) -> dict[int, pathlib.Path]:
        """Returns the folder of each version.

        Raises:
            InputError: the base path cannot be read.
            UnavailableError: a remote engine cannot be reached; DeadlineError if it is too slow.
        """

    def load(self, folder: pathlib.Path) -> Engine:
        """Returns the engine of a version, warm; raises an error if the version is faulty."""


class Watcher:
    """Loads new versions beside the old ones, makes the highest the default, and retires those no longer wanted.

    A version that cannot be loaded is reported once, by log and status, and tried again when its files change. The
    policy then chooses among the others, so the next lower version stays or is loaded. The default version is retired
    only when another wanted version can answer, so the last one stays even if its files are deleted.

    Args:
        versions: the loaded versions of one model, which only this watcher changes.
        source: where versions come from.
        wanted: what to serve.
    """

    def __init__(self, versions: Versions, source: VersionSource, wanted: Wanted):
        self.versions = versions
        self._source = source
        self._wanted = wanted
        self._lock = threading.Lock()
        self._reachable = True
        self._folders: dict[int, pathlib.Path] = {}  # of the loaded versions
        self._broken: dict[int, tuple[pathlib.Path, object]] = {}  # folder and state of its files when loading failed
        self._errors: dict[int, str] = {}  # why a version is not loaded
        self._prepared: dict[pathlib.Path, tuple[object, Engine]] = {}  # folder -> state of its files, and the engine
        self._logged_before: set[str] = set()  # warnings of the last look
        self._logged: set[str] = set()

    @property
    def wanted(self) -> Wanted:
        """What is served, as far as it is there."""
        return self._wanted

    @property
    def ready(self) -> bool:
        """Whether a version can answer, and the last look reached the engine."""
        return self._reachable and self.versions.default is not None

    def look(self) -> None:
        """Checks the base path once, and returns when the loaded versions are up to date."""
        with self._lock:
            if self.versions.closed:
                self._collect()
            else:
                self._look()

    def check(self) -> None:
        """Checks that there is a default version, and that every pinned or labelled version is loaded.

        Raises:
            InputError: why a version is missing or could not be loaded.
            UnavailableError: a remote engine cannot be reached; DeadlineError if it is too slow.
        """
        location = self._wanted.location
        with self._lock, locations.standing_for({str(self._wanted.base): location} if location else {}):
            loaded = self.versions.loaded
            needed = [*(self._wanted.policy.numbers or ()), *self._wanted.labels.values()]
            for number in needed:
                if number not in loaded:
                    raise self._reason(number)
            if self.versions.default is None:
                raise self._reason(None)

    def start(self) -> None:
        """Looks for the first time.

        Raises:
            PreconditionError: a version that is needed cannot be served; the message says why.
        """
        self.look()
        try:
            self.check()
        except (InputError, UnavailableError, DeadlineError) as error:
            raise self._refusal(error) from error

    def prepare(self, wanted: Wanted) -> None:
        """Loads what `wanted` needs beside what is served, which stays; a `reload` then takes no time.

        Raises:
            PreconditionError: no version of it can be served; the message says why.
        """
        with self._lock:
            before, self._wanted = self._wanted, wanted
            try:
                self._prepare()
            finally:
                self._wanted = before

    def drop_prepared(self) -> None:
        """Frees what `prepare` loaded and no `reload` used."""
        with self._lock:
            for folder in self._prepared:
                self.versions.note(int(folder.name), State.END)
            if self._prepared:
                self._prepared.clear()
                gc.collect()

    def reload(self, wanted: Wanted) -> None:
        """Changes what to serve, or changes nothing if no version of it can be served.

        Raises:
            PreconditionError: no version can be served; the message says why.
        """
        with self._lock:
            before, self._wanted = self._wanted, wanted
            try:
                if self._look():
                    return
                refusal = self._refusal(self._reason(None))
            except Exception:
                self._wanted = before
                raise
            self._wanted = before
            self._look()
            raise refusal

    def close(self) -> None:
        """Ends the model: further calls find no version, and those that have one keep it."""
        with self._lock:
            self.versions.close()
            self._collect()

    def run(self, seconds: float, stop: threading.Event, after: Callable[[], None]) -> None:
        """Looks every `seconds` until `stop` is set or no call holds a closed model, and calls `after` each time."""
        ended = False
        while not (ended or stop.wait(seconds)):
            ended = self.versions.closed and not self.versions.draining
            try:
                self.look()
                after()
            except Exception:  # the traceback has no evidence, and the server must survive errors here
                _LOGGER.exception("looking for new versions failed")

    def _prepare(self) -> None:
        try:
            there = self._begin()
        except (InputError, UnavailableError, DeadlineError) as error:
            raise self._refusal(error) from error
        failed = set(self._broken)
        while missing := {n for n in self._missing(there, failed) if there[n] not in self._prepared}:
            number = max(missing)
            if not self._load(number, there[number]):
                failed.add(number)
                gc.collect()  # frees a partly loaded SavedModel, see below
        chosen, _ = self._wanted_of(there, failed)
        if not chosen:
            raise self._refusal(self._reason(None))

    def _refusal(self, reason: Exception) -> PreconditionError:
        name = self.versions.model_name
        return PreconditionError(f"no such version of {name} can be served, the old configuration stays: {reason}")

    def _begin(self) -> dict[int, pathlib.Path]:
        """Returns the folder of each version, and forgets what has changed; raises what the source raises."""
        self._logged_before, self._logged = self._logged, set()
        there = self._source.versions(self._wanted.base)
        self._broken = {
            number: (folder, files)
            for number, (folder, files) in self._broken.items()
            if there.get(number) == folder and file_states(folder) == files
        }
        self._errors = {number: text for number, text in self._errors.items() if number in there}
        return there

    def _look(self) -> bool:
        """Returns whether a version of the policy can answer now."""
        try:
            there = self._begin()
            self._reachable = True
        except (InputError, UnavailableError, DeadlineError) as error:
            self._reachable = isinstance(error, InputError)
            self._warn_once(str(error))
            return False
        self.versions.forget(self._errors.keys())
        failed = set(self._broken)
        while missing := self._missing(there, failed):
            chosen, _ = self._wanted_of(there, failed)
            number = max(missing & chosen or missing)  # versions that are only labelled can wait
            if not self._load(number, there[number]):
                failed.add(number)
                gc.collect()  # frees a partly loaded SavedModel, see below
            self._settle(there, failed)
        return self._settle(there, failed)

    def _wanted_of(self, there: Mapping[int, pathlib.Path], failed: set[int]) -> tuple[frozenset[int], frozenset[int]]:
        """Returns the versions that the policy wants, and the same with the labelled versions."""
        chosen = self._wanted.policy.choose(there.keys() - failed)
        return chosen, chosen | (frozenset(self._wanted.labels.values()) & there.keys())

    def _missing(self, there: Mapping[int, pathlib.Path], failed: set[int]) -> set[int]:
        _, wanted = self._wanted_of(there, failed)
        return {number for number in wanted - failed if self._folders.get(number) != there[number]}

    def _load(self, number: int, folder: pathlib.Path) -> bool:
        """Loads a version for `_settle` to publish, unless it is prepared already; returns whether it can be served."""
        self.versions.note(number, State.LOADING)
        files: object = None
        try:
            files = file_states(folder)
            before, _ = self._prepared.get(folder, (None, None))
            if before != files:
                self._prepared.pop(folder, None)
                check_files(folder)
                engine = self._source.load(folder)
                if file_states(folder) != files:
                    raise InputError(f"{folder}: its files changed while it was loaded: it will be loaded again")
                self._prepared[folder] = (files, engine)
        except (UnavailableError, DeadlineError) as error:
            self._fail(number, str(error))
            self._warn_once(str(error))
            return False
        except Exception as error:
            expected = isinstance(error, InputError)
            text = str(error) if expected else f"{folder}: an unexpected {type(error).__name__}: see the server's log"
            self._broken[number] = (folder, files)
            self._fail(number, text)
            _LOGGER.error(
                "%s: version %d cannot be loaded and is tried again when its files change: %s",
                self.versions.model_name, number, text, exc_info=None if expected else error,
            )  # fmt: skip
            return False
        self._errors.pop(number, None)
        return True

    def _fail(self, number: int, text: str) -> None:
        self._errors[number] = text
        self.versions.note(number, State.END, text)

    def _settle(self, there: Mapping[int, pathlib.Path], failed: set[int]) -> bool:
        """Chooses the default, moves labels, retires the rest; returns whether a version of the policy can answer."""
        chosen, wanted = self._wanted_of(there, failed)
        for number in wanted - failed:
            if there[number] in self._prepared:
                _, engine = self._prepared.pop(there[number])
                self.versions.publish(engine)
                self._folders[number] = there[number]
        loaded = self.versions.loaded
        ready = {number for number in chosen & loaded if self._folders[number] == there[number]}
        if ready:
            best, default = max(ready), self.versions.default
            if best != default:
                self.versions.set_default(best)
                after = "" if default is None else f", after {default}"
                _LOGGER.info("%s: version %d is the default%s", self.versions.model_name, best, after)
            for number in sorted(loaded - wanted):
                self.versions.retire(number)
                del self._folders[number]
                _LOGGER.info("%s: version %d is no longer wanted", self.versions.model_name, number)
        elif self.versions.default is not None:
            self._warn_once(f"{self._wanted.base}: no wanted version: version {self.versions.default} stays")
        self.versions.set_labels({label: n for label, n in self._wanted.labels.items() if n in self.versions.loaded})
        self._collect()
        return bool(ready)

    def _collect(self) -> None:
        """Frees the versions that have been let go since the last time."""
        if self.versions.take_released():
            gc.collect()  # a SavedModel has reference cycles: few objects, much memory

    def _reason(self, number: int | None) -> Exception:
        """Returns why a version is not loaded, the highest by default."""
        try:
            there = self._source.versions(self._wanted.base)
        except (InputError, UnavailableError, DeadlineError) as error:
            return error
        if number is None:
            number = max(self._wanted.policy.numbers or there, default=None)
        if number in there and number in self._errors:
            return InputError(self._errors[number])
        try:
            folder = find_version(self._wanted.base, number)
            return InputError(f"{folder}: the engine has no such version")
        except InputError as error:
            return error

    def _warn_once(self, text: str) -> None:
        """Logs a lasting condition, unless the last look did."""
        if text not in self._logged_before:
            _LOGGER.warning("%s", text)
        self._logged.add(text)
