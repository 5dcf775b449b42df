"""Versions that were compared at one place and are pushed to another."""

import json

import pytest

from schemas.errors import InputError
from trainer.export import gate
from trainer.export.publish import push


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


def test_a_blessed_version_arrives_whole(tmp_path):
    served = tmp_path / "models"
    _version(served, 4, None)
    pushed = push(_version(tmp_path / "out", 5, "4"), served)
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
        push(version, served)
    assert [path.name for path in served.iterdir()] == ["4"]


def test_a_base_path_that_cannot_be_written_is_an_input_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot read"):
        push(_version(tmp_path / "out", 1, None), tmp_path / "file")
