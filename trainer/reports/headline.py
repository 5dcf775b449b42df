"""What a reader wants to know first: are the agents as good as the clinicians, and do they find emergencies?"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from trainer.evaluation.estimates import MARGIN, Estimate, Estimates
from trainer.reports.numbers import (
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
    estimate_at,
    listed,
    number_at,
    several,
    value_at,
    with_interval_if_enough,
)
from trainer.vignettes.textbook_case import EMERGENCY

if TYPE_CHECKING:  # it loads TensorFlow
    from trainer.reports.agent_report import AgentReport

TERMS = (
    ("DyQN", "the paper's agent, a dynamic Q-network. After each piece of evidence it values each of the four "
     "decisions, and asking for more; it asks as long as asking has the highest value."),
    ("OR query, AND query", "how it values asking: as the probability that its decision would be wrong now or right "
     "after the next piece of evidence (OR), or that it would be wrong now and right then (AND)."),
    ("Partially observed", "an agent whose decisions are those of a supervised classifier; it learns only when to stop "
     "asking. “Fully observed” is such a classifier that sees all evidence of the case and asks nothing."),
    ("Preset default", "the agent that triage train makes today. It is built on the paper's, and learns more: the "
     "probabilities that each decision is appropriate and safe, and what asking is worth at several prices of a "
     "question, in interviews that it leads itself."),
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
_RULE_OF_THREE = 3
"""Of n cases without a single difference, up to a share of 3/n may still differ (95% confidence)."""
_RULED, _THE_AGENT = "The agent with safety rules", "The agent"
_NO, _YES, _NOT_SHOWN = "no", "yes", "not shown"
_BELOW, _EQUAL, _ABOVE, _UNKNOWN = "below", "equal", "above", "unknown"


class Beside(NamedTuple):
    """One of those that stand side by side."""

    label: str
    metrics: Estimates


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
        rows = _beside(results)
        red = next((_red_cases(row) for row in rows if row.label == label), None)
        word, reason = _verdict({each: estimate_at(differences, each) for each in differences}, margin, red)
        sentence = f"{agent}: {word}, {'as ' if word == _NOT_SHOWN else ''}{reason}"
        emergencies = _emergencies(rows, label, label + _RULES)
        sentences.append(f"{sentence}; {emergencies}." if emergencies else f"{sentence}.")
    return sentences


def agent_headline(report: "AgentReport") -> str:
    """Returns the answer about one agent: whether it is as good as the clinicians, and how many emergencies it finds.

    A second sentence counts the textbook emergencies that come too late, if those were played.
    """
    rows = beside_clinicians(report)
    red = _red_cases(rows[0]) or 0
    constant = best_constant(report)
    if report.as_clinicians is None:
        least = count(report.human_minimum_decisions)
        word, reason = "not known", f"no vignette has the decisions of {least} clinicians to compare it with"
    else:
        word, reason = _verdict(report.as_clinicians.less_clinicians, MARGIN, red)
        if word == _YES and constant.agent <= constant.share:
            word, reason = _NOT_SHOWN, f"on these vignettes it is no better than deciding “{constant.name}”"
    if red < FEWEST:
        emergencies = f"with {several(red, 'emergency', 'emergencies')} nobody can say how many it finds"
    else:
        emergencies = _emergencies(rows, _THE_AGENT, _RULED)
    but = "but " if word == _YES and _finds_fewer(rows) else ""
    return " ".join(filter(None, (f"{word.capitalize()}: {reason}; {but}{emergencies}.", _late_emergencies(report))))


class Constant(NamedTuple):
    """The constant answer that is most often appropriate, beside the agent on the same vignettes; shares in [0, 1]."""

    name: str
    share: float
    agent: float


def best_constant(report: "AgentReport") -> Constant:
    """Returns the constant answer that an agent has to beat."""
    shares = {name: quality[APPROPRIATENESS.key].mean for name, quality in report.constants.items()}
    name = max(shares, key=lambda each: shares[each])
    return Constant(name, shares[name], report.agent[APPROPRIATENESS.key].mean)


def _late_emergencies(report: "AgentReport") -> str:
    """Returns how many textbook emergencies come too late in the interview as it is served; "" if none were played."""
    textbook = report.textbook_cases
    if textbook is None:
        return ""
    emergencies = (textbook.with_rules or textbook.without_rules).interview.categories.get(EMERGENCY)
    if emergencies is None:
        return ""
    rules, late = "with" if textbook.with_rules else "without", emergencies.too_late
    come = "comes" if late == 1 else "come"
    return (
        f"In its interviews {rules} safety rules, {late or 'none'} of {emergencies.cases} textbook emergencies {come} "
        "too late."
    )


def _red_cases(row: Beside) -> int | None:
    """Returns on how many vignettes the share of Red cases rests, None where that is not recorded."""
    red = row.metrics.get(RED_SENSITIVITY.key)
    return None if red is None else red.vignettes


def _finds_fewer(rows: Sequence[Beside]) -> bool:
    """Returns whether the agent (first row) finds fewer emergencies than the clinicians (last row) by the margin."""
    ours, theirs = (rows[place].metrics.get(RED_SENSITIVITY.key) for place in (0, -1))
    return ours is not None and theirs is not None and ours.mean < theirs.mean - MARGIN


def beside_clinicians(report: "AgentReport") -> list[Beside]:
    """Returns the agent, the agent with safety rules, and the clinicians, as far as measured.

    All are judged by all clinicians but one, or the agent by the clinicians' decisions where those are too few.
    """
    effect, judged = report.safety_rules, report.as_clinicians
    rows = [Beside(_THE_AGENT, {**report.agent, **report.agreement} if judged is None else judged.by_all_but_one)]
    if effect is not None:
        ruled = effect.as_clinicians
        by_all = {name: compared.with_rules for name, compared in effect.metrics.items()}
        rows.append(Beside(_RULED, by_all if ruled is None else ruled.by_all_but_one))
    if judged is not None:
        rows.append(Beside(_CLINICIANS, {**(report.human or {}), **(report.human_agreement or {})}))
    return rows


def _beside(results: Mapping[str, Any]) -> list[Beside]:
    """Returns those who stand side by side in a study."""
    rows = results.get("beside_clinicians") or []
    return [Beside(row["label"], {name: estimate_at(row["metrics"], name) for name in row["metrics"]}) for row in rows]


def _verdict(differences: Estimates, margin: float, red: int | None) -> tuple[str, str]:
    """Returns whether an agent is as good as the clinicians, and why.

    "As good as" is non-inferiority: the 95% intervals of both differences lie above `-margin`. There is no verdict on
    fewer vignettes than could show it even without a single difference, no "yes" on fewer than `FEWEST` emergencies.

    Args:
        differences: the agent less the clinicians, on the same vignettes.
        margin: in (0, 1).
        red: number of emergencies among them, None where it is not recorded.
    """
    points = f"{100 * margin:g} percentage points"
    measured, least = differences.get(SAFETY.key), math.ceil(_RULE_OF_THREE / margin)
    vignettes = (measured and measured.vignettes) or 0
    on = several(vignettes, "vignette")
    if vignettes < least:
        compared = "is" if vignettes == 1 else "are"
        return _NOT_SHOWN, f"{on} {compared} too few to compare it with clinicians (a margin of {points} takes {least})"
    safety, right = (_place(differences.get(measure.key), margin) for measure in (SAFETY, APPROPRIATENESS))
    if _BELOW in (safety, right):
        worse = [
            words for place, words in ((safety, "less safe"), (right, "less often appropriate")) if place == _BELOW
        ]
        return _NO, f"it is {listed(worse)} than the clinicians"
    if _UNKNOWN in (safety, right):
        unsure = [words for place, words in ((safety, "safe"), (right, "often appropriate")) if place == _UNKNOWN]
        less = f"less {' or less '.join(unsure)} than the clinicians by more than {points}"
        return _NOT_SHOWN, f"on {on} it may still be {less}"
    if red is not None and red < FEWEST:
        return _NOT_SHOWN, f"{on} test it on too few emergencies ({FEWEST} are needed)"
    safe = "safer than" if safety == _ABOVE else "as safe as"
    appropriate = "more often appropriate than" if right == _ABOVE else "as often appropriate as"
    return _YES, (f"it is {safe} and {appropriate} the clinicians (non-inferior with a margin of {points}, on {on})")


def _place(difference: Estimate | None, margin: float) -> str:
    if difference is None or difference.low is None or difference.high is None:
        return _UNKNOWN
    if difference.low >= -margin:
        return _ABOVE if difference.low > 0 else _EQUAL
    return _BELOW if difference.high < 0 else _UNKNOWN


def _emergencies(rows: Sequence[Beside], agent: str, ruled_agent: str) -> str:
    """Returns how many emergencies the agent of the row `agent` found, beside the others; "" if not measured."""
    of_red = {row.label: row.metrics.get(RED_SENSITIVITY.key) for row in rows}
    shares = {label: None if red is None else red.mean for label, red in of_red.items()}
    alone, ruled, clinicians = (shares.get(name) for name in (agent, ruled_agent, _CLINICIANS))
    if alone is None:
        return ""
    others = [
        *([f"with safety rules {in_words(ruled)}"] if ruled is not None else []),
        *([f"the clinicians {in_words(clinicians)}"] if clinicians is not None else []),
    ]
    sentence = f"it found {in_words(alone)} emergencies"
    return f"{sentence} ({'; '.join(others)})" if others else sentence


def in_words(share: float) -> str:
    """Returns a share as people say it, such as "one in five"; the nearest that there is a word for."""
    if share < _ALMOST:
        return "almost no"
    if share > 1 - _ALMOST:
        return "almost all"
    return f"about {_SHARES[min(_SHARES, key=lambda known: abs(known - share))]}"


def beside_table(results: Mapping[str, Any]) -> Table | None:
    """Returns Red sensitivity, dangerous errors and agreement of agents, agents with rules, and clinicians; or None."""
    caption = (
        "Agents and clinicians side by side: mean (95% interval) on vignettes with three or more decisions. Each takes "
        "the place of one clinician after the other, and is judged by the rest. One training of each agent"
    )
    measures = (RED_SENSITIVITY, UNDER_TRIAGE, KAPPA, SAFETY, APPROPRIATENESS, FORCED)
    return side_by_side(_beside(results), measures, caption)


def side_by_side(rows: Sequence[Beside], measures: Sequence[Measure], caption: str) -> Table | None:
    """Returns the `measures` of each row; None without rows."""
    cells = tuple(
        (row.label, *(with_interval_if_enough(measure, row.metrics.get(measure.key)) for measure in measures))
        for row in rows
    )
    return Table(caption, ("Who", *(measure.label for measure in measures)), cells) if cells else None
