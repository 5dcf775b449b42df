"""Vertex AI's variables become settings of the server."""

import argparse

import pytest

import triage_cli
from schemas.errors import InputError
from serving.commands import serve as command
from serving.config import vertex


def test_the_port_opens_http_to_the_container(monkeypatch):
    monkeypatch.setenv(vertex.PORT, "8080")
    monkeypatch.setenv(vertex.STORAGE, "gs://bucket/models")
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    parsed = parser.parse_args([])
    command.check(parsed)
    assert (parsed.http_port, parsed.http_host, parsed.insecure) == (8080, "0.0.0.0", True)  # noqa: S104
    assert parsed.host == "127.0.0.1"
    assert parsed.model_base_path == "gs://bucket/models"
    given = parser.parse_args(["--http-port", "9090", "--model-base-path", "/mnt/models"])
    command.check(given)
    assert (given.http_port, given.model_base_path) == (9090, "/mnt/models")


def test_plain_text_for_http_opens_no_plain_text_for_grpc(monkeypatch, capsys):
    monkeypatch.setenv(vertex.PORT, "8080")
    assert triage_cli.main(["serve", "--model-base-path", "models", "--host", "0.0.0.0"]) == 2  # noqa: S104
    assert "--host 0.0.0.0: " in capsys.readouterr().err


def test_a_port_that_is_not_a_number_is_refused(monkeypatch):
    monkeypatch.setenv(vertex.PORT, "http")
    with pytest.raises(InputError, match="AIP_HTTP_PORT 'http': "):
        vertex.defaults()
