"""Compares an agent's decisions on textbook cases with the allowed colours; no TensorFlow, no files."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from schemas.triage import TRIAGE_DECISIONS, Action
from trainer.vignettes.textbook_case import CATEGORIES, EMERGENCY, TextbookCase

RIGHT, TOO_LATE, TOO_EARLY = "right", "too_late", "too_early"
VERDICTS = (RIGHT, TOO_LATE, TOO_EARLY)


class CaseDecisions(NamedTuple):
    """The decisions of one agent on C cases, in their order; never ask."""

    all_evidence: tuple[Action, ...]
    """With all evidence of the case known at once."""
    interview: tuple[Action, ...]
    """With the evidence revealed piece by piece, in the order of the file, for as long as the agent asks."""
    questions: tuple[int, ...]
    """Number of questions in the interview."""


READINGS = ("all_evidence", "interview")
"""The fields of `CaseDecisions` that are decisions."""


def verdict(case: TextbookCase, decision: Action) -> str:
    """Returns `RIGHT`, or `TOO_LATE` for a decision less urgent than allowed, or `TOO_EARLY` for a more urgent one."""
    if decision > case.allowed[-1]:
        return TOO_LATE
    return TOO_EARLY if decision < case.allowed[0] else RIGHT


def counts(cases: Sequence[TextbookCase], decisions: Sequence[Action]) -> dict[str, dict[str, Any]]:
    """Returns the number of cases, of each verdict and of each colour, by category (if it has cases) and for `all`."""
    pairs = list(zip(cases, decisions, strict=True))
    groups = {category: [pair for pair in pairs if pair[0].category == category] for category in CATEGORIES}
    return {name: _counted(group) for name, group in (groups | {"all": pairs}).items() if group}


def _counted(pairs: Sequence[tuple[TextbookCase, Action]]) -> dict[str, Any]:
    verdicts = [verdict(case, decision) for case, decision in pairs]
    decided = [decision for _, decision in pairs]
    return {
        "cases": len(pairs),
        **{name: verdicts.count(name) for name in VERDICTS},
        "decisions": {colour.label: decided.count(colour) for colour in TRIAGE_DECISIONS},
    }


def misses(cases: Sequence[TextbookCase], decisions: Sequence[Action]) -> list[dict[str, Any]]:
    """Returns every case whose decision is not right, in the order of the file."""
    return [
        {
            **described(case),
            "allowed": [colour.label for colour in case.allowed],
            "decision": decision.label,
            "verdict": verdict(case, decision),
        }
        for case, decision in zip(cases, decisions, strict=True)
        if verdict(case, decision) != RIGHT
    ]


def figures(cases: Sequence[TextbookCase], decided: CaseDecisions) -> dict[str, Any]:
    """Returns counts and misses of both readings, and the mean number of questions, ready for JSON."""
    readings = {
        reading: {
            "categories": counts(cases, getattr(decided, reading)),
            "misses": misses(cases, getattr(decided, reading)),
        }
        for reading in READINGS
    }
    return {**readings, "questions": sum(decided.questions) / len(decided.questions)}


def later_emergencies(cases: Sequence[TextbookCase], new: CaseDecisions, before: CaseDecisions) -> list[dict[str, Any]]:
    """Returns the emergencies that `new` decides too late, and later than `before`, in either reading."""
    return [
        {**described(case), "reading": reading, "new": decision.label, "before": earlier.label}
        for reading in READINGS
        for case, decision, earlier in zip(cases, getattr(new, reading), getattr(before, reading), strict=True)
        if case.category == EMERGENCY and verdict(case, decision) == TOO_LATE and decision > earlier
    ]


def described(case: TextbookCase) -> dict[str, Any]:
    """Returns the fields that identify a case in a report."""
    return {"vignette_id": case.vignette_id, "title": case.title, "category": case.category}
