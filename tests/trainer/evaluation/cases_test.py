"""Right, too late, too early: decisions on textbook cases, and which emergencies a new version sends later."""

import pytest

from schemas.triage import Action
from trainer.data.textbook_case import TextbookCase
from trainer.evaluation.cases import CaseDecisions, later_emergencies, verdict

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
