"""What a reader wants to know first: are the agents as good as the clinicians, and do they find emergencies?"""

from collections.abc import Mapping, Sequence
from typing import Any

from trainer.reporting.numbers import (
    APPROPRIATENESS,
    FEWEST,
    FORCED,
    KAPPA,
    RED_SENSITIVITY,
    SAFETY,
    UNDER_TRIAGE,
    Measure,
    Table,
    count,
    listed,
    number_at,
    several,
    value_at,
    with_interval_if_enough,
)

TERMS = (
    ("DyQN", "the paper's agent, a dynamic Q-network. After each piece of evidence it values each of the four "
     "decisions, and asking for more; it asks as long as asking has the highest value."),
    ("OR query, AND query", "how it values asking: as the probability that its decision would be wrong now or right "
     "after the next piece of evidence (OR), or that it would be wrong now and right then (AND)."),
    ("Partially observed", "an agent whose decisions are those of a supervised classifier; it learns only when to stop "
     "asking. “Fully observed” is such a classifier that sees all evidence of the case and asks nothing."),
    ("Preset default", "the agent that triage train makes today: the same method, with other settings than the "
     "paper's."),
)  # fmt: skip
"""The terms of the report, in order of appearance."""

_AGENTS = {"dyqn_or": ("The paper's agent (DyQN, OR query)", "DyQN, OR query"),
           "default_preset": ("The preset default", "Preset default")}  # fmt: skip
_RULES = ", with safety rules"
_CLINICIANS = "Clinicians"
_SHARES = {
    0.1: "one in ten", 0.2: "one in five", 0.25: "one in four", 1 / 3: "one in three", 0.4: "two in five",
    0.5: "one in two", 0.6: "three in five", 2 / 3: "two in three", 0.75: "three in four", 0.8: "four in five",
    0.9: "nine in ten",
}  # fmt: skip
_ALMOST = 0.05
MARGIN = 0.05
"""Difference of two shares up to which agents are on a par, unless a study says otherwise."""
_RULED, _THE_AGENT = "The agent with safety rules", "The agent"
_NO, _YES, _NOT_SHOWN = "no", "yes", "not shown"
_BELOW, _EQUAL, _ABOVE, _UNKNOWN = "below", "equal", "above", "unknown"


def headline(results: Mapping[str, Any]) -> list[str]:
    """Returns a sentence for each agent: whether it is as good as the clinicians, and how many emergencies it finds.

    Empty if no agent was compared with clinicians.
    """
    sentences = []
    for name, (agent, label) in _AGENTS.items():
        differences = value_at(results, "comparisons", name, "human")
        margin = number_at(results, "comparisons", "margin")
        if not differences or margin is None:
            continue
        word, reason = _verdict(differences, margin)
        sentence = f"{agent}: {word}, {'as ' if word == _NOT_SHOWN else ''}{reason}"
        emergencies = _emergencies(results.get("beside_clinicians") or [], label, label + _RULES)
        sentences.append(f"{sentence}; {emergencies}." if emergencies else f"{sentence}.")
    return sentences


def agent_headline(report: Mapping[str, Any]) -> str:
    """Returns the answer about one agent: whether it is as good as the clinicians, and how many emergencies it finds.

    Args:
        report: as `triage evaluate --json` writes it.
    """
    rows = beside_clinicians(report)
    differences = value_at(report, "as_clinicians", "less_clinicians")
    if differences:
        word, reason = _verdict(differences, MARGIN)
    else:
        least = count(report.get("human_minimum_decisions"))
        word, reason = "not known", f"no vignette has the decisions of {least} clinicians to compare it with"
    red = number_at(rows[0], "metrics", RED_SENSITIVITY.key, "vignettes") or 0
    if red < FEWEST:
        emergencies = f"with {several(round(red), 'emergency', 'emergencies')} nobody can say how many it finds"
    else:
        emergencies = _emergencies(rows, _THE_AGENT, _RULED)
    but = "but " if word == _YES and _finds_fewer(rows) else ""
    return f"{word.capitalize()}: {reason}; {but}{emergencies}."


