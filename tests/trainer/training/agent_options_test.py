"""The options about how an agent decides, on a network made by hand: what they set, and what they refuse."""

import argparse
import json
import pathlib

import keras
import pytest
import tensorflow as tf

from schemas.errors import InputError
from tests.builders import symptoms, trained_agent, write_version
from trainer.graph.decide import NEUTRAL, OperatingPoint
from trainer.training.agent_options import OperatingPointOptions, PromiseOptions, read_rules
from triage_runtime.command_line import options

VOCABULARY = symptoms("fever")
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
    options.add_arguments(parser, OperatingPointOptions)
    return options.read(OperatingPointOptions, parser.parse_args(given)).apply(trained, pathlib.Path("job"))


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


def parsed(*given):
    parser = argparse.ArgumentParser(exit_on_error=False)
    options.add_arguments(parser, PromiseOptions)
    return options.read(PromiseOptions, parser.parse_args(given))


def test_risks_have_their_levels():
    assert parsed() == PromiseOptions({}, 0.9)
    given = parsed("--promise", "red=.05, over=0.4", "--confidence", "0.95")
    assert given == PromiseOptions({"red": 0.05, "over": 0.4}, 0.95)


@pytest.mark.parametrize("text", ["", "red", "red=", "red=1", "red=0", "red=x", "green=.1", "red=.1,red=.2", "red=-.1"])
def test_what_is_no_risk_with_a_share_is_refused(text):
    with pytest.raises(argparse.ArgumentError, match="expected RISK=SHARE"):
        parsed("--promise", text)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InputError, match="--confidence 1: expected"):
        parsed("--confidence", "1")


def test_a_file_is_read_and_named(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[hot]\nreason = "Hot."\nurgency = "Green"\nall.present = ["fever"]\n')
    rules = read_rules(path, VOCABULARY)
    assert [rule.rule_id for rule in rules] == ["hot"]
    assert rules.source == str(path)


@pytest.mark.parametrize(
    ("given", "warning"), [(None, "no safety rules: the default ones are for"), (pathlib.Path("none"), "")]
)
def test_a_warning_says_that_no_rules_apply_unless_that_was_asked_for(given, warning, capsys):
    assert len(read_rules(given, VOCABULARY)) == 0
    printed = capsys.readouterr().err
    assert printed.startswith(warning)
    assert bool(printed) == bool(warning)
