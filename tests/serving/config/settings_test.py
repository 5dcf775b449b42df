"""The settings of a server and their ranges."""

import argparse

import pytest

from schemas.errors import InputError
from serving.commands import serve as command
from serving.config import vertex
from serving.config.settings import OPTIONS, OTHERS, ServeConfig, read_settings


def test_a_server_is_closed_to_other_machines_by_default():
    assert ServeConfig().host == "127.0.0.1"


PAIR = {"tls_certificate": "server.pem", "tls_key": "server.key"}
REMOTE = {"engine": "tensorflow-serving", "tf_serving": "host:8500"}


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"host": ""}, "--host: expected"),
        ({"model_name": ""}, "--model-name: expected"),
        ({"port": 65536}, "--port 65536: expected"),
        ({"poll_seconds": float("inf")}, "--poll-seconds inf: expected"),
        ({"metrics_port": -2}, "--metrics-port -2: expected"),
        ({"audit_percent": float("nan")}, "--audit-percent nan: expected"),
        ({"audit_files": -1}, "--audit-files -1: expected"),
        ({"log_format": "xml"}, "--log-format xml: expected"),
        ({"drain_seconds": -1.0}, "--drain-seconds -1.0: expected"),
        ({"grace_seconds": float("nan")}, "--grace-seconds nan: expected"),
        ({"engine": "other"}, "--engine other: expected one of saved-model, litert, tensorflow-serving"),
        ({"engine": "litert", "litert": False}, "--no-litert: not with --engine litert"),
        ({"engine": "tensorflow-serving"}, "--tf-serving '': expected the HOST:PORT"),
        ({**REMOTE, "tf_serving": "host"}, "--tf-serving 'host': expected the HOST:PORT"),
        ({"tf_serving": "host:8500"}, "--tf-serving needs --engine tensorflow-serving"),
        ({**REMOTE, "require_signature": "public.pem"}, "--require-signature: not with --engine tensorflow-serving"),
        ({"require_signature": "nowhere"}, "--require-signature nowhere: cannot read"),
        ({**REMOTE, "poll_seconds": 0.0}, "--poll-seconds 0: --engine tensorflow-serving needs"),
        ({"tls_certificate": "server.pem"}, "--tls-certificate and --tls-key need each other"),
        ({"tls_client_ca": "ca.pem"}, "--tls-client-ca needs TLS: also give --tls-certificate"),
        ({"insecure": True, **PAIR}, "--insecure means plain text: leave out this option"),
    ],
)
def test_settings_that_are_out_of_range_or_do_not_fit_are_reported_with_their_option(setting, complaint):
    with pytest.raises(InputError, match=f"^{complaint}"):
        ServeConfig(**setting)


@pytest.mark.parametrize("host", ["::", "10.0.0.7", "triage.example.org"])
def test_other_machines_get_in_over_tls_or_with_insecure(host):
    with pytest.raises(InputError, match=f"^--host {host}: .* give --tls-certificate and --tls-key, or --insecure"):
        ServeConfig(host=host)
    assert ServeConfig(host=host, **PAIR).encrypted
    assert not ServeConfig(host=host, insecure=True).encrypted


def test_metrics_stay_on_this_machine_unless_encrypted_or_insecure():
    with pytest.raises(InputError, match=r"^--metrics-host ::: .* give --tls-certificate and --tls-key, or --insecure"):
        ServeConfig(metrics_port=0, metrics_host="::")
    assert ServeConfig(metrics_host="::").metrics_port == -1  # no port
    assert ServeConfig(metrics_port=0, metrics_host="::", **PAIR).encrypted
    assert not ServeConfig(metrics_port=0, metrics_host="::", insecure=True).encrypted


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
        ("prot = 1", "server.toml: no option 'prot': did you mean 'port'?"),
        ("http_port = 1", "no option 'http_port': did you mean 'http-port'?"),
        ('port = "1"', "server.toml: port: expected a whole number, got '1'"),
        ("litert = 1", "litert: expected true or false, got 1"),
        ("grace-seconds = '1'", "grace-seconds: expected a number, got '1'"),
        ("host = 1", "host: expected a text in quotes, got 1"),
        ("label = 'a=1'", "label: expected a list of texts in quotes, got 'a=1'"),
        ("[server]\nport = 1", "no option 'server'"),
        ("port = ", "server.toml: not TOML: "),
    ],
)
def test_what_does_not_fit_is_refused_with_the_option(file, text, complaint):
    with pytest.raises(InputError) as error:
        read_settings(file(text))
    assert complaint in str(error.value)
