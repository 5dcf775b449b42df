"""Right, too late, too early: decisions on textbook cases, and which emergencies a new version sends later."""

import pytest

from schemas.triage import Action
from trainer.evaluation.cases import CaseDecisions, Counted, Later, Miss, figures, later_emergencies, verdict
from trainer.vignettes.textbook_case import TextbookCase

R, Y, G, B = Action.RED, Action.YELLOW, Action.GREEN, Action.BLUE


def case(name, category, *allowed):
    return TextbookCase(name, f"The {name}", category, allowed, ("cough",), ())


CASES = (
    case("stroke", "emergency", R),
    case("sepsis", "emergency", R, Y),
    case("cystitis", "routine", Y, G),
    case("cold", "self_care", B),
)


@pytest.mark.parametrize(
    ("allowed", "verdicts"),  # of Red, Yellow, Green, Blue
    [
        ((R,), ["right", "too_late", "too_late", "too_late"]),
        ((Y, G), ["too_early", "right", "right", "too_late"]),
        ((B,), ["too_early", "too_early", "too_early", "right"]),
    ],
)
def test_a_decision_is_judged_by_the_colours_allowed(allowed, verdicts):
    assert [verdict(case("x", "urgent", *allowed), decision) for decision in (R, Y, G, B)] == verdicts


def test_counts_are_by_category_and_leave_out_categories_without_cases():
    by_category = figures(CASES, both(Y, Y, R, B)).interview.categories
    assert list(by_category) == ["emergency", "routine", "self_care", "all"]
    assert by_category["emergency"] == Counted(2, 1, 1, 0, {"Red": 0, "Yellow": 2, "Green": 0, "Blue": 0})
    assert by_category["routine"][:4] == (1, 0, 0, 1)
    assert by_category["all"][:4] == (4, 2, 1, 1)


def test_every_miss_is_listed_with_the_decision():
    assert figures(CASES, both(Y, Y, R, B)).all_evidence.misses == [
        Miss("stroke", "The stroke", "emergency", ["Red"], "Yellow", "too_late"),
        Miss("cystitis", "The cystitis", "routine", ["Yellow", "Green"], "Red", "too_early"),
    ]


def test_figures_hold_both_readings():
    report = figures(CASES, CaseDecisions((R, R, G, B), (Y, R, G, B), (0, 1, 2, 3)))
    assert report.all_evidence.misses == []
    assert [miss.vignette_id for miss in report.interview.misses] == ["stroke"]
    assert report.questions == 1.5


def both(*decisions):
    return CaseDecisions(decisions, decisions, (0,) * len(decisions))


@pytest.mark.parametrize(
    ("new", "before", "later"),
    [
        ((R, R, G, B), (Y, Y, G, B), []),  # earlier
        ((Y, R, G, B), (Y, R, G, B), []),  # as late as before
        ((G, R, G, B), (Y, R, G, B), ["stroke"]),  # late before, later now
        ((R, Y, G, B), (R, R, G, B), []),  # less urgent than before, but still allowed
        ((R, G, G, B), (R, Y, G, B), ["sepsis"]),
        ((R, R, B, B), (R, R, Y, B), []),  # no emergency
    ],
)
def test_an_emergency_counts_where_it_is_too_late_and_later_than_before(new, before, later):
    rows = later_emergencies(CASES, both(*new), both(*before))
    assert [row.vignette_id for row in rows] == 2 * later  # once in each reading
    assert [row.reading for row in rows] == len(later) * ["all_evidence", "interview"]


def test_a_loss_in_the_interview_alone_counts():
    new = CaseDecisions((R, R, G, B), (Y, R, G, B), (0, 0, 0, 0))
    assert later_emergencies(CASES, new, both(R, R, G, B)) == [
        Later("stroke", "The stroke", "emergency", reading="interview", new="Yellow", before="Red")
    ]
