"""Options that do not fit together are refused before anything loads."""

import dataclasses

import pytest

from schemas.errors import InputError
from serving.scoring.options import ScoreOptions
from triage_runtime.storage import locations

GIVEN = ScoreOptions("m", ["in"], "out", None, 0, 1, False, None, None, None, None, False, [])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"questions": 11}, "--questions 11: expected 0 to 10"),
        ({"defer_below": 1.5}, "--defer-below 1.5: expected a number from 0 to 1"),
        ({"batch_size": 0}, "--batch-size 0: expected 1 or more"),
        ({"beam_options": ["--direct_num_workers=2"]}, "--beam-options: needs --runner"),
        ({"dry_run": True}, "--dry-run: needs --runner"),
        ({"runner": "DirectRunner", "beam_options": ["--questions=2"]}, "--questions=2: an option of triage score"),
        ({"input": ["gs://bucket/cases"]}, "gs://bucket/cases: an address needs --runner"),
        ({"json": locations.fresh_result("gs://bucket/x.json")}, "gs://bucket/x.json: an address needs --runner"),
    ],
)
def test_a_bad_option_is_one_line(change, complaint):
    with pytest.raises(InputError, match=f"^{complaint}"):
        dataclasses.replace(GIVEN, **change)
