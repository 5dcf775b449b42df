"""A server for the console only, in its process and on a free loopback port."""

import contextlib
import pathlib
from collections.abc import Iterator

from serving import process
from serving.config.settings import ServeConfig
from serving.engine.model_config import VersionPolicy, Wanted
from serving.engine.served_models import watcher_of
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
    watcher = watcher_of(config, Wanted(base, policy))
    server = TriageServer(config)
    try:
        server.start(watcher)
        watcher.look()
        watcher.check()
        server.update_health()
        yield server.address
    finally:
        server.stop()
