"""The option that makes an agent ask longer, on a network made by hand."""

import argparse
import json
import pathlib

import keras
import pytest
import tensorflow as tf

from schemas.errors import InputError
from tests.builders import symptoms, trained_agent, write_version
from trainer.graph.decide import NEUTRAL, OperatingPoint
from trainer.training import operating_point_options
from trainer.training.operating_point_options import OperatingPointOptions
from triage_runtime.command_line import options

Q_VALUES = {"q": [0.2, 0.85, 0.1, 0.1, 0.3]}
"""Yellow is worth .85, more than asking."""
PROBABILITIES = {"appropriate": [0.2, 0.7, 0.0, 0.0], "safe": [1.0, 0.9, 0.0, 0.0]}


def agent(heads):
    """An agent that answers `heads` whatever the state, and was measured at its own operating point."""
    states = keras.Input([2])
    zeros = {head: keras.layers.Dense(len(values), "relu", name=head)(0 * states) for head, values in heads.items()}
    network = keras.Model(states, zeros)
    for head, values in heads.items():
        network.get_layer(head).bias.assign(values)
    return trained_agent(network, symptoms("cough", "fever"), metrics={"safety": 0.9})


def apply(trained, *given):
    parser = argparse.ArgumentParser(exit_on_error=False)
    operating_point_options.add_arguments(parser)
    read = options.read(OperatingPointOptions, parser.parse_args(given))
    return operating_point_options.apply(read, trained, pathlib.Path("job"))


def test_a_floor_under_asking_is_the_operating_point_at_which_nothing_is_measured_yet():
    trained = agent(Q_VALUES | PROBABILITIES)
    assert apply(trained) is trained
    assert trained.operating_point == NEUTRAL
    careful = apply(trained, "--sure-enough", "0.9")
    assert (careful.operating_point, careful.point_chosen, careful.metrics) == (OperatingPoint(0.9), "given", {})


@pytest.mark.parametrize("value", ["0", "1.01", "nan"])
def test_a_floor_that_no_q_value_can_have_is_refused(value):
    with pytest.raises(InputError, match=f"--sure-enough {value}"):
        apply(agent(Q_VALUES | PROBABILITIES), "--sure-enough", value)


def test_the_floor_decides_in_the_version_and_stands_in_its_manifest(without_litert, tmp_path):
    with without_litert():
        folder = write_version(tmp_path, apply(agent(Q_VALUES | PROBABILITIES), "--sure-enough", "0.9"))
    answer = tf.saved_model.load(str(folder)).signatures["state"]
    outputs = answer(states=tf.constant([[0.0, 1]]), questions_asked=tf.constant([0]))
    assert outputs["action_label"].numpy().tolist() == [b"ask"]
    decision = json.loads((folder / "manifest.json").read_text())["decision"]
    assert (decision["sure_enough"], decision["chosen"]) == (0.9, "given")
