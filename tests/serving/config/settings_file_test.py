"""Options from a file: every option, and what is refused."""

import argparse

import pytest

from schemas.errors import InputError
from serving.commands import serve as command
from serving.config import vertex
from serving.config.settings import OPTIONS, ServeConfig
from serving.config.settings_file import OTHERS, read_settings


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
        "port_file": "port",
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


def test_without_a_model_the_option_is_named():
    with pytest.raises(InputError, match=r"^--model-base-path: missing: name the directory"):
        settings("--port", "1")


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


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"none.toml: cannot read: No such file"):
        read_settings(tmp_path / "none.toml")
