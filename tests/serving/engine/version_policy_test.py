"""Policies over the versions that are there, and labels on the command line."""

import pytest

from schemas.errors import InputError
from serving.engine.version_policy import parse_labels


def test_labels_name_versions():
    assert parse_labels(["stable=3", "a=b=5"]) == {"stable": 3, "a=b": 5}
    assert parse_labels([]) == {}


@pytest.mark.parametrize("text", ["stable", "stable=", "=3", "stable=x", "stable=-1", "stable=²"])
def test_a_malformed_label_is_reported(text):
    with pytest.raises(InputError, match=f"--label {text}: expected NAME=VERSION"):
        parse_labels([text])


def test_a_label_given_twice_is_reported():
    with pytest.raises(InputError, match="--label stable=4: the label stable is given twice"):
        parse_labels(["stable=3", "stable=4"])
