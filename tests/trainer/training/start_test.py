"""The agent that a training starts from: which codes match, and what is refused."""

import numpy as np
import pytest

from schemas.errors import InputError
from tests.builders import symptoms, trained_agent
from trainer.config import NetworkConfig, TrainConfig
from trainer.dyqn.network import build_network
from trainer.graph.mixture import Mixture
from trainer.training import set_apart, start
from trainer.training.set_apart import Seen
from trainer.training.start import Start

SETTINGS = {"hidden_sizes": [6, 5], "activation": "relu", "inputs": "two", "networks": 2, "outputs": "probabilities"}
CONFIG = TrainConfig.from_dict({"network": SETTINGS})
NOBODY = Seen(*np.zeros([2, 0], np.uint64))


@pytest.fixture
def trained(monkeypatch, tmp_path):
    (tmp_path / "job").mkdir()
    set_apart.prepare(tmp_path / "job", None, True, NOBODY)
    model = build_network(3, CONFIG.network, seed=1)
    made = {"config": CONFIG.to_dict(), "data_fingerprint": "sha256:theirs", "training": {"steps": 40, "episodes": 9}}
    trained = trained_agent(model, symptoms("cough", "fever", "rash"), **made)
    monkeypatch.setattr(start, "load_network", lambda _: trained)
    return trained


def test_codes_are_matched_by_name_and_the_others_named(trained, tmp_path):
    begin = start.read(tmp_path / "job", symptoms("itch", "rash", "cough"), CONFIG)
    assert begin.places.tolist() == [-1, 2, 0]
    assert all(part in begin.description for part in (str(tmp_path / "job"), "2 of 3", "itch", "fever"))
    assert begin.identity == "sha256:theirs after 40 steps"
    same = start.read(tmp_path / "job", trained.vocabulary, CONFIG)
    assert same.description.endswith("3 of 3 codes match")


def test_an_agent_of_another_kind_or_without_a_common_code_is_refused(trained, tmp_path):
    wider = TrainConfig.from_dict({"network": SETTINGS | {"hidden_sizes": [7, 5]}})
    with pytest.raises(InputError, match=r"hidden_sizes \(6, 5\) there, \(7, 5\)"):
        start.read(tmp_path, trained.vocabulary, wider)
    with pytest.raises(InputError, match=r"none of .*'itch'"):
        start.read(tmp_path, symptoms("itch"), CONFIG)


@pytest.mark.parametrize("sizes", [(6, 5), ()], ids=["two", "none"])  # hidden layers
@pytest.mark.parametrize("inputs", ["signed", "two"])
def test_the_network_says_what_the_other_says_whatever_the_order_of_codes(inputs, sizes):
    config = NetworkConfig(hidden_sizes=sizes, inputs=inputs, networks=2, outputs="probabilities")
    other, network = build_network(3, config, seed=1), build_network(4, config, seed=2)
    Start(other, np.array([2, -1, 0, 1]), "", "", NOBODY, None).initialise(network)
    theirs = np.random.default_rng(0).integers(-1, 2, (20, 3)).astype(np.float32)
    ours = theirs[:, [2, 0, 0, 1]]
    ours[:, 1] = 1  # a code that the other does not know says nothing
    for head, values in other(theirs).items():
        np.testing.assert_allclose(network(ours)[head], values, atol=1e-6)


def test_an_agent_that_corrects_a_mixture_of_patients_and_one_that_does_not_are_no_start_for_each_other():
    patients = Mixture(*(np.full(shape, 0.5, np.float32) for shape in ((2,), (2, 3), (2, 8), (2, 3))))
    plain, corrects = (build_network(symptoms("a", "b", "c"), CONFIG.network, 0, each) for each in (None, patients))
    for network, other, said in ((plain, corrects, "the data here"), (corrects, plain, "that agent")):
        with pytest.raises(InputError, match=f"--start-from: {said} .*fewer than 75 vignettes"):
            Start(other, np.arange(3), "", "", NOBODY, None).initialise(network)
