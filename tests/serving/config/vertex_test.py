"""Vertex AI's variables become settings of the server."""

import argparse
import os
import pathlib
import subprocess

import httpx
import pytest

import triage_cli
from schemas.errors import InputError
from serving.commands import serve as command
from serving.config import vertex

ROOT = pathlib.Path(__file__).resolve().parents[3]


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
    assert parser.parse_args(["--http-port", "9090"]).http_port == 9090


def test_plain_text_for_http_opens_no_plain_text_for_grpc(monkeypatch, capsys):
    monkeypatch.setenv(vertex.PORT, "8080")
    assert triage_cli.main(["serve", "--model-base-path", "models", "--host", "0.0.0.0"]) == 2  # noqa: S104
    assert "--host 0.0.0.0: " in capsys.readouterr().err


def test_a_port_that_is_not_a_number_is_refused(monkeypatch):
    monkeypatch.setenv(vertex.PORT, "http")
    with pytest.raises(InputError, match="AIP_HTTP_PORT 'http': "):
        vertex.defaults()


@pytest.mark.slow
def test_the_command_without_options_answers_the_service(python, model_base_path):
    """As Vertex AI starts a container: with its variables, and 0 for a port that is free."""
    variables = {
        vertex.PORT: "0", vertex.PREDICT: "/v1/endpoints/7:predict", vertex.HEALTH: "/ready",
        vertex.STORAGE: str(model_base_path),
    }  # fmt: skip
    process = python.start(
        ROOT / "triage_cli.py", "serve", env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        said = [process.stdout.readline() for _ in range(2)]
        address = next(line for line in said if "http://" in line).split("http://")[1].split()[0].rstrip(",")
        with httpx.Client(base_url=f"http://{address}".replace("0.0.0.0", "127.0.0.1"), trust_env=False) as http:  # noqa: S104
            assert http.get("/ready").status_code == 200
            instances = [{"present": ["chest_pain"]}, {"present": ["fever"], "questions_asked": 23}]
            answers = http.post("/v1/endpoints/7:predict", json={"instances": instances}).raise_for_status().json()
            assert [answer["forced"] for answer in answers["predictions"]] == [False, True]
            assert answers["predictions"] == http.post("/v1/triage", json={"states": instances}).json()["answers"]
        assert said[0].startswith("listening on 127.0.0.1:")
        assert address.startswith("0.0.0.0:")  # the service calls from outside the container
        process.terminate()
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.communicate()
