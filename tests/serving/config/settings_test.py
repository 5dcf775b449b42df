"""The settings of a server and their ranges."""

import argparse

import pytest

from schemas.errors import InputError
from serving.commands import serve as command
from serving.config import vertex
from serving.config.settings import OPTIONS, OTHERS, ServeConfig, read_settings


def test_a_server_is_closed_to_other_machines_by_default():
    assert ServeConfig().host == "127.0.0.1"
    for host in ("127.8.9.10", "::1", "[::1]", "::ffff:127.0.0.1", "LOCALHOST"):
        assert not ServeConfig(host=host).encrypted


PAIR = {"tls_certificate": "server.pem", "tls_key": "server.key"}
REMOTE = {"engine": "tensorflow-serving", "tf_serving": "host:8500"}


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"host": ""}, "--host: "),
        ({"model_name": ""}, "--model-name: "),
        ({"port": 65536}, "--port 65536: "),
        ({"poll_seconds": float("inf")}, "--poll-seconds inf: "),
        ({"metrics_port": -2}, "--metrics-port -2: "),
        ({"audit_percent": float("nan")}, "--audit-percent nan: "),
        ({"audit_files": -1}, "--audit-files -1: "),
        ({"log_format": "xml"}, "--log-format xml: "),
        ({"drain_seconds": -1.0}, "--drain-seconds -1.0: "),
        ({"grace_seconds": float("nan")}, "--grace-seconds nan: "),
        ({"engine": "other"}, "--engine other: .* saved-model, litert, tensorflow-serving"),
        ({"engine": "litert", "litert": False}, "--no-litert: not with --engine litert"),
        ({"engine": "tensorflow-serving"}, "--tf-serving '': .*HOST:PORT"),
        ({**REMOTE, "tf_serving": "host"}, "--tf-serving 'host': .*HOST:PORT"),
        ({"tf_serving": "host:8500"}, "--tf-serving needs --engine tensorflow-serving"),
        ({**REMOTE, "require_signature": "public.pem"}, "--require-signature: not with --engine tensorflow-serving"),
        ({"require_signature": "nowhere"}, "--require-signature nowhere: "),
        ({**REMOTE, "poll_seconds": 0.0}, "--poll-seconds 0: --engine tensorflow-serving needs"),
        ({"tls_certificate": "server.pem"}, "--tls-certificate and --tls-key"),
        ({"tls_client_ca": "ca.pem"}, "--tls-client-ca .*--tls-certificate"),
        ({"insecure": True, **PAIR}, "--insecure "),
        ({"fhir": "https://triage.example.org/fhir"}, "--fhir needs --http-port"),
        ({"fhir": "triage", "http_port": 0}, "--fhir triage"),
    ],
)
def test_settings_that_are_out_of_range_or_do_not_fit_are_reported_with_their_option(setting, complaint):
    with pytest.raises(InputError, match=f"^{complaint}"):
        ServeConfig(**setting)


@pytest.mark.parametrize(
    ("option", "setting"),
    [
        *(("--host", {"host": host}) for host in ("::", "10.0.0.7", "::ffff:10.0.0.7", "triage.example.org")),
        # These begin like loopback, and are names that anybody may own.
        *(("--host", {"host": host}) for host in ("127.0.0.1.nip.io", "localhost.io")),
        ("--metrics-host", {"metrics_host": "::", "metrics_port": 0}),
    ],
)
def test_other_machines_get_in_over_tls_or_with_insecure(option, setting):
    address = next(iter(setting.values()))
    with pytest.raises(InputError, match=f"^{option} {address}: .*--tls-certificate.*--tls-key.*--insecure"):
        ServeConfig(**setting)
    assert ServeConfig(**setting, **PAIR).encrypted
    assert not ServeConfig(**setting, insecure=True).encrypted


def test_metrics_for_other_machines_need_a_port():
    assert ServeConfig(metrics_host="::").metrics_port == -1


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "server.toml"
        path.write_text(text)
        return path

    return write


def settings(*words):
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.add_arguments(parser)
    parsed = parser.parse_args(words)
    command.check(parsed)
    return parsed


def test_every_option_of_the_command_line_can_stand_in_the_file(file):
    values = {
        "model_base_path": "models",
        "model_config_file": "models.config",
        "version": 3,
        "label": ["a=3"],
    }
    assert set(values) == set(OTHERS)
    values |= {field.name: field.default for field in OPTIONS}
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert {action.dest for action in parser._actions} - {"help", "config"} == set(values)

    def written(value):
        if isinstance(value, bool):
            return str(value).lower()
        return repr(value).replace("'", '"')

    lines = [f"{name.replace('_', '-')} = {written(value)}" for name, value in values.items()]
    assert read_settings(file("\n".join(lines))) == values


def test_the_command_line_overrides_the_file_wherever_it_stands(file, monkeypatch):
    path = file(
        'model-base-path = "models"\nport = 1\nlabel = ["a=1"]\nlitert = false\ngrace-seconds = 3\ninsecure = true\n'
    )
    for words in (["--config", str(path), "--port", "8500"], ["--port", "8500", "--config", str(path)]):
        parsed = settings(*words)
        assert (parsed.model_base_path, parsed.port) == ("models", 8500)  # also where it is the default
        assert (parsed.label, parsed.litert, parsed.grace_seconds, parsed.insecure) == (["a=1"], False, 3.0, True)
        assert parsed.http_port == ServeConfig.http_port
    parsed = settings("--config", str(path), "--litert", "--label", "b=2")
    assert (parsed.litert, parsed.label) == (True, ["b=2"])
    monkeypatch.setenv(vertex.PORT, "8080")
    assert settings("--config", str(path)).http_port == 8080
    assert settings("--config", str(file('model-base-path = "m"\nhttp-port = 9'))).http_port == 9


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prot = 1", "'prot': .*'port'"),
        ("http_port = 1", "'http_port': .*'http-port'"),
        ('port = "1"', "port: .*whole number, got '1'"),
        ("litert = 1", "litert: .*true or false, got 1"),
        ("grace-seconds = '1'", "grace-seconds: .*number, got '1'"),
        ("host = 1", "host: .*text.*, got 1"),
        ("label = 'a=1'", "label: .*list.*, got 'a=1'"),
        ("[server]\nport = 1", "'server'"),
        ("port = ", "not TOML: "),
    ],
)
def test_what_does_not_fit_is_refused_with_the_option(file, text, complaint):
    with pytest.raises(InputError, match=rf"server\.toml: .*{complaint}"):
        read_settings(file(text))
