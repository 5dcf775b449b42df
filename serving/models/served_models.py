"""What is served, and by which engine, as the settings say."""

import logging
import pathlib

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
        litert: whether LiteRT answers small batches.
    """

    def __init__(self, litert: bool = True):
        self._litert = litert

    def versions(self, base: pathlib.Path) -> dict[int, pathlib.Path]:
        """Returns the folder of each version that can be loaded.

        Raises:
            InputError: the base path cannot be read.
        """
        return list_versions(base)

    def load(self, folder: pathlib.Path) -> SavedModelEngine:
        """Returns the engine of a version, warm.

        Raises:
            InputError: the version is damaged, or does not answer its own warm-up requests.
        """
        engine = LiteRtEngine(folder) if self._litert else SavedModelEngine(folder)
        requests = warmup.run_requests(engine, folder)
        warmup.warm_up(engine)
        _LOGGER.info("version %s: loaded, %d warm-up requests answered", engine.info.model_version, requests)
        return engine


def watcher_of(config: ServeConfig, wanted: Wanted, store: ModelStore | None = None) -> Watcher:
    """Returns what brings versions into the engine that `config` names; it has not looked yet.

    Args:
        config: the settings of the server.
        wanted: which versions are to be served.
        store: the object store that the model base path follows, None where it follows none.
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
        source = BatchedModels(source, config.batching)  # around all else: the rest is done in the threads of the runs
    return Watcher(Versions(config.model_name), source, wanted)
