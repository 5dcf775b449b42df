"""The models of a server: assembled from the settings, and found by their names."""

import contextlib
import dataclasses
import functools
import gc
import logging
import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from schemas import directories
from schemas.model_directory import list_versions
from serving.call import current
from serving.config.settings import ServeConfig
from serving.engine.batching import BatchedModels
from serving.engine.engine import EncodingEngine, run_in_one_thread, warm_up
from serving.engine.litert import MOST_ASKED, LiteRtEngine
from serving.engine.model_config import ModelConfig, Wanted
from serving.engine.model_store import StoredModels
from serving.engine.versions import Versions
from serving.engine.watcher import VersionSource, Watcher
from serving.errors import ForbiddenError, NotFoundError
from serving.security import VersionKey, verified
from triage_runtime.storage import locations

_LOGGER = logging.getLogger(__name__)
ENGINE_SECONDS = 10.0
"""The longest time for a TensorFlow Serving, which answers in milliseconds: longer than callers usually wait."""


class LocalModels:
    """Finds versions below a model base path, and loads them into this process.

    Args:
        litert: whether LiteRT runs small batches.
        key: with which versions must be signed, None if they need not be.
    """

    def __init__(self, litert: bool = True, key: VersionKey | None = None):
        self._litert, self._key = litert, key
        self._ignored: set[str] = set()  # names that have been logged

    def versions(self, base: pathlib.Path) -> dict[int, pathlib.Path]:
        """Returns the folder of each version.

        Raises:
            InputError: the base path cannot be read.
        """
        versions = list_versions(base)
        with contextlib.suppress(OSError):  # the base path is gone again
            for name in {path.name for path in base.iterdir() if directories.is_too_large(path.name)} - self._ignored:
                _LOGGER.warning("%s: ignored: the largest version is %d", base / name, directories.LARGEST_VERSION)
                self._ignored.add(name)
        return versions

    def load(self, folder: pathlib.Path) -> EncodingEngine:
        """Returns the engine of a version, warm.

        Raises:
            InputError: the version is damaged, is not signed, or fails on its own warm-up requests.
        """
        from serving.engine.saved_model import (  # loads TensorFlow
            SavedModelEngine,
            SavedModelWithLiteRt,
            run_warmup_requests,
        )

        with verified(folder, self._key) as files:
            engine = SavedModelWithLiteRt(files) if self._litert else SavedModelEngine(files)
            requests = run_warmup_requests(engine, files)
        for states in (1, MOST_ASKED + 1):  # of so many TensorFlow chooses the questions: a second, the first time
            warm_up(engine, states)
        _LOGGER.info("version %s: loaded, %d warm-up requests answered", engine.info.model_version, requests)
        return engine


class LiteRtModels(LocalModels):
    """The same, with LiteRT alone and without TensorFlow."""

    def load(self, folder: pathlib.Path) -> EncodingEngine:
        """Returns the engine of a version, warm.

        Raises:
            InputError: the version is damaged, or is not signed.
        """
        with verified(folder, self._key) as files:
            engine = LiteRtEngine(files)
        warm_up(engine)
        return engine


def watcher_of(config: ServeConfig, wanted: Wanted) -> Watcher:
    """Returns the watcher for the engine that `config` names; it has not looked for versions yet.

    Args:
        config: the settings of the server.
        wanted: which versions to serve; `base` is made for a `location` in an object store.
    """
    source: VersionSource
    if config.engine == "tensorflow-serving":
        from serving.engine.remote import Connection, RemoteModels  # loads TensorFlow

        connection = Connection(config.tf_serving, ENGINE_SECONDS)
        source = RemoteModels(connection, config.model_name)
    elif config.engine == "litert":
        source = LiteRtModels(key=config.version_key)
    else:
        run_in_one_thread()
        source = LocalModels(config.litert, config.version_key)
    if wanted.location:
        source = StoredModels(source, wanted.location)
        wanted = dataclasses.replace(wanted, base=source.folder)
    return Watcher(Versions(config.model_name), BatchedModels(source), wanted)


def open_model(config: ServeConfig, model: ModelConfig) -> Watcher:
    """Returns the watcher of one of a server's models; it has not looked for versions yet.

    Args:
        config: the settings of the server.
        model: what to serve.
    """
    location = model.base_path.rstrip("/") if locations.is_remote(model.base_path) else ""
    wanted = Wanted(pathlib.Path(model.base_path), model.policy, model.labels, location)
    of_model = dataclasses.replace(config, model_name=model.name)
    return watcher_of(of_model, wanted)


