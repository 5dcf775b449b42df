"""The versions of a model that are loaded, and what became of the others.

A call borrows the engine of one version until it ends.
"""

import contextlib
import dataclasses
import enum
import threading
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from schemas.errors import InputError
from serving.engine import Engine
from serving.errors import NotFoundError, UnavailableError

_Engine = TypeVar("_Engine", bound=Engine)


class State(enum.IntEnum):
    """Where a version stands, with the numbers of tensorflow.serving.ModelVersionStatus.State."""

    AVAILABLE = 30


@dataclasses.dataclass(frozen=True)
class VersionStatus:
    """What became of one version; `error` tells why it could not be loaded, and is empty otherwise."""

    version: int
    state: State
    error: str = ""


@dataclasses.dataclass
class _Loaded(Generic[_Engine]):
    engine: _Engine
    borrowed: int = 0


class Versions(Generic[_Engine]):
    """The loaded versions of one model. Its methods may be called from any thread.

    Args:
        model_name: the name under which clients of TensorFlow Serving's services ask for the model.
    """

    def __init__(self, model_name: str):
        self.model_name = model_name
        self._lock = threading.Lock()
        self._loaded: dict[int, _Loaded[_Engine]] = {}
        self._statuses: dict[int, VersionStatus] = {}
        self._labels: dict[str, int] = {}
        self._default: int | None = None

    @contextlib.contextmanager
    def borrow(self, version: int | None = None) -> Iterator[_Engine]:
        """Lends the engine of `version`, of the default version if None, for the length of a `with` block.

        Raises:
            NotFoundError: the version is not loaded; the message is TensorFlow Serving's.
        """
        loaded = self._take(version)
        if loaded is None:
            wanted = f"Latest({self.model_name})" if version is None else f"Specific({self.model_name}, {version})"
            raise NotFoundError(f"Servable not found for request: {wanted}")
        with self._lent(loaded):
            yield loaded.engine

    @contextlib.contextmanager
    def borrow_default(self) -> Iterator[_Engine]:
        """Lends the engine of the default version, as `borrow`, to a service whose clients know no versions.

        Raises:
            UnavailableError: no version is loaded.
        """
        loaded = self._take(None)
        if loaded is None:
            raise UnavailableError("no model version is ready: try again later")
        with self._lent(loaded):
            yield loaded.engine

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
        """Returns the status of every version that was ever seen, in the order of their numbers."""
        with self._lock:
            return [self._statuses[version] for version in sorted(self._statuses)]

    def publish(self, engine: _Engine) -> None:
        """Makes a warm engine available, and its version the default one."""
        number = int(engine.info.model_version)
        with self._lock:
            self._loaded[number] = _Loaded(engine)
            self._statuses[number] = VersionStatus(number, State.AVAILABLE)
            self._default = number

    def set_labels(self, labels: Mapping[str, int]) -> None:
        """Replaces all labels, each of which names a version."""
        with self._lock:
            self._labels = dict(labels)

    def _take(self, version: int | None) -> _Loaded[_Engine] | None:
        with self._lock:
            number = self._default if version is None else version
            loaded = None if number is None else self._loaded.get(number)
            if loaded is not None:
                loaded.borrowed += 1
            return loaded

    @contextlib.contextmanager
    def _lent(self, loaded: _Loaded[_Engine]) -> Iterator[None]:
        try:
            yield
        finally:
            with self._lock:
                loaded.borrowed -= 1
