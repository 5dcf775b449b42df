"""The file of what cases look like."""

import dataclasses
import json

import pytest

from schemas.errors import InputError
from schemas.reference import Reference

REFERENCE = Reference("a test", 10, {"fever": 2.5}, {"rash": 1.0}, {"Red": 4.0, "Blue": 6.0}, {3: 10.0})


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "reference.json"
    path.write_text(REFERENCE.to_json(), encoding="utf-8")
    assert Reference.load(path) == REFERENCE


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": 2}, "expected a reference of format 1"),
        ({"cases": 0}, "not a reference: expected at least one case"),
        ({"present": ["fever"]}, "not a reference"),
        ({"present": {"fever": float("nan")}}, "not a reference: a count is negative or not a number"),
        ({"urgencies": {"Purple": 1}}, "not a reference: expected at least one case, and the known triage decisions"),
    ],
)
def test_another_content_is_reported(tmp_path, change, complaint):
    path = tmp_path / "reference.json"
    path.write_text(json.dumps({"format": 1, **dataclasses.asdict(REFERENCE), **change}), encoding="utf-8")
    with pytest.raises(InputError, match=f"reference.json: {complaint}"):
        Reference.load(path)


@pytest.mark.parametrize(
    ("content", "complaint"), [(None, "cannot read"), ("[1", "not JSON"), ("[]", "expected a ref")]
)
def test_another_file_is_reported(tmp_path, content, complaint):
    path = tmp_path / "reference.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=f"reference.json: {complaint}"):
        Reference.load(path)
