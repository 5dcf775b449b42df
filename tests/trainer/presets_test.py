import argparse
import dataclasses
import json

import pytest

from schemas.errors import InputError
from trainer import presets
from trainer.config import NetworkConfig, TrainConfig


def _parse(*arguments):
    parser = argparse.ArgumentParser()
    presets.add_arguments(parser)
    return presets.from_arguments(parser.parse_args(arguments))


def _fields():
    return [
        (section.name, field)
        for section in dataclasses.fields(TrainConfig)
        for field in dataclasses.fields(section.type)
    ]


def test_the_preset_paper_is_algorithm_1_as_written():
    defaults = presets.preset("paper")
    assert defaults == TrainConfig()
    environment, network, target = defaults.environment, defaults.network, defaults.target
    assert (environment.environments, environment.episodes) == (1, "order")
    assert (network.activation, network.inputs, network.networks, network.outputs) == ("selu", "signed", 1, "q_values")
    assert (network.dropout, target.loss, target.ask_query) == (0.0, "squared", "or")
    assert (target.best_triage_over, target.ask_successor) == ("appropriate", "counterfactual")
    assert (defaults.validation.held_out_share, defaults.validation.set_apart) == (0.0, 0.0)
    assert defaults.environment.max_questions == 23
    assert defaults.network.hidden_sizes == (1024, 1024)
    assert (defaults.memory.batch_size, defaults.memory.memory_capacity) == (100, 50_000)
    assert defaults.memory.bucket_probabilities == (0.01, 0.04, 0.15, 0.80)
    assert defaults.memory.priority_decay == 0.999
    assert defaults.memory.bucket_thresholds == (0.001, 0.003, 0.01)
    optimiser, loop = defaults.optimiser, defaults.loop
    assert (optimiser.algorithm, optimiser.learning_rate) == ("sgd", 0.02)
    assert (optimiser.schedule, optimiser.average) == ("constant", 0.0)
    assert (loop.steps, loop.burn_in_steps, loop.collect_interval) == (6000, 1000, 1)
    exploration = defaults.exploration
    assert (exploration.ask_noise_initial, exploration.ask_noise_final) == (0.05, 0.001)
    assert exploration.ask_noise_episodes == 3000


def test_every_hyper_parameter_is_a_flag_of_its_own():
    names = [field.name for _, field in _fields()]
    assert len(names) == len(set(names))
    for section, field in _fields():
        value = getattr(getattr(presets.preset("default"), section), field.name)
        if value == ():  # a flag that takes several values takes at least one
            continue
        words = [str(item) for item in value] if isinstance(value, tuple) else [str(value)]
        assert getattr(getattr(_parse("--" + field.name.replace("_", "-"), *words), section), field.name) == value


def test_flags_override_the_file_which_overrides_the_preset(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"memory": {"batch_size": 200, "memory_capacity": 5000}}))
    config = _parse("--config", str(path), "--batch-size", "50", "--hidden-sizes", "16", "8")
    assert config.memory.batch_size == 50
    assert config.memory.memory_capacity == 5000
    assert config.network.hidden_sizes == (16, 8)
    assert config.memory.priority_decay == 0.999
    assert config.environment == presets.preset("default").environment


def test_a_file_may_name_the_preset_which_a_flag_overrides(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"preset": "paper", "network": {"hidden_sizes": [8]}}))
    config = _parse("--config", str(path))
    assert config == dataclasses.replace(TrainConfig(), network=NetworkConfig(hidden_sizes=(8,)))
    config = _parse("--config", str(path), "--preset", "default")
    expected = presets.preset("default")
    assert config == dataclasses.replace(expected, network=dataclasses.replace(expected.network, hidden_sizes=(8,)))
    path.write_text(json.dumps({"preset": "papers"}))
    with pytest.raises(InputError, match=r"'papers': .*default, paper"):
        _parse("--config", str(path))


def test_the_number_of_steps_follows_from_that_of_the_vignettes_unless_it_is_given():
    # 13 steps for each square root of the number of vignettes, after the burn-in of 100: 100 + 13 * 100.
    assert presets.preset("default").resolved(10_000).loop.steps == 1_400
    given = _parse("--steps", "70")
    assert given.resolved(1_600) is given
    assert presets.preset("paper").resolved(1_600).loop.steps == 6_000
