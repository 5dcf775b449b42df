"""The first use of an id is the first in the input, in whatever order workers report."""

import itertools
import json

import pytest

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

from trainer.importing.prepare_pipeline import repeated_ids


def test_the_later_uses_of_an_id_are_found_with_the_place_of_the_first():
    reported = [
        ("00000-000", "a", json.dumps([["v1", 1], ["v2", 2], ["v1", 3]])),
        ("00000-900", "a", json.dumps([["v3", 9]])),
        ("00001-000", "b", json.dumps([["v2", 1], ["v3", 2], ["v4", 3]])),
        ("00002-000", "a", json.dumps([["v1", 1]])),  # the first file again: the same place, and yet another use
    ]
    expected = [("00000-000", {3: "a:1"}), ("00001-000", {1: "a:2", 2: "a:9"}), ("00002-000", {1: "a:1"})]
    for order in itertools.permutations(reported):
        assert list(repeated_ids((0, order))) == expected
