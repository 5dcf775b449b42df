import argparse
import dataclasses
import json

import pytest

from schemas.errors import InputError
from trainer import config
from trainer.config import TrainConfig


def _parse(*arguments):
    parser = argparse.ArgumentParser()
    config.add_arguments(parser)
    return config.from_arguments(parser.parse_args(arguments))


def _fields():
    return [
        (section.name, field)
        for section in dataclasses.fields(TrainConfig)
        for field in dataclasses.fields(section.type)
    ]


def test_defaults_are_those_of_the_paper():
    defaults = TrainConfig()
    assert defaults.environment.max_questions == 23
    assert defaults.network.hidden_sizes == (1024, 1024)
    assert defaults.memory.batch_size == 100
    assert defaults.memory.bucket_probabilities == (0.01, 0.04, 0.15, 0.80)
    assert defaults.memory.priority_decay == 0.999
    assert defaults.loop.burn_in_steps == 1000
    assert defaults.loop.window_episodes == 20
    exploration = defaults.exploration
    assert (exploration.ask_noise_initial, exploration.ask_noise_final) == (0.05, 0.001)
    assert exploration.ask_noise_episodes == 3000


def test_every_hyper_parameter_is_a_flag_of_its_own():
    names = [field.name for _, field in _fields()]
    assert len(names) == len(set(names))
    for section, field in _fields():
        value = field.default
        words = [str(item) for item in value] if isinstance(value, tuple) else [str(value)]
        assert getattr(getattr(_parse("--" + field.name.replace("_", "-"), *words), section), field.name) == value


def test_flags_override_the_file_which_overrides_the_defaults(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"memory": {"batch_size": 200, "memory_capacity": 5000}}))
    found = _parse("--config", str(path), "--batch-size", "50", "--hidden-sizes", "16", "8")
    assert found.memory.batch_size == 50
    assert found.memory.memory_capacity == 5000
    assert found.network.hidden_sizes == (16, 8)
    assert found.memory.priority_decay == 0.999


def test_round_trip_through_the_saved_form():
    found = _parse("--ask-query", "and", "--learning-rate", "0.01", "--bucket-thresholds", "0.1", "0.2", "0.3")
    assert TrainConfig.from_dict(json.loads(json.dumps(found.to_dict()))) == found


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"memry": {}}, "unknown key 'memry': did you mean 'memory'"),
        ({"memory": {"batchsize": 1}}, "memory: unknown key 'batchsize': did you mean 'batch_size'"),
        ({"memory": {"batch_size": "100"}}, "memory.batch_size: expected a whole number, not '100'"),
        ({"memory": {"batch_size": True}}, "expected a whole number, not True"),
        ({"memory": {"batch_size": 0}}, "batch_size must be at least 1"),
        ({"memory": 3}, "memory: expected an object"),
        ({"network": {"hidden_sizes": []}}, "expected a list of numbers"),
        ({"network": {"hidden_sizes": [0]}}, "hidden_sizes must be at least 1"),
        ({"target": {"ask_query": "xor"}}, "target.ask_query: expected one of or, and"),
        ({"memory": {"bucket_probabilities": [0.5, 0.4]}}, "sum to 1"),
        ({"memory": {"bucket_thresholds": [0.3, 0.2, 0.4]}}, "must rise"),
        ({"memory": {"bucket_thresholds": [0.3]}}, "one fewer than buckets"),
        ({"memory": {"priority_decay": 1.5}}, "priority_decay"),
        ({"optimiser": {"learning_rate": 0}}, "learning_rate must be positive"),
        ({"optimiser": {"weight_decay": -0.1}}, "weight_decay must be 0 or more"),
        ({"optimiser": {"algorithm": "rmsprop"}}, "optimiser.algorithm: expected one of adam, sgd"),
        ({"loop": {"burn_in_steps": 0}}, "burn_in_steps must be at least 1"),
    ],
)
def test_a_faulty_configuration_says_where(values, message):
    with pytest.raises(InputError, match=message):
        TrainConfig.from_dict(values, "file.json")


@pytest.mark.parametrize("content", ["{", "[1]", "\ufffe"])
def test_a_file_that_is_no_configuration_is_named(tmp_path, content):
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"config\.json"):
        config.read_json(path)
    with pytest.raises(InputError, match="cannot read"):
        config.read_json(tmp_path / "missing.json")
