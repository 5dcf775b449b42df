"""A server with an HTTP port, and a client for it."""

import httpx
import pytest

from serving.config import ServeConfig
from serving.server import TriageServer


@pytest.fixture(scope="session")
def http_server(watcher):
    """Answers with version 3 over gRPC and HTTP, with the small limits of `config`."""
    settings = {"max_workers": 2, "max_batch": 80, "max_evidence": 5, "max_message_bytes": 100_000}
    server = TriageServer(ServeConfig(port=0, http_port=0, grace_seconds=0.0, metrics_port=0, **settings))
    server.start(watcher)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def http(http_server):
    with httpx.Client(base_url=http_server.http.url, trust_env=False, timeout=60) as client:
        yield client