def _finds_fewer(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether the agent (first row) finds fewer emergencies than the clinicians (last row) by the margin."""
    ours, theirs = (number_at(rows[place], "metrics", RED_SENSITIVITY.key, "mean") for place in (0, -1))
    return ours is not None and theirs is not None and ours < theirs - MARGIN


def beside_clinicians(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the agent, the agent with safety rules, and the clinicians, as far as measured: `label` and `metrics`.

    All are judged by all clinicians but one, or the agent by the clinicians' decisions where those are too few.
    """
    judged = report.get("as_clinicians")
    if judged:
        ruled = value_at(report, "safety_rules", "as_clinicians", "by_all_but_one")
        agent = judged["by_all_but_one"]
        clinicians = (report.get("human") or {}) | (report.get("human_agreement") or {})
    else:
        agent, clinicians = report["agent"] | report["agreement"], None
        effect = value_at(report, "safety_rules", "metrics") or {}
        ruled = {name: compared["with_rules"] for name, compared in effect.items()}
    rows = ((_THE_AGENT, agent), (_RULED, ruled), (_CLINICIANS, clinicians))
    return [{"label": label, "metrics": metrics} for label, metrics in rows if metrics]


def _verdict(differences: Mapping[str, Any], margin: float) -> tuple[str, str]:
    """Returns whether an agent is as good as the clinicians, and why."""
    safety, right = (_place(differences.get(measure.key), margin) for measure in (SAFETY, APPROPRIATENESS))
    if _BELOW in (safety, right):
        worse = [
            words for place, words in ((safety, "less safe"), (right, "less often appropriate")) if place == _BELOW
        ]
        return _NO, f"it is {listed(worse)} than the clinicians"
    if _UNKNOWN in (safety, right):
        vignettes = count(value_at(differences, SAFETY.key, "vignettes"))
        return _NOT_SHOWN, f"{vignettes} vignettes cannot tell it from the clinicians to within {100 * margin:g} points"
    safe = "safer than" if safety == _ABOVE else "as safe as"
    appropriate = "more often appropriate than" if right == _ABOVE else "as often appropriate as"
    return _YES, f"it is {safe} and {appropriate} the clinicians, to within {100 * margin:g} points"


def _place(difference: Any, margin: float) -> str:
    low, high = number_at(difference, "low"), number_at(difference, "high")
    if low is None or high is None:
        return _UNKNOWN
    if -margin <= low and high <= margin:
        return _EQUAL
    if high < 0:
        return _BELOW
    return _ABOVE if low > 0 else _UNKNOWN


def _emergencies(rows: Sequence[Mapping[str, Any]], agent: str, ruled_agent: str) -> str:
    """Returns how many emergencies the agent of the row `agent` found, beside the others; "" if not measured."""
    shares = {value_at(row, "label"): number_at(row, "metrics", RED_SENSITIVITY.key, "mean") for row in rows}
    alone, ruled, clinicians = (shares.get(name) for name in (agent, ruled_agent, _CLINICIANS))
    if alone is None:
        return ""
    others = [
        *([f"with safety rules {in_words(ruled)}"] if ruled is not None else []),
        *([f"the clinicians {in_words(clinicians)}"] if clinicians is not None else []),
    ]
    told = f"it found {in_words(alone)} emergencies"
    return f"{told} ({'; '.join(others)})" if others else told


def in_words(share: float) -> str:
    """Returns a share as people say it, such as "one in five"; the nearest that there is a word for."""
    if share < _ALMOST:
        return "almost no"
    if share > 1 - _ALMOST:
        return "almost all"
    return f"about {_SHARES[min(_SHARES, key=lambda known: abs(known - share))]}"


def beside_table(results: Mapping[str, Any]) -> Table | None:
    """Returns Red cases found, dangerous errors and agreement of agents, agents with rules, and clinicians; or None."""
    caption = (
        "Agents and clinicians side by side: mean (95% interval) on vignettes with three or more decisions. Each takes "
        "the place of one clinician after the other, and is judged by the rest. One training of each agent"
    )
    measures = (RED_SENSITIVITY, UNDER_TRIAGE, KAPPA, SAFETY, APPROPRIATENESS, FORCED)
    return side_by_side(results.get("beside_clinicians") or [], measures, caption)


def side_by_side(rows: Sequence[Mapping[str, Any]], measures: Sequence[Measure], caption: str) -> Table | None:
    """Returns the `measures` of each row (`label` and `metrics`); None without rows."""
    cells = tuple(
        (
            str(value_at(row, "label")),
            *(with_interval_if_enough(measure, value_at(row, "metrics", measure.key)) for measure in measures),
        )
        for row in rows
    )
    return Table(caption, ("Who", *(measure.label for measure in measures)), cells) if cells else None
