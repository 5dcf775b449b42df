"""The loaded versions of a model, and the status of the others.

A call borrows the engine of one version until it ends. A retired version gets no new calls, and its engine is released
when the last call that borrowed it ends.
"""

import contextlib
import dataclasses
import enum
import threading
from collections.abc import Callable, Collection, Iterator, Mapping

from schemas.errors import InputError
from serving.engine.engine import Engine
from serving.errors import NotFoundError, UnavailableError

KEPT = 10
"""How many unloaded or broken versions are remembered."""


class State(enum.IntEnum):
    """The state of a version, with the numbers of tensorflow.serving.ModelVersionStatus.State."""

    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclasses.dataclass(frozen=True)
class VersionStatus:
    """The status of one version; `error` says why it could not be loaded, and is empty otherwise."""

    version: int
    state: State
    error: str = ""


@dataclasses.dataclass
class _Loaded:
    engine: Engine
    borrowed: int = 0
    retired: bool = False


class Versions:
    """The loaded versions of one model. Its methods may be called from any thread."""

    def __init__(self, model_name: str):
        self.model_name = model_name
        self._lock = threading.Lock()
        self._loaded: dict[int, _Loaded] = {}
        self._statuses: dict[int, VersionStatus] = {}  # in the order of their last change
        self._on_forget: list[Callable[[frozenset[int]], None]] = []
        self._labels: Mapping[str, int] = {}  # replaced, never changed
        self._default: int | None = None
        self._released = False
        self._closed = False

    @property
    def default(self) -> int | None:
        """The version that answers calls that name none; None before the first is loaded."""
        return self._default

    @property
    def loaded(self) -> frozenset[int]:
        """The versions that can be borrowed."""
        with self._lock:
            return frozenset(self._loaded)

    @property
    def labels(self) -> Mapping[str, int]:
        """The version that each label points at."""
        return self._labels

    @contextlib.contextmanager
    def borrow(self, version: int | None = None) -> Iterator[Engine]:
        """Lends the engine of `version`, by default of the default version, for the length of a `with` block.

        Raises:
            UnavailableError: none was asked for, and there is no default version yet.
            NotFoundError: the version is not loaded; the message is TensorFlow Serving's.
        """
        with self._lock:
            number = self._default if version is None else version
            loaded = None if number is None else self._loaded.get(number)
            if loaded is None and version is None:
                raise UnavailableError("no model version is ready: try again later")
            if loaded is None:
                raise NotFoundError(f"Servable not found for request: Specific({self.model_name}, {version})")
            loaded.borrowed += 1
        try:
            yield loaded.engine
        finally:
            with self._lock:
                loaded.borrowed -= 1
                self._release_if_idle(loaded)

    def version_of(self, label: str) -> int:
        """Returns the version that `label` points at.

        Raises:
            InputError: there is no such label; the message is TensorFlow Serving's.
        """
        with self._lock:
            if label not in self._labels:
                raise InputError(f"Unrecognized servable version label: {label}")
            return self._labels[label]

    def statuses(self) -> list[VersionStatus]:
        """Returns the status of every remembered version, by number."""
        with self._lock:
            return [self._statuses[version] for version in sorted(self._statuses)]

    def note(self, number: int, state: State, error: str = "") -> None:
        """Records the state of a version that is not loaded."""
        with self._lock:
            if number not in self._loaded:
                self._set_status(VersionStatus(number, state, error))

    def publish(self, engine: Engine) -> None:
        """Makes a warm engine available, in place of any of the same version."""
        number = int(engine.info.model_version)
        with self._lock:
            before = self._loaded.get(number)
            self._loaded[number] = _Loaded(engine)
            self._set_status(VersionStatus(number, State.AVAILABLE))
            if before is not None:
                before.retired = True
                self._release_if_idle(before)

    def set_default(self, number: int) -> None:
        """Makes a loaded version the default."""
        self._default = number

    def retire(self, number: int) -> None:
        """Stops lending a loaded version; it must not be the default."""
        with self._lock:
            loaded = self._loaded.pop(number)
            loaded.retired = True
            self._set_status(VersionStatus(number, State.UNLOADING))
            self._release_if_idle(loaded)

    def close(self) -> None:
        """Stops lending all versions, and forgets them: the model is no longer served."""
        with self._lock:
            self._closed, self._default, self._labels = True, None, {}
            known, loaded = frozenset(self._statuses), [*self._loaded.values()]
            self._loaded.clear()
            for each in loaded:
                each.retired = True
                self._set_status(VersionStatus(int(each.engine.info.model_version), State.UNLOADING))
                self._release_if_idle(each)
        for listener in self._on_forget:
            listener(known)

    @property
    def closed(self) -> bool:
        """Whether the model is no longer served."""
        return self._closed

    @property
    def draining(self) -> bool:
        """Whether calls still hold a version that is no longer lent."""
        with self._lock:
            return any(status.state is State.UNLOADING for status in self._statuses.values())

    def take_released(self) -> bool:
        """Returns whether a retired engine has been released since this was last asked."""
        with self._lock:
            released, self._released = self._released, False
            return released

    def on_forget(self, listener: Callable[[frozenset[int]], None]) -> None:
        """Calls `listener` with the numbers of versions to forget, so that it can drop what it keeps of them."""
        self._on_forget.append(listener)

    def forget(self, but: Collection[int] = ()) -> None:
        """Forgets unloaded and broken versions, except the last `KEPT` and those in `but`.

        A server sees many versions in a year, each with its metrics.
        """
        with self._lock:
            ended = [number for number, status in self._statuses.items() if status.state is State.END]
            forgotten = frozenset(ended[:-KEPT]) - frozenset(but)
            for number in forgotten:
                del self._statuses[number]
        if forgotten:
            for listener in self._on_forget:
                listener(forgotten)

    def set_labels(self, labels: Mapping[str, int]) -> None:
        """Replaces all labels."""
        with self._lock:
            self._labels = dict(labels)

    def _release_if_idle(self, loaded: _Loaded) -> None:
        if loaded.retired and loaded.borrowed == 0:
            self._released = True
            number = int(loaded.engine.info.model_version)
            if number not in self._loaded:  # otherwise it has been loaded again meanwhile
                self._set_status(VersionStatus(number, State.END))

    def _set_status(self, status: VersionStatus) -> None:
        self._statuses.pop(status.version, None)
        self._statuses[status.version] = status
