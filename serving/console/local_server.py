"""A server for the console only, in its process and on a free loopback port."""

import contextlib
import pathlib
from collections.abc import Iterator

from serving import process
from serving.config.settings import ServeConfig
from serving.engine.model_config import ModelConfig, VersionPolicy
from serving.engine.served_models import open_model
from serving.server.triage_server import TriageServer

_HIGHEST = VersionPolicy()


@contextlib.contextmanager
def serving(base: pathlib.Path, policy: VersionPolicy = _HIGHEST) -> Iterator[str]:
    """Serves a version below a model base path, by default the highest, and yields its HOST:PORT.

    Raises:
        InputError: there is no version, or it is damaged.
    """
    process.limit_arenas()
    config = ServeConfig(port=0, grace_seconds=1.0)
    watcher = open_model(config, ModelConfig(config.model_name, str(base), policy))
    server = TriageServer(config)
    try:
        server.start(watcher)
        watcher.look()
        watcher.check()
        server.update_health()
        yield server.address
    finally:
        server.stop()
