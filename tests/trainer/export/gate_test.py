"""The gate: which loss of safety passes, and what it tells of one that does not."""

import json

import numpy as np
import pytest

from schemas.triage import Action
from tests.builders import arrays_of, outcomes_of
from trainer.data.textbook_case import TextbookCase
from trainer.evaluation import metrics
from trainer.evaluation.cases import CaseDecisions
from trainer.export.gate import (
    GateVerdict,
    Loss,
    Played,
    compare,
    compare_cases,
    lower_bound,
    require_promise,
)


def vignettes_where_green_is_the_least_urgent(count):
    """Red and Yellow are over-triage, Green is safe and appropriate, Blue is not."""
    return arrays_of([[0, 0, 2, 0]] * count)


def played(name, decisions, questions=0):
    """Decisions `[K, V]`."""
    return Played(name, outcomes_of(decisions, np.full(np.shape(decisions), questions)))


def blue_on(rows, count):
    """Always Green, but Blue on the vignettes `rows`: safety is 1 - len(rows) / count."""
    return [[Action.BLUE if row in rows else Action.GREEN for row in range(count)]]


def verdict(new, serving, margin=0.02):
    count = len(new[0])
    vignettes = vignettes_where_green_is_the_least_urgent(count)
    return compare(played("2", new), played("1", serving), vignettes, margin, seed=0)


def test_the_bound_is_the_5th_percentile_of_the_resampled_mean():
    # The losses in a resample of 100 of which 6 lost are Binomial(100, 0.06): at most 10 in 96.2% of the resamples, at
    # most 9 in 92.3%, so the 5th percentile of the mean is -0.10. The two-sided interval's end, the 2.5th, is -0.11.
    differences = np.array([-1.0] * 6 + [0.0] * 94)
    assert lower_bound(differences, seed=0) == pytest.approx(-0.10)
    assert metrics.estimate(differences, 0).low == pytest.approx(-0.11)


def test_the_margin_decides_on_a_loss():
    # Losses on 6 of 100: the bound is -0.10, as above.
    new, serving = blue_on(range(6), 100), blue_on((), 100)
    assert not verdict(new, serving, margin=0.09).passed
    assert verdict(new, serving, margin=0.10).passed  # a loss of just the margin passes


def test_pairs_decide_where_two_separate_intervals_cannot():
    # Half of the vignettes are hard for both; the new version loses one more. Paired, the losses in a resample are
    # about Poisson(1), at most 3 in 98% and at most 2 in 92%: the bound is -0.03. Unpaired, the standard deviation of
    # the difference is sqrt(0.25 / 100 + 0.25 / 100) = 0.07, the bound about -0.01 - 1.64 * 0.07 = -0.13.
    new, serving = blue_on(range(51), 100), blue_on(range(50), 100)
    judged = verdict(new, serving, margin=0.05)
    assert judged.compared.lower_bound == pytest.approx(-0.03)
    assert judged.passed


def test_the_figures_are_means_over_vignettes_of_the_shares_of_orders():
    # Two orders. New: vignette 0 safe in one of two, vignette 1 in none, others in both: safety (0.5 + 0 + 2) / 4.
    new = [
        [Action.GREEN, Action.BLUE, Action.RED, Action.GREEN],
        [Action.BLUE, Action.BLUE, Action.GREEN, Action.GREEN],
    ]
    serving = [[Action.GREEN] * 4] * 2
    vignettes = vignettes_where_green_is_the_least_urgent(4)
    judged = compare(played("8", new, questions=3), played("7", serving, questions=5), vignettes, 0.02, seed=0)
    assert not judged.passed
    assert {name: (row.new, row.serving) for name, row in judged.compared.metrics.items()} == {
        "safety": (0.625, 1.0),
        "appropriateness": (0.5, 1.0),  # Red in one order of vignette 2 is safe, but not appropriate
        "under_triage": (0.375, 0.0),
        "questions": (3.0, 5.0),
    }
    assert judged.compared.metrics["questions"].difference == metrics.Estimate(-2.0, -2.0, -2.0, 4)
    assert judged.compared.worse == 2
    assert judged.compared.worst == [Loss("v1", new=0.0, serving=1.0), Loss("v0", new=0.5, serving=1.0)]
    json.dumps(judged.described(), allow_nan=False)


def test_no_version_passes_whose_promise_these_vignettes_show_to_be_broken():
    verdict = GateVerdict(True, 0.02, "2", None)
    holds = {"newer": {"holds": True, "broken": {}}}
    assert require_promise(verdict, None) == require_promise(verdict, holds) == verdict
    broken = require_promise(verdict, {"newer": {"holds": False, "broken": {"interview": ["red", "over"]}}})
    assert not broken.passed
    first, promise = broken.text("models").splitlines()
    assert "interview: red, over" in promise
    assert verdict.text("models") == first


def test_an_id_cannot_control_the_terminal():
    vignettes = vignettes_where_green_is_the_least_urgent(2)
    vignettes.vignette_ids[0] = "\x1b[2Jv\n0"
    judged = compare(played("2", blue_on([0], 2)), played("1", blue_on((), 2)), vignettes, 0.0, seed=0)
    assert "\x1b" not in judged.text("models")
    assert judged.text("models").splitlines()[-1].startswith(r"    '\x1b[2Jv\n0': safe in 0%")


CASES = tuple(
    TextbookCase(name, f"The {name}", "emergency", (Action.RED,), ("cough",), ())
    for name in ("stroke", "sepsis", "shock")
)


def decided(all_evidence, interview):
    return CaseDecisions(tuple(map(Action, all_evidence)), tuple(map(Action, interview)), (0, 0, 0))


def test_one_emergency_decided_later_is_enough_not_to_pass():
    # Red is 0 and Yellow 1. Stroke: later in both readings; sepsis: earlier; shock: later in the interview only.
    judged = compare_cases(CASES, decided([1, 0, 0], [1, 0, 2]), decided([0, 1, 0], [0, 1, 1]))
    assert not judged.passed
    assert (judged.cases, judged.emergencies, judged.sent_later) == (3, 3, 2)
    assert [(each.vignette_id, each.reading) for each in judged.later] == [
        ("stroke", "all_evidence"), ("stroke", "interview"), ("shock", "interview"),
    ]  # fmt: skip
    judged = compare_cases(CASES, decided([1, 0, 2], [1, 0, 2]), decided([1, 0, 3], [1, 1, 2]))  # as late as before
    assert (judged.passed, judged.sent_later, judged.later) == (True, 0, [])


def test_the_manifest_has_no_ids_of_vignettes_and_cases():
    cases = compare_cases(CASES, decided([1, 0, 0], [1, 0, 2]), decided([0, 1, 0], [0, 1, 1]))
    whole = verdict(blue_on(range(6), 100), blue_on((), 100))._replace(textbook_cases=cases)
    assert json.dumps(whole.described(), allow_nan=False).count('"stroke"') == 2
    shared = whole.described(ids=False)
    assert shared["textbook_cases"] == {"passed": False, "cases": 3, "emergencies": 3, "sent_later": 2}
    assert "'v0'" not in str(shared)
    assert "stroke" not in str(shared)
