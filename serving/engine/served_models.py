"""The models of a server: assembled from the settings, and found by their names."""

import functools
import logging
import pathlib
import threading
from collections.abc import Callable, Iterator, Sequence

from schemas.model_directory import list_versions
from serving.call import current
from serving.config.settings import ServeConfig
from serving.engine.engine import EncodingEngine, run_in_one_thread, warm_up
from serving.engine.litert import MOST_ASKED, LiteRtEngine
from serving.engine.model_config import ModelConfig
from serving.engine.model_store import StoredModels
from serving.engine.watcher import VersionSource, Watcher
from serving.errors import ForbiddenError, NotFoundError
from serving.security import VersionKey, verified
from triage_runtime.storage import locations

_LOGGER = logging.getLogger(__name__)
ENGINE_SECONDS = 10.0
"""The longest time for a TensorFlow Serving, which answers in milliseconds: longer than callers usually wait."""


class LocalModels:
    """Finds versions below a model base path, and loads them into this process; with a key, only signed ones."""

    def __init__(self, litert: bool = True, key: VersionKey | None = None):
        self._litert, self._key = litert, key

    def versions(self, base: str) -> dict[int, pathlib.Path]:
        """Returns the folder of each version.

        Raises:
            InputError: the base path cannot be read.
        """
        return list_versions(pathlib.Path(base))

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


def open_model(config: ServeConfig, model: ModelConfig) -> Watcher:
    """Returns the watcher of one of a server's models; it has not looked for versions yet."""
    source: VersionSource
    if config.engine == "tensorflow-serving":
        from serving.engine.remote import Connection, RemoteModels  # loads TensorFlow

        source = RemoteModels(Connection(config.tf_serving, ENGINE_SECONDS), model.name)
    elif config.engine == "litert":
        source = LiteRtModels(key=config.version_key)
    else:
        run_in_one_thread()
        source = LocalModels(config.litert, config.version_key)
    if locations.is_remote(model.base_path):
        source = StoredModels(source, model.base_path)
    return Watcher(source, model)


class ServedModels:
    """The models of a server by name; every service asks here which model a request names, the first for none."""

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
        out answers the calls that it has begun. The first of the new ones answers requests that name none.

        Raises:
            PreconditionError: no version of a model can be served; the message says why.
        """
        with self._changing:
            before, after = self._models, dict[str, Watcher]()
            try:
                for model in models:
                    watcher = before.get(model.name)
                    if watcher is None or not watcher.can_follow(model):
                        watcher = self._open(model)
                    after[model.name] = watcher
                    if watcher is not before.get(model.name) or watcher.config != model:
                        watcher.prepare(model)
                for model in models:
                    after[model.name].reload(model)
            finally:
                for watcher in after.values():
                    watcher.drop_prepared()
            for name, watcher in after.items():
                if watcher is not before.get(name):
                    for listener in self._listeners:
                        listener(watcher)
            self._models = after
            for name, watcher in before.items():
                if watcher is not after.get(name):
                    watcher.close()
            for name in after.keys() - before.keys():
                _LOGGER.info("model %s is served", name)
            for name in before.keys() - after.keys():
                _LOGGER.info("model %s is no longer served", name)
