"""`triage health`, against the real server."""

import json

import triage_cli
from tests.builders import served

LONG = ["--timeout", "30"]


def test_the_exit_code_is_0_for_a_serving_server_also_in_json(server, capsys):
    assert triage_cli.main(["health", "--server", server.address, *LONG]) == 0
    assert capsys.readouterr().out == "SERVING\n"
    assert triage_cli.main(["health", "--server", server.address, "--json", "-", *LONG]) == 0
    assert json.loads(capsys.readouterr().out) == {"status": "SERVING"}


def test_the_exit_code_is_1_for_a_server_without_a_model(tmp_path, capsys):
    with served(tmp_path) as server:
        assert triage_cli.main(["health", "--server", server.address, *LONG]) == 1
    assert capsys.readouterr().out == "NOT_SERVING\n"


def test_the_exit_code_is_1_without_a_server_and_the_message_helps(capsys):
    assert triage_cli.main(["health", "--server", "127.0.0.1:1", "--timeout", "30"]) == 1
    assert "no server at 127.0.0.1:1: start one with `triage serve" in capsys.readouterr().err


def test_a_server_over_tls_is_asked_over_tls(serving, tls, certificates, capsys):
    with serving(**tls) as server:
        assert triage_cli.main(["health", "--server", server.address, "--tls-ca", certificates.ca, *LONG]) == 0
        assert triage_cli.main(["health", "--server", server.address, *LONG]) == 1
        assert "it may require TLS" in capsys.readouterr().err
