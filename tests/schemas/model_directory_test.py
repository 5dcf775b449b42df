"""Reading a model base path: the choice of a version, and what is wrong with a damaged one."""

import hashlib
import json
import os
import pathlib

import pytest

from schemas.errors import InputError
from schemas.model_directory import file_states, find_version, list_versions, read_version, version_folder
from tests.builders import symptoms

MANIFEST = {
    "format_version": 1,
    "model_version": "3",
    "data_fingerprint": "sha256:data",
    "evidence_count": 3,
    "max_questions": 10,
    "safety_rules": {"rules": []},
    "novelty": None,
    "decision": {"probabilities": True, "hand_over_from": 0.15},
    "litert": {"file": "assets.extra/state.tflite", "sha256": "abc"},
    "metrics": {"safety": 0.9},
}


@pytest.fixture
def vocabulary():
    return symptoms("chest_pain", "fever", "smoker")


@pytest.fixture
def version(vocabulary, tmp_path):
    """A version folder without a model, exported as 3 and moved to 12."""
    folder = tmp_path / "12"
    (folder / "assets").mkdir(parents=True)
    (folder / "saved_model.pb").touch()
    vocabulary.save(folder / "assets" / "vocabulary.csv")
    (folder / "manifest.json").write_text(json.dumps(MANIFEST | {"vocabulary_fingerprint": vocabulary.fingerprint}))
    return folder


@pytest.mark.parametrize(
    ("names", "wanted", "expected"),
    [
        (["1", "2"], None, "2"),
        (["9", "10"], None, "10"),
        (["1", "2", "exporting-3-abc", "latest", "4.5"], None, "2"),
        (["1", "2"], 1, "1"),
        (["007"], 7, "007"),
    ],
)
def test_the_highest_or_the_wanted_whole_number_is_the_version(tmp_path, names, wanted, expected):
    for name in names:
        (tmp_path / name).mkdir()
    assert find_version(tmp_path, wanted) == tmp_path / expected


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "assets" / "vocabulary.csv").write_text("longer"),
        lambda folder: (folder / "assets" / "new").touch(),
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: os.utime(folder / "manifest.json", ns=(1, 1)),
    ],
    ids=["written", "added", "removed", "written with the same size"],
)
def test_a_change_below_a_folder_is_seen(tmp_path, change):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "vocabulary.csv").write_text("short")
    (tmp_path / "manifest.json").write_text("{}")
    before = file_states(tmp_path)
    assert file_states(tmp_path) == before
    change(tmp_path)
    assert file_states(tmp_path) != before


@pytest.mark.parametrize(
    ("names", "wanted", "complaint"),
    [
        ([], None, "triage export"),
        (["10", "9"], 3, "version 3: .* 9, 10"),
    ],
)
def test_a_version_that_does_not_exist_is_reported(tmp_path, names, wanted, complaint):
    for name in names:
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=complaint):
        find_version(tmp_path, wanted)


def test_a_path_that_no_system_takes_is_reported():
    with pytest.raises(InputError, match="embedded null"):
        list_versions(pathlib.Path("/models\0"))


def test_a_version_given_for_its_base_path_is_reported(version):
    with pytest.raises(InputError, match=f"contains it, {version.parent}"):
        find_version(version)


def test_a_version_or_the_folder_that_holds_it_may_be_given(version):
    assert version_folder(version.parent) == version_folder(version) == version
    with pytest.raises(InputError, match=r"assets: no model version"):
        version_folder(version / "assets")


def test_a_version_has_its_name_and_the_facts_in_its_manifest(version, vocabulary):
    info, read = read_version(version)
    assert read == vocabulary
    assert info.model_version == "12"  # the folder's name, although it was 3 at the export
    assert info.vocabulary_fingerprint == vocabulary.fingerprint
    assert (info.data_fingerprint, info.evidence_count, info.max_questions) == ("sha256:data", 3, 10)
    assert (info.rules, info.novelty_threshold, info.litert_sha256) == ((), None, "abc")
    assert (info.probabilities, info.hand_over_from) == (True, 0.15)
    assert json.loads(info.manifest_json)["metrics"] == {"safety": 0.9}


def without(manifest, key):
    return {name: value for name, value in manifest.items() if name != key}


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda manifest: [], "expected a JSON object"),
        (lambda manifest: manifest | {"format_version": 2}, "format_version 2: .* 1"),
        (lambda manifest: without(manifest, "max_questions"), "max_questions None: .* int"),
        (lambda manifest: manifest | {"max_questions": 0}, "max_questions 0: .* 1"),
        (lambda manifest: manifest | {"evidence_count": 4}, "evidence_count 4: .* 3 "),
        (lambda manifest: manifest | {"vocabulary_fingerprint": "sha256:0"}, "sha256:0"),
        *(
            (lambda manifest, key=key: without(manifest, key), "decision, questions, novelty or litert")
            for key in ("safety_rules", "decision", "novelty")
        ),
        (lambda manifest: manifest | {"questions": {}}, "decision, questions, novelty or litert"),
        (lambda manifest: manifest | {"litert": {}}, "decision, questions, novelty or litert"),
    ],
)
def test_a_manifest_that_does_not_fit_is_reported(version, damage, complaint):
    path = version / "manifest.json"
    path.write_text(json.dumps(damage(json.loads(path.read_text()))))
    with pytest.raises(InputError, match=complaint):
        read_version(version)


@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_a_manifest_that_is_not_json_is_reported(version, text):
    (version / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=r"manifest\.json: "):
        read_version(version)


def test_a_vocabulary_that_was_reordered_after_the_export_is_reported(version):
    path = version / "assets" / "vocabulary.csv"
    header, first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([header, *rest, first]) + "\n")
    with pytest.raises(InputError, match="vocabulary was changed"):
        read_version(version)


RULE = {"rule_id": "pain", "reason": "Pain.", "urgency": "Red", "stop_asking": True}


@pytest.mark.parametrize(
    ("name", "entry", "described"),
    [("rules.toml", "safety_rules", {"rules": [RULE]}), ("danger_signs.toml", "danger_signs", {"complaints": 1})],
)
def test_rules_and_danger_signs_that_are_not_those_of_the_manifest_are_refused(version, name, entry, described):
    described["fingerprint"] = f"sha256:{hashlib.sha256(b'pain').hexdigest()}"
    manifest = json.loads((version / "manifest.json").read_text()) | {entry: described}
    (version / "manifest.json").write_text(json.dumps(manifest))
    file = version / "assets.extra" / name
    with pytest.raises(InputError, match=f"{name}: .*No such file"):
        read_version(version)
    file.parent.mkdir()
    file.write_bytes(b"pain")
    assert [rule.rule_id for rule in read_version(version)[0].rules] == ["pain"] * (entry == "safety_rules")
    file.write_bytes(b"pain, garbled")
    with pytest.raises(InputError, match=f"{name}: .*fingerprint"):
        read_version(version)
