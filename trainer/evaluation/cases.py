"""Compares an agent's decisions on textbook cases with the allowed colours; no TensorFlow, no files."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from schemas.triage import Action
from trainer.data.textbook_case import CATEGORIES, EMERGENCY, TextbookCase

RIGHT, TOO_LATE, TOO_EARLY = "right", "too_late", "too_early"


class CaseDecisions(NamedTuple):
    """The decisions of one agent on C cases, in their order; never ask."""

    all_evidence: tuple[Action, ...]
    """With all evidence of the case known at once."""
    interview: tuple[Action, ...]
    """Led by the agent; or with the evidence revealed in the order of the file, for as long as the agent asks."""
    questions: tuple[int, ...]
    """Number of questions in the interview."""


READINGS = ("all_evidence", "interview")
"""The fields of `CaseDecisions` that are decisions."""
WITHOUT, WITH = "without_rules", "with_rules"


class Counted(NamedTuple):
    """A number of cases, and of each verdict on them."""

    cases: int
    right: int
    too_late: int
    too_early: int


class Miss(NamedTuple):
    """A case whose decision is not right."""

    vignette_id: str
    title: str
    category: str
    allowed: list[str]
    decision: str
    verdict: str


class Later(NamedTuple):
    """An emergency that one agent decides too late, and later than another one; decisions by their labels."""

    vignette_id: str
    title: str
    category: str
    reading: str  # one of `READINGS`
    new: str
    before: str


class CaseResults(NamedTuple):
    """An agent's decisions on all cases, in one of the `READINGS`: counted, and those that are not right."""

    categories: dict[str, Counted]
    """By category, if it has cases, and for `all`."""
    misses: list[Miss]
    """In the order of the file."""


class CaseFigures(NamedTuple):
    """Both readings of all cases."""

    all_evidence: CaseResults
    interview: CaseResults
    questions: float
    """Their mean number in an interview."""

    @property
    def readings(self) -> dict[str, CaseResults]:
        """Each of the `READINGS`."""
        return {name: getattr(self, name) for name in READINGS}


class TextbookFigures(NamedTuple):
    """An agent on textbook cases."""

    cases: str  # their file, as people name it
    without_rules: CaseFigures
    with_rules: CaseFigures | None  # None if none were given

    @property
    def played(self) -> dict[str, CaseFigures]:
        """By the name of the field, what was played."""
        return {name: getattr(self, name) for name in (WITHOUT, WITH) if getattr(self, name) is not None}

    @property
    def served(self) -> CaseFigures:
        """The figures of the agent as it is served: with rules, where there are any."""
        return self.with_rules or self.without_rules

    def described(self) -> Mapping[str, Any]:
        """Returns the figures as JSON holds them."""
        return {"cases": self.cases, **self.played}


def verdict(case: TextbookCase, decision: Action) -> str:
    """Returns `RIGHT`, or `TOO_LATE` for a decision less urgent than allowed, or `TOO_EARLY` for a more urgent one."""
    if decision > case.allowed[-1]:
        return TOO_LATE
    return TOO_EARLY if decision < case.allowed[0] else RIGHT


def case_figures(cases: Sequence[TextbookCase], decided: CaseDecisions) -> CaseFigures:
    """Returns counts and misses of both readings, and the mean number of questions."""
    all_evidence, interview = (_results(list(zip(cases, getattr(decided, name), strict=True))) for name in READINGS)
    return CaseFigures(all_evidence, interview, sum(decided.questions) / len(decided.questions))


def _results(pairs: Sequence[tuple[TextbookCase, Action]]) -> CaseResults:
    groups = {category: [pair for pair in pairs if pair[0].category == category] for category in CATEGORIES}
    return CaseResults(
        {name: _counted(group) for name, group in {**groups, "all": pairs}.items() if group},
        [
            Miss(
                **described(case),
                allowed=[colour.label for colour in case.allowed],
                decision=decision.label,
                verdict=verdict(case, decision),
            )
            for case, decision in pairs
            if verdict(case, decision) != RIGHT
        ],
    )


def _counted(pairs: Sequence[tuple[TextbookCase, Action]]) -> Counted:
    verdicts = [verdict(case, decision) for case, decision in pairs]
    return Counted(len(pairs), *map(verdicts.count, (RIGHT, TOO_LATE, TOO_EARLY)))


def later_emergencies(cases: Sequence[TextbookCase], new: CaseDecisions, before: CaseDecisions) -> list[Later]:
    """Returns the emergencies that `new` decides too late, and later than `before`, in either reading."""
    return [
        Later(**described(case), reading=reading, new=decision.label, before=earlier.label)
        for reading in READINGS
        for case, decision, earlier in zip(cases, getattr(new, reading), getattr(before, reading), strict=True)
        if case.category == EMERGENCY and verdict(case, decision) == TOO_LATE and decision > earlier
    ]


def described(case: TextbookCase) -> dict[str, str]:
    """Returns the fields that identify a case in a report."""
    return {"vignette_id": case.vignette_id, "title": case.title, "category": case.category}
