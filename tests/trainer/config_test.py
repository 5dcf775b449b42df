import json

import pytest

from schemas.errors import InputError
from trainer.config import MemoryConfig, TargetConfig, TrainConfig


def test_round_trip_through_the_saved_form():
    target, memory = TargetConfig(ask_query="and"), MemoryConfig(bucket_thresholds=(0.1, 0.2, 0.3))
    config = TrainConfig(target=target, memory=memory)
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"memry": {}}, "'memry'.*'memory'"),
        ({"memory": {"batchsize": 1}}, "memory: .*'batchsize'.*'batch_size'"),
        ({"memory": {"batch_size": "100"}}, "memory.batch_size"),
        ({"memory": {"batch_size": True}}, "memory.batch_size"),
        ({"memory": {"batch_size": 0}}, "batch_size"),
        ({"memory": 3}, "memory"),
        ({"network": {"hidden_sizes": 8}}, "network.hidden_sizes"),
        ({"network": {"hidden_sizes": [0]}}, "hidden_sizes"),
        ({"target": {"ask_query": "xor"}}, "target.ask_query"),
        ({"memory": {"bucket_probabilities": [0.5, 0.4]}}, "bucket_probabilities"),
        ({"memory": {"bucket_thresholds": [0.3, 0.2, 0.4]}}, "bucket_thresholds"),
        ({"optimiser": {"learning_rate": 0}}, "learning_rate"),
        ({"optimiser": {"weight_decay": 0.1}}, "optimiser: .*'weight_decay'"),
        ({"loop": {"steps": -1}}, "steps"),
        ({"network": {"dropout": 1.0}}, "dropout"),
        ({"target": {"price": 1.0}}, "price"),
        ({"target": {"safety_weight": -1.0}}, "safety_weight"),
        ({"environment": {"episodes": "interview"}}, "episodes interview needs outputs probabilities"),
        ({"environment": {"environments": 21}}, "window_episodes.*environments"),
        ({"environment": {"environments": 9}, "memory": {"memory_capacity": 8}}, "memory_capacity"),
    ],
)
def test_a_faulty_configuration_says_where(values, field):
    with pytest.raises(InputError, match=field):
        TrainConfig.from_dict(values, "file.json")
