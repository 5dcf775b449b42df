import json

import pytest

from schemas.errors import InputError
from trainer.config import MemoryConfig, TargetConfig, TrainConfig


def test_round_trip_through_the_saved_form():
    target, memory = TargetConfig(ask_query="and"), MemoryConfig(bucket_thresholds=(0.1, 0.2, 0.3))
    config = TrainConfig(target=target, memory=memory)
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"memry": {}}, "unknown key 'memry': did you mean 'memory'"),
        ({"memory": {"batchsize": 1}}, "memory: unknown key 'batchsize': did you mean 'batch_size'"),
        ({"memory": {"batch_size": "100"}}, "memory.batch_size: expected a whole number, not '100'"),
        ({"memory": {"batch_size": True}}, "expected a whole number, not True"),
        ({"memory": {"batch_size": 0}}, "batch_size must be at least 1"),
        ({"memory": 3}, "memory: expected an object"),
        ({"network": {"hidden_sizes": 8}}, "expected a list of numbers"),
        ({"network": {"hidden_sizes": [0]}}, "hidden_sizes must be at least 1"),
        ({"target": {"ask_query": "xor"}}, "target.ask_query: expected one of or, and"),
        ({"memory": {"bucket_probabilities": [0.5, 0.4]}}, "sum to 1"),
        ({"memory": {"bucket_thresholds": [0.3, 0.2, 0.4]}}, "must rise"),
        ({"memory": {"bucket_thresholds": [0.3]}}, "one fewer than buckets"),
        ({"memory": {"priority_decay": 1.5}}, "priority_decay"),
        ({"optimiser": {"learning_rate": 0}}, "learning_rate must be positive"),
        ({"optimiser": {"weight_decay": 0.1}}, "optimiser: unknown key 'weight_decay'"),
        ({"optimiser": {"algorithm": "rmsprop"}}, "optimiser.algorithm: expected one of adam, sgd"),
        ({"loop": {"burn_in_steps": 0}}, "burn_in_steps must be at least 1"),
        ({"loop": {"steps": -1}}, "steps must be 0 or more"),
        ({"network": {"networks": 0}}, "networks must be at least 1"),
        ({"network": {"activation": "gelu"}}, "network.activation: expected one of selu, relu"),
        ({"network": {"dropout": 1.0}}, r"dropout must lie in \[0, 1\)"),
        ({"network": {"dropout": -0.1}}, r"dropout must lie in \[0, 1\)"),
        ({"validation": {"set_apart": 0.6}}, r"set_apart must lie in"),
        ({"validation": {"held_out_share": 0.6}}, r"held_out_share must lie in \[0, 0.5\]"),
        ({"network": {"text_features": 8}}, r"text_features must be 0, or 1 or more with inputs two"),
        ({"environment": {"masking": 1.0}}, r"masking must lie in \[0, 1\)"),
        ({"optimiser": {"average": 1.0}}, r"average must lie in \[0, 1\)"),
        ({"environment": {"environments": 21}}, "window_episodes must be at least environments"),
        ({"environment": {"environments": 9}, "memory": {"memory_capacity": 8}}, "memory_capacity must be at least"),
    ],
)
def test_a_faulty_configuration_says_where(values, message):
    with pytest.raises(InputError, match=message):
        TrainConfig.from_dict(values, "file.json")


def test_a_setting_that_is_no_more_is_ignored_where_it_changed_nothing():
    assert TrainConfig.from_dict({"optimiser": {"weight_decay": 0.0}}) == TrainConfig()
