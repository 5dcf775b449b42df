"""Vertex AI's variables become settings of the server."""

import argparse

import pytest

from schemas.errors import InputError
from serving import command, vertex


def test_without_the_variables_nothing_changes():
    assert vertex.defaults({}) == {}
    assert vertex.model_base_path({}) is None
    assert vertex.routes({}) == (None, None)


def test_the_port_opens_http_to_the_container(monkeypatch):
    monkeypatch.setenv(vertex.PORT, "8080")
    monkeypatch.setenv(vertex.STORAGE, "gs://bucket/models")
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    parsed = parser.parse_args([])
    command.check(parsed)
    assert (parsed.http_port, parsed.host, parsed.insecure) == (8080, "0.0.0.0", True)  # noqa: S104
    assert parsed.model_base_path == "gs://bucket/models"
    assert parser.parse_args(["--http-port", "9090"]).http_port == 9090


def test_a_port_that_is_not_a_number_is_refused():
    with pytest.raises(InputError, match="AIP_HTTP_PORT 'http': expected the number of a port"):
        vertex.defaults({vertex.PORT: "http"})
