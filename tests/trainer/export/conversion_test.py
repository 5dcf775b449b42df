"""From a SavedModel to TFLite: weights, limits and ties survive; int8 learns from the right vignettes."""

import dataclasses
import json

import numpy as np
import pytest

from schemas.errors import InputError
from schemas.triage import Action
from tests.builders import network_of, prepared, random_network, symptoms, trained_agent, write_version
from trainer.config import NetworkConfig
from trainer.dyqn.network import bound_denials, build_network
from trainer.export.conversion import QUANTIZATIONS, calibration_states, convert
from trainer.export.policy import load_version
from trainer.export.tflite_file import BOUNDS, compare, run_in_parts
from trainer.graph.decide import OperatingPoint
from trainer.graph.mixture import Mixture
from triage.v1 import triage_pb2
from triage_runtime.litert import LiteRtModel

EXTREMES = (pytest.param("none", marks=pytest.mark.slow), "int8")  # what the others round lies between


@pytest.fixture(scope="module")
def calibration():
    return np.random.default_rng(5).integers(-1, 2, [100, 12]).astype(np.float32)


@pytest.fixture(scope="module")
def tied(without_litert, made_once):
    """Equal Q-values of Yellow, Green and ask, above those of Red and Blue, whatever the state; triages at 2."""
    network = network_of((np.ones([3, 4]), 0), (np.zeros([4, 5]), [-2, 1, 1, -2, 1]))
    with without_litert():
        trained = trained_agent(network, symptoms(*"abc"), 2)
        return load_version(made_once("tied", lambda folder: write_version(folder, trained)) / "1")


@pytest.fixture(scope="module")
def wide(without_litert, made_once):
    """A version whose weights, 4 bytes each, outweigh all else: about 549 kB; triages at 5."""
    network = build_network(12, NetworkConfig(hidden_sizes=(512, 256)), seed=0)
    trained = trained_agent(network, symptoms(*"abcdefghijkl"), 5)
    with without_litert():
        return load_version(made_once("wide", lambda folder: write_version(folder, trained)) / "1")


@pytest.fixture(scope="module")
def converted(wide, calibration):
    """The file of `wide` in each quantisation."""
    return {quantization: convert(wide, quantization, calibration) for quantization in QUANTIZATIONS}


@pytest.mark.parametrize("quantization", EXTREMES)
def test_equal_q_values_go_to_the_more_urgent_decision_and_to_triage_before_ask(tied, quantization):
    model = LiteRtModel(convert(tied, quantization, np.eye(3, dtype=np.float32)))
    for questions_asked in (0, 2):
        answer = model.run(np.array([[1, -1, 0]], np.float32), np.array([questions_asked], np.int32))
        assert answer["q_values"][0, [1, 2]].tolist() == answer["q_values"][0, [4, 4]].tolist()
        assert answer["action"].tolist() == answer["best_triage"].tolist() == [Action.YELLOW]
        assert answer["forced"].tolist() == [questions_asked == 2]


@pytest.mark.slow
def test_quantised_files_are_smaller_in_proportion_to_their_weights(converted):
    sizes = {name: len(content) for name, content in converted.items()}
    weights = 12 * 512 + 512 * 256
    assert 4 * weights < sizes["none"] < 4.2 * weights
    assert 2 * weights < sizes["float16"] < 2.2 * weights
    for name in ("dynamic", "int8"):
        assert weights < sizes[name] < 1.2 * weights


def test_int8_keeps_the_negative_side_of_selu(without_litert, tmp_path):
    # SELU(-1) is -1.11 and SELU(9) is 9.5; exp(9) is 8,103, of which one of 256 steps is 32. Were the exponential in
    # int8, SELU(-1) would be off by up to 28; the Q-value of Red, sigmoid(SELU(-1)) = 0.25, would be about 0 or 1.
    network = network_of(([[-1], [9]], 0), ([[1, 0, 0, 0, 0]], 0))
    with without_litert():
        version = load_version(write_version(tmp_path, trained_agent(network, symptoms(*"ab"))))
    states = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], np.float32)
    answer = LiteRtModel(convert(version, "int8", states)).run(states[:1], np.zeros(1, np.int32))
    assert answer["q_values"][0, 0] == pytest.approx(0.25, abs=0.05)


