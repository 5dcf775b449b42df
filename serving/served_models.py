"""What is served, and by which engine, as the settings say."""

from typing import Any

from serving.batching import BatchedModels
from serving.config import ServeConfig
from serving.connection import Connection
from serving.engine import run_in_one_thread
from serving.local_models import LocalModels
from serving.model_store import ModelStore, StoredModels
from serving.remote_models import RemoteModels
from serving.safeguards import SafeguardedModels
from serving.version_policy import Wanted
from serving.versions import Versions
from serving.watcher import Source, Watcher


def watcher_of(config: ServeConfig, wanted: Wanted, store: ModelStore | None = None) -> Watcher[Any]:
    """Returns what brings versions into the engine that `config` names; it has not looked yet.

    Args:
        config: the settings of the server.
        wanted: which versions are to be served.
        store: the object store that the model base path follows, None where it follows none.
    """
    source: Source[Any]
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
