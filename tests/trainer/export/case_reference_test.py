"""What an exported version leaves for the comparison of served cases."""

import numpy as np
import pytest

from schemas import directories
from schemas.evidence import Vocabulary
from schemas.reference import Reference
from tests.builders import network_of, prepared, symptoms, trained_agent
from trainer.data.tfrecord import DataDirectory
from trainer.export.policy import load_version
from trainer.export.publish import Evaluation, Target, case_reference, export

pytestmark = pytest.mark.usefixtures("light_exports")

VIGNETTES = (
    ("train", ["cough"], ["fever"]),
    ("train", ["cough", "rash"], ["fever", "pain"]),
    ("test", ["rash"], []),
)


@pytest.fixture(scope="module")
def vocabulary():
    return symptoms("cough", "fever", "pain", "rash")


@pytest.fixture(scope="module")
def data(vocabulary, tmp_path_factory):
    folder = tmp_path_factory.mktemp("vignettes")
    lines = [
        {"vignette_id": f"v{row}", "present": present, "absent": absent, "decisions": ["Red"], "split": split}
        for row, (split, present, absent) in enumerate(VIGNETTES)
    ]
    return prepared(folder, lines, vocabulary)


def always(best, vocabulary, ask=0.0):
    """An agent whose decision is always `best`, and which asks first where `ask` is above 3."""
    biases = np.full(5, -3.0)
    biases[best], biases[4] = 3.0, ask
    network = network_of((np.zeros([len(vocabulary), 5]), biases))
    return trained_agent(network, vocabulary, training={"steps": 1, "episodes": 1})


def exported(trained, data, tmp_path):
    evaluation = Evaluation(data, orders=1, seed=0)
    return export(trained, tmp_path, Target(tmp_path / "models", None, "triage"), evaluation).folder


def test_an_agent_that_decides_at_once_knows_one_piece_of_each_case(vocabulary, data, tmp_path):
    folder = exported(always(1, vocabulary), data, tmp_path)
    reference = Reference.load(folder / directories.REFERENCE)
    assert reference.cases == 2  # of the training split
    # One of two pieces of the one vignette, one of four of the other.
    assert reference.present == {"cough": 0.75, "rash": 0.25}
    assert reference.absent == {"fever": 0.75, "pain": 0.25}
    assert reference.urgencies == {"Red": 0, "Yellow": 2, "Green": 0, "Blue": 0}
    assert reference.pieces == {1: 2}


def test_data_with_evidence_that_the_version_does_not_know_give_no_reference(vocabulary, data, tmp_path):
    smaller = Vocabulary(entry for entry in vocabulary if entry.code != "pain")  # a training vignette has it
    version = load_version(exported(always(0, smaller), data, tmp_path))
    assert case_reference(version, DataDirectory.open(data), seed=0) is None
    assert not (version.folder / directories.REFERENCE).exists()