def test_int8_is_calibrated_for_more_than_a_vignette_lists(without_litert, tmp_path):
    """Vignettes of one piece would hold the sum below 1, a Q-value of .62; ten pieces make it 10, .99."""
    codes = tuple("abcdefghijkl")
    vignettes = [{"vignette_id": code, "present": [code], "absent": [], "decisions": ["Red"]} for code in codes]
    prepared(tmp_path, vignettes, symptoms(*codes))
    network = network_of((np.ones([12, 1]), 0), ([[0.5, 0, 0, 0, 0]], 0))
    with without_litert():
        version = load_version(write_version(tmp_path / "models", trained_agent(network, symptoms(*codes))))
    states, _ = calibration_states(tmp_path / "data", version, seed=1)
    compare(version, LiteRtModel(convert(version, "int8", states)), BOUNDS["int8"], 500, seed=2)


def test_calibration_states_are_parts_of_training_vignettes_and_random_moments(data_directory, version):
    states, origin = calibration_states(data_directory, version, seed=1)
    stats = json.loads((data_directory / "stats.json").read_text())
    assert origin == {"data_fingerprint": stats["data_fingerprint"], "split": "train", "states": 1000}
    assert states.shape == (1000, 12)  # half of them parts of 40 training vignettes, of 2 to 7 pieces
    vignettes = [json.loads(line) for line in (data_directory.parent / "vignettes.jsonl").read_text().splitlines()]
    known = [{(f"e{cell}", row[cell]) for cell in np.flatnonzero(row)} for row in states]
    whole = [{(code, 1) for code in v["present"]} | {(code, -1) for code in v["absent"]} for v in vignettes]
    listed = [any(part <= vignette for vignette in whole) for part in known]
    assert all(listed[:500])
    assert not all(listed[500:])
    assert min(map(len, known)) == 1
    assert any(part in whole for part in known)
    np.testing.assert_array_equal(states, calibration_states(data_directory, version, seed=1)[0])
    assert (states != calibration_states(data_directory, version, seed=2)[0]).any()
    other = dataclasses.replace(version, vocabulary=symptoms("z"))
    with pytest.raises(InputError, match="its vocabulary"):
        calibration_states(data_directory, other, seed=0)


@pytest.fixture(scope="module")
def handing_over(without_litert, made_once):
    generator = np.random.default_rng(1)
    codes = symptoms(*"abcdefghijkl", flags="adg")
    present, truths = generator.uniform(0.05, 0.6, [200, 12]), np.tile([0.2, 0.5, 0.4, 0.1, 1, 0.9, 0.5, 0.1], [200, 1])
    truths[:, :4] *= generator.uniform(size=[200, 1])
    patients = Mixture(*map(np.float32, (np.full(200, -np.log(200)), present, truths, present)))
    network = random_network(codes, (8,), 0.6, seed=7, patients=patients, inputs="two", outputs="probabilities")
    bound_denials(network, -np.ones([1, 12], np.int8))
    trained = trained_agent(network, codes, 5, operating_point=OperatingPoint(hand_over_from=0.2))
    with without_litert():
        return load_version(made_once("handing_over", lambda folder: write_version(folder, trained)) / "1")


@pytest.mark.parametrize("quantization", EXTREMES)
def test_a_file_hands_over_by_its_own_probabilities(handing_over, calibration, quantization):
    model = LiteRtModel(convert(handing_over, quantization, calibration))
    states = np.random.default_rng(6).integers(-1, 2, [200, 12]).astype(np.float32)
    answer = run_in_parts(model.run, states, np.full(200, 5, np.int32))
    may_be_red = (answer["best_triage"] != Action.RED) & (answer["p_appropriate"][:, Action.RED] >= 0.2)
    assert 20 < may_be_red.sum() < 180
    compare(handing_over, model, BOUNDS[quantization], 200, 0)  # which refuses a file that is further away
    np.testing.assert_array_equal(answer["deferred"], np.where(may_be_red, triage_pb2.DEFERRAL_REASON_UNSURE, 0))
