"""Keeps the loaded versions up to date with the versions in the model base path."""

import gc
import logging
import pathlib
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from schemas.errors import InputError
from schemas.model_directory import check_files, file_states, missing_version
from serving.engine.engine import Engine
from serving.engine.model_config import ModelConfig
from serving.engine.versions import State, Versions
from serving.errors import DeadlineError, PreconditionError, UnavailableError
from triage_runtime.storage import locations

_LOGGER = logging.getLogger(__name__)


class VersionSource(Protocol):
    """Where versions come from."""

    def versions(self, base: str) -> dict[int, pathlib.Path]:
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

    Attributes:
        config: what is served, as far as it is there.
        versions: the loaded versions, which only this watcher changes.
    """

    def __init__(self, source: VersionSource, config: ModelConfig):
        self._source = source
        self.config = config
        self.versions = Versions(config.name)
        self._lock = threading.Lock()
        self._reachable = True
        self._folders: dict[int, pathlib.Path] = {}  # of the loaded versions
        self._broken: dict[int, tuple[pathlib.Path, object]] = {}  # folder and state of its files when loading failed
        self._errors: dict[int, str] = {}  # why a version is not loaded
        self._prepared: dict[pathlib.Path, Engine] = {}  # by the folder
        self._logged_before: set[str] = set()  # warnings of the last look
        self._logged: set[str] = set()

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
        with self._lock:
            loaded = self.versions.loaded
            needed = [*(self.config.policy.numbers or ()), *self.config.labels.values()]
            for number in needed:
                if number not in loaded:
                    raise self._reason(number)
            if self.versions.default is None:
                raise self._reason(None)

    def can_follow(self, config: ModelConfig) -> bool:
        """Returns whether this watcher can serve `config` instead; each address in an object store has its own."""
        before, after = self.config.base_path, config.base_path
        return before == after or not (locations.is_remote(before) or locations.is_remote(after))

    def prepare(self, config: ModelConfig) -> None:
        """Loads what `config` needs beside what is served, which stays; a `reload` then takes no time.

        Raises:
            PreconditionError: no version of it can be served; the message says why.
        """
        with self._lock:
            before, self.config = self.config, config
            try:
                there = self._begin()
                chosen, _ = self._wanted_of(there, self._load_missing(there, settle=False))
                if not chosen:
                    raise self._reason(None)
            except (InputError, UnavailableError, DeadlineError) as error:
                raise PreconditionError(
                    f"no such version of {config.name} can be served, the old configuration stays: {error}"
                ) from error
            finally:
                self.config = before

    def drop_prepared(self) -> None:
        """Frees what `prepare` loaded and no `reload` used."""
        with self._lock:
            for folder in self._prepared:
                self.versions.note(int(folder.name), State.END)
            if self._prepared:
                self._prepared.clear()
                gc.collect()

    def reload(self, config: ModelConfig) -> None:
        """Changes what to serve, to what is prepared."""
        with self._lock:
            self.config = config
            self._look()

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

    def _begin(self) -> dict[int, pathlib.Path]:
        """Returns the folder of each version, and forgets what has changed; raises what the source raises."""
        self._logged_before, self._logged = self._logged, set()
        there = self._source.versions(self.config.base_path)
        self._broken = {
            number: (folder, files)
            for number, (folder, files) in self._broken.items()
            if there.get(number) == folder and file_states(folder) == files
        }
        self._errors = {number: text for number, text in self._errors.items() if number in there}
        return there

    def _look(self) -> None:
        try:
            there = self._begin()
            self._reachable = True
        except (InputError, UnavailableError, DeadlineError) as error:
            self._reachable = isinstance(error, InputError)
            self._warn_once(str(error))
            return
        self.versions.forget(self._errors.keys())
        self._settle(there, self._load_missing(there, settle=True))

    def _load_missing(self, there: Mapping[int, pathlib.Path], settle: bool) -> set[int]:
        """Loads the versions that are wanted, perhaps for use at once, and returns those that failed."""
        failed = set(self._broken)
        while True:
            chosen, wanted = self._wanted_of(there, failed)
            missing = {
                number
                for number in wanted - failed
                if self._folders.get(number) != there[number] and there[number] not in self._prepared
            }
            if not missing:
                return failed
            number = max(missing & chosen or missing)  # versions that are only labelled can wait
            if not self._load(number, there[number]):
                failed.add(number)
                gc.collect()  # frees a partly loaded SavedModel, see below
            if settle:
                self._settle(there, failed)

    def _wanted_of(self, there: Mapping[int, pathlib.Path], failed: set[int]) -> tuple[frozenset[int], frozenset[int]]:
        """Returns the versions that the policy wants, and the same with the labelled versions."""
        chosen = self.config.policy.choose(there.keys() - failed)
        return chosen, chosen | (frozenset(self.config.labels.values()) & there.keys())

    def _load(self, number: int, folder: pathlib.Path) -> bool:
        """Loads a version for `_settle` to publish; returns whether it can be served."""
        self.versions.note(number, State.LOADING)
        files: object = None
        try:
            files = file_states(folder)
            check_files(folder)
            engine = self._source.load(folder)
            if file_states(folder) != files:
                raise InputError(f"{folder}: its files changed while it was loaded: it will be loaded again")
            self._prepared[folder] = engine
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
                self.config.name, number, text, exc_info=None if expected else error,
            )  # fmt: skip
            return False
        self._errors.pop(number, None)
        return True

    def _fail(self, number: int, text: str) -> None:
        self._errors[number] = text
        self.versions.note(number, State.END, text)

    def _settle(self, there: Mapping[int, pathlib.Path], failed: set[int]) -> None:
        """Chooses the default, moves labels, and retires the rest."""
        chosen, wanted = self._wanted_of(there, failed)
        for number in wanted - failed:
            if there[number] in self._prepared:
                self.versions.publish(self._prepared.pop(there[number]))
                self._folders[number] = there[number]
        loaded = self.versions.loaded
        ready = {number for number in chosen & loaded if self._folders[number] == there[number]}
        if ready:
            best, default = max(ready), self.versions.default
            if best != default:
                self.versions.set_default(best)
                after = "" if default is None else f", after {default}"
                _LOGGER.info("%s: version %d is the default%s", self.config.name, best, after)
            for number in sorted(loaded - wanted):
                self.versions.retire(number)
                del self._folders[number]
                _LOGGER.info("%s: version %d is no longer wanted", self.config.name, number)
        elif self.versions.default is not None:
            self._warn_once(f"{self.config.base_path}: no wanted version: version {self.versions.default} stays")
        self.versions.set_labels({label: n for label, n in self.config.labels.items() if n in self.versions.loaded})
        self._collect()

    def _collect(self) -> None:
        """Frees the versions that have been let go since the last time."""
        if self.versions.take_released():
            gc.collect()  # a SavedModel has reference cycles: few objects, much memory

    def _reason(self, number: int | None) -> Exception:
        """Returns why a version is not loaded, the highest by default."""
        try:
            there = self._source.versions(self.config.base_path)
        except (InputError, UnavailableError, DeadlineError) as error:
            return error
        if number is None:
            number = max(self.config.policy.numbers or there, default=None)
        if number in there and number in self._errors:
            return InputError(self._errors[number])
        return missing_version(self.config.base_path, there, number)

    def _warn_once(self, text: str) -> None:
        """Logs a lasting condition, unless the last look did."""
        if text not in self._logged_before:
            _LOGGER.warning("%s", text)
        self._logged.add(text)
