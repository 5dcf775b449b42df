"""From a trained agent to a published version, or to none: agents that always say the same, vignettes by hand.

Each test vignette has one decision, Red, Green and Blue twice each. Always Red is safe on all 6, always Green on 4,
always Blue on 2.
"""

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from schemas.errors import InputError
from schemas.triage import Action
from tests.builders import data_directory_of, network_of, prepared, symptoms, trained_agent
from trainer.data.textbook_case import TextbookCase
from trainer.data.vignette import Vignette
from trainer.export import gate, publish
from trainer.export.policy import load_version
from trainer.export.publish import Target, VersionTest

pytestmark = pytest.mark.usefixtures("known_graphs")

TEST = ("Red", "Red", "Green", "Green", "Blue", "Blue")


def always(decision, codes=("cough", "fever")):
    """An agent that asks nothing and always says `decision`."""
    network = network_of((np.zeros([len(codes), 5]), np.where(np.arange(5) == decision, 3.0, -3.0)))
    made = {"data_fingerprint": "sha256:other", "metrics": {"step": 7}, "training": {"steps": 7, "episodes": 5}}
    return trained_agent(network, symptoms(*codes), **made)


def prepare(folder, decisions=TEST, codes=("cough", "fever")):
    lines = [
        {"vignette_id": f"v{row}", "present": ["cough"], "absent": ["fever"], "decisions": [label], "split": "test"}
        for row, label in enumerate(decisions)
    ]
    lines.append(lines[0] | {"vignette_id": "train", "split": "train"})  # a data directory needs one
    return prepared(folder, lines, symptoms(*codes))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("vignettes"))


@pytest.fixture(scope="module")
def evaluation(data):
    return VersionTest(data, orders=2, seed=0)


@pytest.fixture(scope="module")
def red_version(made_once):
    def make(base):
        publish.export(always(Action.RED), base, Target(base, None, "triage"), None)

    return made_once("always red", make) / "1"


@pytest.fixture
def red_base(red_version, tmp_path):
    """A base path that serves an agent which is always safe, as version 1."""
    shutil.copytree(red_version, tmp_path / "models" / "1")
    return tmp_path / "models"


def push(base, trained, evaluation, margin=0.02, **fields):
    return publish.export(trained, base / "job", Target(base, None, "triage", margin, **fields), evaluation)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_first_version_is_published_and_signed_without_a_comparison(evaluation, tmp_path):
    key = Ed25519PrivateKey.generate()
    exported = push(tmp_path, always(Action.BLUE), evaluation, key=key)
    assert (exported.folder, exported.published) == (tmp_path / "1", True)
    assert exported.gate.described() == {"passed": True, "margin": 0.02, "new_version": "1", "serving_version": None}
    assert (tmp_path / "1" / "BLESSED").read_bytes() == b""
    assert names(tmp_path) == ["1"]
    checksums = (exported.folder / "SHA256SUMS").read_bytes()
    key.public_key().verify((exported.folder / "SHA256SUMS.sig").read_bytes(), checksums)
    signed = {line.split("  ")[1] for line in checksums.decode().splitlines()}
    files = {path.relative_to(exported.folder).as_posix() for path in exported.folder.rglob("*") if path.is_file()}
    assert signed == files - {"SHA256SUMS", "SHA256SUMS.sig"}
    assert {"manifest.json", "model_card.md", "BLESSED", "variables/variables.index"} <= signed


@pytest.mark.slow  # `triage export` refuses them in commands/export_test.py
def test_nothing_is_published_on_too_few_vignettes_not_even_a_first_version(evaluation, red_base, tmp_path):
    # The six vignettes cannot show that the same agent again is as safe, whatever the margin.
    assert not push(tmp_path / "empty", always(Action.RED), evaluation, margin=1.0, minimum_vignettes=7).published
    exported = push(tmp_path / "new", always(Action.RED), evaluation, 1.0, minimum_vignettes=7, against=red_base)
    assert (exported.published, exported.gate.too_few) == (False, (6, 7))
    card = (exported.folder / "model_card.md").read_text(encoding="utf-8")
    assert re.search(r"\| not blessed \| 6 .* 7 \|", card)
    assert push(red_base, always(Action.RED), evaluation, minimum_vignettes=6).published


def test_an_equal_version_passes_without_margin_and_decides_no_textbook_emergency_later(data, red_base):
    evaluation = VersionTest(data, orders=2, seed=0, cases=emergency("fever"))
    exported = push(red_base, always(Action.RED), evaluation, margin=0.0)
    assert exported.published
    assert exported.gate.compared.lower_bound == 0.0
    assert (red_base / "2" / "BLESSED").exists()
    manifest = json.loads((exported.folder / "manifest.json").read_text())
    assert manifest["gate"]["textbook_cases"] == {"passed": True, "cases": 1, "emergencies": 1, "sent_later": 0}
    assert "| 0 of 1 |" in (exported.folder / "model_card.md").read_text()


def emergency(*codes):
    return (TextbookCase("meningitis", "Meningitis", "emergency", (Action.RED,), codes, ()),)


def test_versions_with_other_vocabularies_are_compared_on_evidence_and_cases_that_both_know(data, red_base):
    # The order differs, and the new one knows more; data and case have cough and fever.
    evaluation = VersionTest(data, orders=1, seed=0, cases=emergency("fever"))
    exported = push(red_base, always(Action.RED, ("rash", "fever", "cough")), evaluation)
    assert exported.gate.compared.metrics["safety"].new == 1.0
    assert exported.published
    rash = VersionTest(data, orders=1, seed=0, cases=emergency("rash"))
    with pytest.raises(InputError, match=r"'meningitis'.*rash"):
        push(red_base, always(Action.RED), rash)