class ServedModels:
    """The models of a server by name; every service asks here which model a request names.

    Args:
        watchers: one for each model, with different names; the first answers requests that name none.
        open_new: returns the watcher of a model that is added later.
    """

    def __init__(self, watchers: Sequence[Watcher], open_new: Callable[[ModelConfig], Watcher] | None = None):
        self._models = {watcher.versions.model_name: watcher for watcher in watchers}  # replaced, never changed
        self._open = open_new or functools.partial(open_model, ServeConfig())
        self._changing = threading.Lock()
        self._listeners: list[Callable[[Watcher], None]] = []

    def __iter__(self) -> Iterator[Watcher]:
        return iter(self._models.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names, the first model's first."""
        return tuple(self._models)

    @property
    def ready(self) -> bool:
        """Whether each model can answer."""
        return all(model.ready for model in self)

    def named(self, name: str) -> Watcher:
        """Returns the model called `name`, the first one for "", and notes it in the current call.

        Raises:
            NotFoundError: there is no such model; the message lists the names.
            ForbiddenError: the caller may not ask it; the message names no model that it may not ask.
        """
        call, models = current(), self._models
        asked = name or next(iter(models))
        model = models.get(asked)
        if call.models is not None and asked not in call.models:
            what = f"model {name[:80]!r}" if name else "the first model, which answers where none is named"
            raise ForbiddenError(f"the token does not permit {what}: it is for {', '.join(sorted(call.models))}")
        if model is None:
            names = [each for each in models if call.models is None or each in call.models]
            raise NotFoundError(f"no model {name[:80]!r}: this server has {', '.join(names)}")
        call.model_name = model.versions.model_name
        return model

    def on_each(self, listener: Callable[[Watcher], None]) -> None:
        """Calls `listener` with each model, with those that are added later just before they answer."""
        with self._changing:
            self._listeners.append(listener)
            for model in self:
                listener(model)

    def change(self, models: Sequence[ModelConfig]) -> None:
        """Serves these models and no others, or changes nothing if one of them cannot be served.

        Versions of all models are loaded, new models beside the others, before the first changes. A model that is left
        out answers the calls that it has begun.

        Args:
            models: at least one, with different names; the first answers requests that name none.

        Raises:
            InputError: the rules of a new model are faulty.
            PreconditionError: no version of a model can be served; the message says why.
        """
        with self._changing:
            before = self._models
            kept = {model.name: wanted for model in models if (wanted := self._wanted(model)) is not None}
            added: dict[str, Watcher] = {}
            try:
                for model in models:
                    if model.name not in kept:
                        added[model.name] = self._open(model)
                        added[model.name].start()
                changed = {name: each for name, each in kept.items() if each != before[name].wanted}
                self._reload(changed)
            except Exception:
                added.clear()
                gc.collect()
                raise
            for name in kept.keys() - changed.keys():
                before[name].look()
            for watcher in added.values():
                for listener in self._listeners:
                    listener(watcher)
            self._models = {model.name: added.get(model.name) or before[model.name] for model in models}
            for name, watcher in before.items():
                if name not in kept:
                    watcher.close()
            for name in added:
                _LOGGER.info("model %s is served", name)
            for name in before.keys() - self._models.keys():
                _LOGGER.info("model %s is no longer served", name)

    def _wanted(self, model: ModelConfig) -> Wanted | None:
        """Returns what to serve of a model that is there; None for a new one, and for another object store's."""
        watcher, remote = self._models.get(model.name), locations.is_remote(model.base_path)
        if watcher is None or watcher.wanted.location != (model.base_path.rstrip("/") if remote else ""):
            return None
        base = watcher.wanted.base if remote else pathlib.Path(model.base_path)
        return Wanted(base, model.policy, model.labels, watcher.wanted.location)

    def _reload(self, wanted: Mapping[str, Wanted]) -> None:
        before: list[tuple[Watcher, Wanted]] = []
        try:
            for name, each in wanted.items():
                self._models[name].prepare(each)
            for name, each in wanted.items():
                model = self._models[name]
                old = model.wanted
                model.reload(each)
                before.append((model, old))
        except Exception:  # files that were there when they were loaded have gone
            for model, old in before:
                model.reload(old)
            raise
        finally:
            for name in wanted:
                self._models[name].drop_prepared()
