"""A file is scored batch by batch, in its order."""

import json

import pytest

from schemas.errors import InputError
from serving.scoring.answers import Scorer
from serving.scoring.file import score_file


@pytest.fixture(scope="module")
def scorer(guarded_base_path):
    return Scorer(guarded_base_path / "4", 0, allow_unknown_codes=False)


def _write(path, codes):
    rows = ({"vignette_id": f"v{number}", "present": [code]} for number, code in enumerate(codes))
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_the_answers_stand_in_the_order_of_the_cases(scorer, tmp_path):
    source, shown = _write(tmp_path / "a.jsonl", ["chest_pain", "fever"] * 10), []
    counts = score_file(scorer, source, tmp_path / "out.jsonl", 3, shown.append)
    answers = list(map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines()))
    assert [row["vignette_id"] for row in answers] == [f"v{number}" for number in range(20)]
    assert [row["fired_rules"] for row in answers] == [["pain"], ["fever"]] * 10
    assert shown == [3, 6, 9, 12, 15, 18, 20]
    assert counts.total() == 20


def test_a_fault_in_a_later_batch_leaves_no_answers(scorer, tmp_path):
    source = _write(tmp_path / "a.jsonl", ["fever"] * 9 + ["gout"])
    with pytest.raises(InputError, match=r"'v9' \(line or record 10\)"):
        score_file(scorer, source, tmp_path / "out.jsonl", 2, lambda cases: None)
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]