def test_candidates_stay_apart_with_numbers_above_those_that_are_served_and_unsigned_if_rejected(
    evaluation, red_base, tmp_path
):
    apart = tmp_path / "candidates"
    (apart / "8").mkdir(parents=True)
    (red_base / "1").rename(red_base / "7")
    given = {"against": red_base, "key": Ed25519PrivateKey.generate()}
    good, bad = (push(apart, always(decision), evaluation, **given).folder for decision in (Action.RED, Action.GREEN))
    assert (good, bad, names(red_base)) == (apart / "9", apart / "10", ["7"])
    assert [(folder / "SHA256SUMS.sig").exists() for folder in (good, bad)] == [True, False]
    assert (bad / "NOT_BLESSED").read_bytes() == b""
    assert "| passed the gate | **no** |" in (bad / "model_card.md").read_text()
    load_version(bad)


class _EvaluationDuringWhichAnotherPushEnds(VersionTest):
    def outcomes(self, version, name):
        shutil.copytree(self.other, self.base / "2", dirs_exist_ok=True)
        return super().outcomes(version, name)


def test_of_two_pushes_at_once_the_second_is_refused(data, red_version, red_base):
    evaluation = _EvaluationDuringWhichAnotherPushEnds(data, orders=1, seed=0)
    evaluation.base, evaluation.other = red_base, red_version
    with pytest.raises(InputError, match="another version"):
        push(red_base, always(Action.RED), evaluation)
    assert names(red_base) == ["1", "2"]
    assert not (red_base / "2" / "BLESSED").exists()


def test_a_number_below_the_newest_version_is_refused(evaluation, red_base):
    (red_base / "1").rename(red_base / "5")
    with pytest.raises(InputError, match="no server"):
        publish.export(always(Action.RED), red_base, Target(red_base, 5, "triage", 0.02), evaluation)
    assert names(red_base) == ["5"]


def test_a_split_that_is_empty_is_refused(tmp_path):
    vignettes = [Vignette("v", ("cough",), (), (Action.RED,))]
    data = data_directory_of(tmp_path / "data", symptoms("cough"), vignettes, [])
    with pytest.raises(InputError, match="test split"):
        VersionTest(data, orders=1, seed=0)


def test_the_manifest_and_the_card_have_the_figures_of_the_evaluation(evaluation, tmp_path):
    trained = dataclasses.replace(always(Action.GREEN), data_fingerprint=evaluation.data.data_fingerprint)
    exported = push(tmp_path, trained, evaluation, margin=None)
    assert exported.gate is None
    assert not (exported.folder / "BLESSED").exists()
    manifest = json.loads((exported.folder / "manifest.json").read_text())
    assert manifest["metrics"] == exported.metrics
    played = {"step": 7, "episode": 5, "split": "test", "vignettes": 6, "orders": 2}
    assert manifest["metrics"] == manifest["metrics"] | played
    assert manifest["metrics"]["metrics"]["safety"]["mean"] == pytest.approx(4 / 6)
    card = json.loads((exported.folder / "model_card.json").read_text())
    assert card["evaluation"] == json.loads(json.dumps(exported.evaluation.described()))
    assert card["training_data"]["splits"]["test"]["vignettes"] == 6, "the agent was trained on the same data"
    assert card["evaluation"]["constants"]["always green"] == {
        name: card["evaluation"]["agent"][name] for name in ("appropriateness", "safety", "over_triage", "under_triage")
    }
    assert "| **this version** | 0.333 [" in (exported.folder / "model_card.md").read_text()


def _version(base, number, compared_with, mark=gate.BLESSED):
    """A folder with what a push looks at."""
    folder = base / str(number)
    (folder / "assets").mkdir(parents=True)
    (folder / "assets" / "vocabulary.csv").write_text("codes")
    manifest = {
        "format_version": 1,
        "vocabulary_fingerprint": "sha256:vocabulary",
        "data_fingerprint": "sha256:data",
        "evidence_count": 3,
        "max_questions": 10,
        "gate": {"serving_version": compared_with},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / mark).touch()
    return folder


def test_a_version_that_was_blessed_elsewhere_arrives_whole(tmp_path):
    served = tmp_path / "models"
    _version(served, 4, None)
    pushed = publish.push(_version(tmp_path / "out", 5, "4"), served)
    assert pushed == served / "5"
    assert (pushed / "assets" / "vocabulary.csv").read_text() == "codes"
    assert sorted(path.name for path in served.iterdir()) == ["4", "5"]


@pytest.mark.parametrize(
    ("number", "compared_with", "mark", "message"),
    [
        (5, "4", gate.NOT_BLESSED, "not blessed"),
        (5, "3", gate.BLESSED, "version 3, .*version 4"),
        (5, None, gate.BLESSED, "no version, .*version 4"),
        ("five", "4", gate.BLESSED, "not a version"),
    ],
)
def test_other_versions_are_not_pushed(tmp_path, number, compared_with, mark, message):
    served = tmp_path / "models"
    _version(served, 4, None)
    version = _version(tmp_path / "out", number, compared_with, mark)
    with pytest.raises(InputError, match=message):
        publish.push(version, served)
    assert [path.name for path in served.iterdir()] == ["4"]


def test_a_base_path_that_cannot_be_written_is_an_input_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot read"):
        publish.push(_version(tmp_path / "out", 1, None), tmp_path / "file")
