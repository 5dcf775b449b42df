import json

import pytest

from schemas.errors import InputError
from trainer.config import MemoryConfig, TargetConfig, TrainConfig

INTERVIEWS = {"environment": {"episodes": "interview"}, "network": {"outputs": "probabilities"}}


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
        ({"environment": {"episodes": "interview"}}, "episodes interview .*outputs probabilities"),
        ({**INTERVIEWS, "exploration": {"ask_noise_initial": 0.1}}, "ask_noise_initial.*episodes order"),
        ({**INTERVIEWS, "target": {"best_triage_over": "all"}}, "best_triage_over.*outputs q_values"),
        ({"target": {"bootstrap": 0.5}}, "bootstrap.*outputs probabilities"),
        ({"memory": {"bucket_probabilities": [1], "bucket_thresholds": [], "priority_decay": 0.9}}, "priority_decay"),
        ({"environment": {"environments": 9}, "memory": {"memory_capacity": 8}}, "memory_capacity"),
    ],
)
def test_a_faulty_configuration_says_where(values, field):
    with pytest.raises(InputError, match=field):
        TrainConfig.from_dict(values, "file.json")
