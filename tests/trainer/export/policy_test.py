"""A SavedModel version as a policy: it decides as its network does, and fails with a reason."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from schemas.errors import InputError
from schemas.triage import Action
from tests.builders import arrays_of, network_of, symptoms, trained_agent, write_version
from trainer.dyqn import rollout
from trainer.export.policy import load_version, version_outcomes

ASKS_FIRST = [0, 0, 0, 0, 2]  # logits of Red, Yellow, Green, Blue, ask
TO_RED, TO_GREEN, NOTHING = [9, 0, 0, 0, 0], [0, 0, 9, 0, 0], [0, 0, 0, 0, 0]


CODES = symptoms(*"abcdef")


def saying(biases, first=NOTHING, last=NOTHING, cells=6):
    """Logits `biases`, plus about `first` where evidence 0 is present, plus `last` where the last evidence is."""
    hidden = np.zeros([cells, 2])
    hidden[0, 0] = hidden[-1, 1] = 1.0
    return network_of((hidden, 0), ([first, last], biases))


@pytest.fixture(scope="module")
def exported(without_litert):
    def write(base, network, vocabulary=CODES, max_questions=23):
        trained = trained_agent(network, vocabulary, max_questions, training={"steps": 1, "episodes": 1})
        with without_litert():
            return write_version(base, trained)

    return write


@pytest.fixture(scope="module")
def version(exported, made_once):
    """A version that asks until evidence a is present, then says Red."""
    return made_once("asks first", lambda folder: exported(folder, saying(ASKS_FIRST, first=TO_RED))) / "1"


@pytest.fixture
def damaged(version, tmp_path):
    return pathlib.Path(shutil.copytree(version, tmp_path / "1"))


@pytest.mark.slow
def test_evidence_orders_are_the_same_for_versions_that_ask_differently_often(exported, version, tmp_path, monkeypatch):
    # First batch, evidence f or a alone. On f one version says Green at once, the other asks 23 times in vain, while
    # the rows with a begin one episode after the other: a random generator that both batches shared would have moved
    # on by 1 step or by 24. Second batch: both wait for evidence a.
    quick = load_version(exported(tmp_path, saying(ASKS_FIRST, first=TO_RED, last=TO_GREEN)))
    slow = load_version(version)
    monkeypatch.setattr(rollout, "ROWS_AT_ONCE", 20)
    codes = [[code] for code in (6, 1) * 10] + [[1, 2, 3, 4, 5]] * 20
    arrays = arrays_of([[0, 0, 1, 0]] * 20 + [[1, 0, 0, 0]] * 20, codes)
    outcomes = [version_outcomes(each, arrays, CODES, [8, 9]) for each in (quick, slow)]
    assert [played.questions[:, :20].max() for played in outcomes] == [0, 23]
    waits = [played.questions[:, 20:] for played in outcomes]
    assert len(np.unique(waits[0])) > 1
    np.testing.assert_array_equal(waits[0], waits[1])
    assert (waits[0][0] != waits[0][1]).any()  # another seed, other orders


def test_codes_are_translated_to_a_version_with_another_vocabulary(exported, tmp_path):
    # The version's cell 0 is evidence b, which is cell 1, hence signed code 2, in the data.
    network = saying([0, 0, 1, 0, -9], first=TO_RED, cells=3)
    version = load_version(exported(tmp_path, network, symptoms("b", "c", "a")))
    arrays = arrays_of([[1, 0, 0, 0]] * 3, [[1], [2], [-2]])
    data = symptoms("a", "b", "unused")
    assert version_outcomes(version, arrays, data, [0]).decisions.tolist() == [[Action.GREEN, Action.RED, Action.GREEN]]


def test_a_code_that_the_version_does_not_know_is_named(version):
    arrays = arrays_of([[1, 0, 0, 0]] * 2, [[1, 3], [-4]])
    with pytest.raises(InputError, match=r"gamma, delta$"):
        version_outcomes(load_version(version), arrays, symptoms("a", "b", "gamma", "delta", "unused"), [0])


def change_manifest(**entries):
    def change(folder):
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps(manifest | entries))

    return change


def cut_weights(folder):
    (shard,) = (folder / "variables").glob("variables.data-*")
    shard.write_bytes(shard.read_bytes()[:10])


def other_codes(folder):
    symptoms("z", *"bcdef").save(folder / "assets" / "vocabulary.csv")


def no_signature(folder):
    tf.saved_model.save(tf.Module(), str(folder))
    CODES.save(folder / "assets" / "vocabulary.csv")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda folder: (folder / "manifest.json").unlink(), "manifest.json: "),
        (cut_weights, "SavedModel"),
        (other_codes, "vocabulary was changed"),
        (no_signature, "no signature 'state'"),
        (change_manifest(max_questions=5), "max_questions"),
    ],
)
def test_a_damaged_version_is_refused_in_one_line_that_names_it(damaged, damage, reason):
    damage(damaged)
    with pytest.raises(InputError, match=reason) as caught:
        load_version(damaged)
    assert str(damaged) in str(caught.value)
    assert "\n" not in str(caught.value)
