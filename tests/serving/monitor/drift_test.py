"""Drift is detected if and only if there is drift."""

import random

import pytest

from schemas.reference import Reference
from serving.monitor.audit_reader import ServedCase
from serving.monitor.drift import Observed, compare, stability_index

RATES = {f"code{number}": 0.05 + 0.01 * number for number in range(40)}


def served(cases, rates, urgencies=(0.1, 0.35, 0.45, 0.1), unknown=0.0, seed=0):
    """Draws decided cases of independent evidence."""
    chance, observed = random.Random(seed), Observed()  # noqa: S311
    for _ in range(cases):
        present = {code for code, rate in rates.items() if chance.random() < rate}
        action = chance.choices(range(4), urgencies)[0]
        strange = {"gout"} if chance.random() < unknown else set()
        observed.add(ServedCase(3, frozenset(present | strange), frozenset(), action, False, frozenset(strange)))
    return observed


def reference_of(observed):
    return Reference("a test", observed.cases, observed.present, observed.absent, observed.urgencies, observed.pieces)


REFERENCE = reference_of(served(1500, RATES, seed=17))


@pytest.mark.parametrize("seed", range(2))
def test_cases_of_the_same_kind_are_no_drift(seed):
    report = compare(served(1000, RATES, seed=seed), REFERENCE)
    assert report["verdict"] == "no_drift"
    assert report["evidence_tested"] == 40
    assert report["evidence"] == []


def test_evidence_that_became_frequent_is_named_with_its_rates():
    report = compare(served(1000, RATES | {"code3": 0.3}), REFERENCE)
    assert report["verdict"] == "drift"
    [drifted] = report["evidence"]
    assert (drifted["code"], drifted["status"]) == ("code3", "present")
    assert drifted["served"] == pytest.approx(0.3, abs=0.05)
    assert drifted["reference"] == pytest.approx(0.08, abs=0.03)
    assert drifted["effect"] > 0.2


def test_a_difference_that_does_not_matter_is_none_however_many_cases_show_it():
    # Cohen's h of 0.45 and 0.40 is 0.10.
    urgencies = {"Red": 10_000, "Yellow": 35_000, "Green": 45_000, "Blue": 10_000}  # as `served` draws them
    reference = Reference("a test", 100_000, {"a": 45_000}, {}, urgencies, {1: 45_000, 0: 55_000})
    observed = served(40_000, {"a": 0.4})
    report = compare(observed, reference)
    assert report["verdict"] == "no_drift"
    assert report["smallest_effect"] < 0.1


def test_other_urgencies_are_drift():
    report = compare(served(1000, RATES, urgencies=(0.3, 0.35, 0.25, 0.1)), REFERENCE)
    [urgencies, pieces] = report["distributions"]
    assert (urgencies["name"], urgencies["drifted"], pieces["drifted"]) == ("urgencies", True, False)
    assert urgencies["served"]["Red"] == pytest.approx(0.3, abs=0.05)
    assert report["verdict"] == "drift"


def test_unknown_codes_are_drift_where_their_share_is_sure_to_be_above_the_limit():
    some = compare(served(1000, RATES, unknown=0.015), REFERENCE)
    many = compare(served(1000, RATES, unknown=0.1), REFERENCE)
    assert (some["verdict"], many["verdict"]) == ("no_drift", "drift")
    assert many["unknown_codes"]["most_frequent"].keys() == {"gout"}
    low, high = many["unknown_codes"]["interval"]
    assert low < many["unknown_codes"]["share"] < high


def test_few_cases_allow_no_conclusion():
    report = compare(served(99, RATES | {"code3": 1.0}, unknown=1.0), REFERENCE)
    assert report["verdict"] == "too_few_cases"
    assert "evidence" not in report
    assert compare(Observed(), REFERENCE)["verdict"] == "too_few_cases"


def test_the_stability_index_is_the_textbook_one():
    # Half a case more each: shares 0.25, 0.75 and 0.75, 0.25: 0.5 ln 3 twice.
    assert stability_index([2.0, 7.0], [7.0, 2.0]) == pytest.approx(1.0986, abs=1e-4)
