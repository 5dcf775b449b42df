"""Assembles sources, engines and watcher from the settings."""

import contextlib
import logging
import pathlib

from schemas import directories
from schemas.model_directory import list_versions
from serving.config import ServeConfig
from serving.models import warmup
from serving.models.batching import BatchedModels
from serving.models.connection import Connection
from serving.models.engine import SavedModelEngine, run_in_one_thread
from serving.models.litert import LiteRtEngine
from serving.models.model_store import ModelStore, StoredModels
from serving.models.remote import RemoteModels
from serving.models.safeguards import SafeguardedModels
from serving.models.version_policy import Wanted
from serving.models.versions import Versions
from serving.models.watcher import Source, Watcher

_LOGGER = logging.getLogger(__name__)


class LocalModels:
    """Finds versions below a model base path, and loads them into this process.

    Args:
        litert: whether LiteRT runs small batches.
    """

    def __init__(self, litert: bool = True):
        self._litert = litert
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

    def load(self, folder: pathlib.Path) -> SavedModelEngine:
        """Returns the engine of a version, warm.

        Raises:
            InputError: the version is damaged, or fails on its own warm-up requests.
        """
        engine = LiteRtEngine(folder) if self._litert else SavedModelEngine(folder)
        requests = warmup.run_requests(engine, folder)
        warmup.warm_up(engine)
        _LOGGER.info("version %s: loaded, %d warm-up requests answered", engine.info.model_version, requests)
        return engine


def watcher_of(config: ServeConfig, wanted: Wanted, store: ModelStore | None = None) -> Watcher:
    """Returns the watcher for the engine that `config` names; it has not looked for versions yet.

    Args:
        config: the settings of the server.
        wanted: which versions to serve.
        store: the object store that the model base path mirrors, None without one.
    """
    source: Source
    if config.engine == "tensorflow-serving":
        connection = Connection(config.tf_serving, config.engine_timeout_seconds)
        source = RemoteModels(connection, config.model_name)
    else:
        run_in_one_thread()
        source = LocalModels(config.litert)
    if store:
        source = StoredModels(source, store)
    source = SafeguardedModels(source, config.rules)
    if config.enable_batching:
        source = BatchedModels(source, config.batching)  # outermost, so that batches pass the rest in their own threads
    return Watcher(Versions(config.model_name), source, wanted, config.load_seconds)
