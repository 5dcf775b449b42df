"""What a reader wants to know first: are the agents as good as the clinicians, and do they find emergencies?"""

from collections.abc import Mapping
from typing import Any

from trainer.reporting.numbers import (
    APPROPRIATENESS,
    FORCED,
    KAPPA,
    RED_SENSITIVITY,
    SAFETY,
    UNDER_TRIAGE,
    Table,
    count,
    listed,
    number_at,
    value_at,
    with_interval,
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
        sentence = f"{agent}: {_verdict(differences, margin)}"
        emergencies = _emergencies(results, label)
        sentences.append(f"{sentence}; {emergencies}." if emergencies else f"{sentence}.")
    return sentences


def _verdict(differences: Mapping[str, Any], margin: float) -> str:
    safety, right = (_place(differences.get(measure.key), margin) for measure in (SAFETY, APPROPRIATENESS))
    if _BELOW in (safety, right):
        worse = [
            words for place, words in ((safety, "less safe"), (right, "less often appropriate")) if place == _BELOW
        ]
        return f"no, it is {listed(worse)} than the clinicians"
    if _UNKNOWN in (safety, right):
        vignettes = count(value_at(differences, SAFETY.key, "vignettes"))
        return (
            f"not shown, as {vignettes} vignettes cannot tell it from the clinicians to within {100 * margin:g} points"
        )
    safe = "safer than" if safety == _ABOVE else "as safe as"
    appropriate = "more often appropriate than" if right == _ABOVE else "as often appropriate as"
    return f"yes, it is {safe} and {appropriate} the clinicians, to within {100 * margin:g} points"


def _place(difference: Any, margin: float) -> str:
    low, high = number_at(difference, "low"), number_at(difference, "high")
    if low is None or high is None:
        return _UNKNOWN
    if -margin <= low and high <= margin:
        return _EQUAL
    if high < 0:
        return _BELOW
    return _ABOVE if low > 0 else _UNKNOWN


def _emergencies(results: Mapping[str, Any], label: str) -> str:
    shares = {
        value_at(row, "label"): number_at(row, "metrics", RED_SENSITIVITY.key, "mean")
        for row in results.get("beside_clinicians") or []
    }
    alone, ruled, clinicians = (shares.get(name) for name in (label, label + _RULES, _CLINICIANS))
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
    measures = (RED_SENSITIVITY, UNDER_TRIAGE, KAPPA, SAFETY, APPROPRIATENESS, FORCED)
    rows = tuple(
        (
            str(value_at(row, "label")),
            *(with_interval(measure, value_at(row, "metrics", measure.key)) for measure in measures),
        )
        for row in results.get("beside_clinicians") or []
    )
    columns = ("Who", *(measure.label for measure in measures))
    caption = (
        "Agents and clinicians side by side: mean (95% interval) on vignettes with three or more decisions. Each takes "
        "the place of one clinician after the other, and is judged by the rest. One training of each agent"
    )
    return Table(caption, columns, rows) if rows else None
