"""What safety rules change, on episodes that are spelt out."""

import numpy as np
import pytest

from trainer.dyqn.rollout import Outcomes
from trainer.evaluation.rule_effect import rule_effect
from trainer.reports.evaluation_table import print_rule_effect

COUNTS = np.array([[2, 1, 0, 0], [0, 2, 1, 0]])  # clinicians: Red or Yellow, mostly Red; Yellow or Green


def outcomes(decisions, questions):
    shape = np.shape(decisions)
    return Outcomes(np.array(decisions), np.array(questions), np.ones(shape, int), np.zeros(shape, bool))


def test_both_sides_and_their_paired_difference_are_reported(capsys):
    before = outcomes([[2, 2], [1, 2]], [[4, 2], [2, 2]])  # two orders of two vignettes
    after = outcomes([[0, 2], [1, 0]], [[0, 2], [2, 0]])
    effect = rule_effect(before, after, COUNTS, seed=0)
    # Before: Green under-triages the first vignette in one order of two. After: Red over-triages the second in one.
    means = {name: (c.without.mean, c.with_rules.mean) for name, c in effect["metrics"].items()}
    assert means == {
        "appropriateness": (0.75, 0.75),
        "safety": (0.75, 1.0),
        "over_triage": (0.0, 0.25),
        "under_triage": (0.25, 0.0),
        "questions": (2.5, 1.0),
        "red_sensitivity": (0.0, 0.5),
        "red_specificity": (1.0, 0.5),
    }
    assert effect["metrics"]["questions"].difference.mean == pytest.approx(-1.5)
    assert effect["metrics"]["safety"].difference.mean == pytest.approx(0.25)
    assert effect["changed"] == 0.5
    plain = {name: {k: v and v._asdict() for k, v in c._asdict().items()} for name, c in effect["metrics"].items()}
    print_rule_effect({"changed": 0.5, "metrics": plain, "rules": {"source": "mine.toml", "rules": [{}]}})
    printed = " ".join(capsys.readouterr().out.split())
    assert "mine.toml, 1 of them" in printed
    assert "in 50.0% of the episodes" in printed
