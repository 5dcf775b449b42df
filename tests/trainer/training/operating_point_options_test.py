"""The options that set how an agent decides, on a network and held-out vignettes made by hand."""

import argparse
import dataclasses
import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from schemas.errors import InputError
from tests.builders import symptoms, trained_agent, write_version
from trainer.graph.decide import ASK_POINTS, OperatingPoint
from trainer.graph.operating_point import HeldOutOutputs
from trainer.training import operating_point_options
from trainer.training.operating_point_options import OperatingPointOptions
from triage_runtime.command_line import options

VOCABULARY = symptoms("cough", "fever")
Q_VALUES = [0.4, 0.5, 0.1, 0.1, 0.2]
STOPS = [0.0] * (len(ASK_POINTS) + 1)
YELLOW = [0.2, 0.7, 0.0, 0.0, 1.0, 0.7, 0.0, 0.0, *STOPS]
"""P(appropriate), P(safe), Q(ask): Yellow is chosen as long as .7 + .7 w > .2 + w, for weights below 1.67; then Red."""
GREEN = [0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, *STOPS]


def network(outputs):
    """A network that answers `outputs` whatever the state."""
    layer = keras.layers.Dense(
        len(outputs), kernel_initializer="zeros", bias_initializer=keras.initializers.Constant(np.array(outputs))
    )
    return keras.Sequential([keras.Input([2]), layer])


def held_out():
    """100 vignettes with one piece of evidence each: 20 that are Red, and 80 that are certainly Green."""
    rows = [Q_VALUES + YELLOW] * 20 + [Q_VALUES + GREEN] * 80
    counts = [[3, 0, 0, 0]] * 20 + [[0, 0, 3, 0]] * 80
    return HeldOutOutputs(np.array(rows, np.float32), np.ones(100, np.int64), np.array(counts))


MEASURED = {"metrics": {"safety": 0.9}}
"""At the operating point that training chose."""


@pytest.fixture
def trained():
    model = network(Q_VALUES + YELLOW)
    point = OperatingPoint(0.5, price=0.008)
    return trained_agent(model, VOCABULARY, operating_point=point, held_out=held_out(), metrics=MEASURED)


def parsed(*given):
    parser = argparse.ArgumentParser(exit_on_error=False)
    operating_point_options.add_arguments(parser)
    return options.read(OperatingPointOptions, parser.parse_args(given))


def apply(given, trained):
    return operating_point_options.apply(parsed(*given), trained, pathlib.Path("job"))


@pytest.mark.parametrize(
    ("given", "point", "chosen"),
    [
        ([], OperatingPoint(0.5, price=0.008), "default"),
        # With one piece of evidence each stopping costs nothing, so that the highest price suits any other weight.
        (["--safety-weight", "4"], OperatingPoint(4.0, price=0.032), "given"),
        (["--safety-weight", "0.5"], OperatingPoint(0.5, price=0.008), "given"),
        (["--safety-weight", "4", "--question-price", "0.002"], OperatingPoint(4.0, price=0.002), "given"),
        (["--question-price", "0.002"], OperatingPoint(0.5, price=0.002), "given"),
        (["--question-price", "0.002", "--sure-enough", "0.9"], OperatingPoint(0.5, 0.9, 0.002), "given"),
        (["--safety-weight", "4", "--sure-enough", "0.8"], OperatingPoint(4.0, 0.8, 0.032), "given"),
    ],
)
def test_the_options_set_the_operating_point(trained, given, point, chosen):
    result = apply(given, trained)
    assert (result.operating_point, result.point_chosen) == (point, chosen)
    assert result.metrics == ({} if given else MEASURED)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (["--safety-weight", "-1"], "--safety-weight -1: expected a number from 0"),
        (["--safety-weight", "nan"], "--safety-weight nan"),
        (["--sure-enough", "0"], "--sure-enough 0: expected a number above 0"),
        (["--sure-enough", "nan"], "--sure-enough nan"),
        (["--question-price", "0.05"], "--question-price 0.05: expected a number from 0.001 to 0.032"),
        (["--question-price", "nan"], "--question-price nan"),
    ],
)
def test_values_out_of_range_are_refused(trained, given, complaint):
    with pytest.raises(InputError, match=complaint):
        apply(given, trained)


def test_an_operating_point_needs_probabilities(trained):
    plain = dataclasses.replace(trained, model=network(Q_VALUES))
    with pytest.raises(InputError, match="--safety-weight: job has a network without probabilities"):
        apply(["--safety-weight", "2"], plain)


def test_the_chosen_operating_point_decides_in_the_version_and_stands_in_its_manifest(
    trained, without_litert, tmp_path
):
    with without_litert():
        folder = write_version(tmp_path, apply(["--safety-weight", "2"], trained))
    answer = tf.saved_model.load(str(folder)).signatures["state"]
    outputs = answer(states=tf.constant([[0.0, 1]]), questions_asked=tf.constant([0]))
    assert outputs["action_label"].numpy().tolist() == [b"Red"]  # Yellow, at the weight that training chose
    decision = json.loads((folder / "manifest.json").read_text())["decision"]
    assert (decision["probabilities"], decision["safety_weight"], decision["chosen"]) == (True, 2.0, "given")
    assert (decision["held_out"]["vignettes"], decision["held_out"]["under_triage_of_red"]) == (100, 0.0)
