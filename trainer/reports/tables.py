"""The tables of a study's report."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from schemas.triage import ACTION_LABELS, DECISION_LABELS
from trainer.evaluation.estimates import Estimate
from trainer.reports.numbers import (
    APPROPRIATENESS,
    EVIDENCE_SEEN,
    MEASURES,
    NONE,
    QUESTIONS,
    SAFETY,
    TARGETS,
    Measure,
    Table,
    agents_of,
    count,
    difference,
    estimate_at,
    interval,
    number_at,
    shown,
    spread,
    value_at,
    with_interval,
)

_QUALITY = (APPROPRIATENESS, SAFETY)
_WITH_ALL_EVIDENCE = ("human", "fully_observed")
_ANSWERS = {"present": "yes", "absent": "no", None: "not known (no evidence left)"}


class Cell(NamedTuple):
    """One figure of one agent."""

    mean: str
    spread: str | None  # standard deviation over seeds
    interval: str | None
    paper: str | None  # None where the table has no column for it


class ResultsRow(NamedTuple):
    """One agent of the results table."""

    label: str
    split: str
    learns: bool
    cells: tuple[Cell, ...]  # one a measure


class Step(NamedTuple):
    """One step of an episode: the question, its answer, and what the agent decides by."""

    evidence: str
    answer: str
    values: tuple[tuple[str, float | None, bool], ...]  # action, value, whether it is the highest
    action: str


class Card(NamedTuple):
    """One vignette that the agent triaged wrongly."""

    vignette_id: str
    text: str
    decisions: tuple[str, ...]
    decision: str
    decided_on: str  # such as "1 of 6 pieces"
    rules: tuple[tuple[str, str], ...]  # id and urgency of each safety rule that would have made it more urgent
    steps: tuple[Step, ...]
    effects: tuple[tuple[str, str, str], ...]  # evidence, answer, and what leaving it out changes; the largest first

    @property
    def levels_too_low(self) -> int:
        """Number of levels by which the agent is less urgent than the least urgent clinician; 0 if it is not."""
        places = [DECISION_LABELS.index(label) for label in self.decisions if label in DECISION_LABELS]
        if not places or self.decision not in DECISION_LABELS:
            return 0
        return max(0, DECISION_LABELS.index(self.decision) - max(places))


def results_rows(results: Mapping[str, Any]) -> list[ResultsRow]:
    """Returns the agents' figures beside the paper's (paper, table "Average performance on the test set")."""
    return [
        ResultsRow(
            str(value_at(agent, "label") or name),
            str(value_at(agent, "split") or NONE),
            bool(value_at(agent, "learns")),
            tuple(_cell(name, agent, measure) for measure in MEASURES),
        )
        for name, agent in agents_of(results).items()
    ]


def _cell(name: str, agent: Any, measure: Measure) -> Cell:
    paper = shown(measure, number_at(agent, "paper", measure.key)) if measure in TARGETS else None
    estimate = estimate_at(agent, "metrics", measure.key)
    if estimate is None and measure in (QUESTIONS, EVIDENCE_SEEN) and name in _WITH_ALL_EVIDENCE:
        return Cell("all", None, None, "all" if paper else None)
    deviation = number_at(agent, "metrics", measure.key, "sd_over_seeds")
    return Cell(
        shown(measure, estimate and estimate.mean),
        None if deviation is None else spread(measure, deviation),
        interval(measure, estimate),
        paper,
    )


def claims_table(results: Mapping[str, Any]) -> Table | None:
    """Returns each claim, the paper's numbers, the outcome, and this study's numbers; None without claims."""
    rows = tuple(
        tuple(str(value_at(claim, key) or NONE) for key in ("claim", "paper", "outcome", "numbers"))
        for claim in results.get("claims") or []
    )
    caption = (
        "The paper's claims and ours, each judged by the 95% interval of a difference between figures made in the same "
        f"way: it holds, it fails, or this study does not show which. {_margin(results)}"
        f"Of {len(rows)} claims, one or two intervals miss by chance"
    )
    return Table(caption, ("Claim", "Paper", "Here", "Numbers"), rows) if rows else None


def _margin(results: Mapping[str, Any]) -> str:
    margin = number_at(results, "comparisons", "margin")
    if margin is None:
        return ""
    return f"“On a par” means within {100 * margin:g} percentage points on both sides. "


def alike_table(results: Mapping[str, Any]) -> Table | None:
    """Returns appropriateness and safety of agents and clinicians that are judged alike; None if none were."""
    rows = tuple(
        (
            str(value_at(agent, "label") or name),
            *(with_interval(measure, estimate_at(agent, "as_clinicians", measure.key)) for measure in _QUALITY),
        )
        for name, agent in agents_of(results).items()
        if value_at(agent, "as_clinicians")
    )
    caption = (
        "On the vignettes with three or more decisions, each judged by all clinicians but one, so that agents and "
        "clinicians compare: mean (95% interval)"
    )
    return Table(caption, ("Who", *(measure.label for measure in _QUALITY)), rows) if rows else None


def ablations_table(results: Mapping[str, Any]) -> Table | None:
    """Returns the effect of changing one setting; None without ablations."""
    measures = (APPROPRIATENESS, SAFETY, QUESTIONS, EVIDENCE_SEEN)
    rows = tuple(
        (
            str(value_at(entry, "name")),
            *(_with_spread(measure, value_at(entry, "metrics", measure.key)) for measure in measures),
        )
        for entry in results.get("ablations") or []
    )
    columns = ("Variant", *(measure.label for measure in measures))
    return Table("Ablations: mean (standard deviation over seeds)", columns, rows) if rows else None


def _with_spread(measure: Measure, estimate: Any) -> str:
    mean, deviation = shown(measure, number_at(estimate, "mean")), number_at(estimate, "sd_over_seeds")
    return mean if deviation is None else f"{mean} ({spread(measure, deviation)})"


def coverage_tables(results: Mapping[str, Any]) -> list[Table]:
    """Returns how many states training visited, and the quality by distance from them; none if not measured."""
    coverage = results.get("coverage")
    if not coverage:
        return []
    visited = tuple(
        (count(each["pieces"]), count(each["states"]), shown(SAFETY, each["visited"])) for each in coverage["by_pieces"]
    )
    farthest = coverage["by_distance"][-1]["distance"]
    quality = tuple(
        (
            f"{each['distance']}{' or more' if each['distance'] == farthest else ''}",
            count(each["states"]),
            *(
                with_interval(measure, Estimate(each[measure.key], *each["intervals"][measure.key]))
                for measure in _QUALITY
            ),
        )
        for each in coverage["by_distance"]
    )
    return [
        Table(
            "Of states that the training vignettes hold (D_pow), the share among the "
            f"{count(coverage['visited'])} that training visited",
            ("Pieces of evidence", "States", "Visited"),
            visited,
        ),
        Table(
            "Quality on states of the test vignettes, by the number of pieces in which the nearest visited one differs",
            ("Distance", "States", *(measure.label for measure in _QUALITY)),
            quality,
        ),
    ]


def unseen_table(results: Mapping[str, Any]) -> Table | None:
    """Returns the agent's figures on conditions seen and not seen in training; None if not measured."""
    unseen = results.get("unseen")
    if not unseen:
        return None
    measures = (QUESTIONS, EVIDENCE_SEEN, APPROPRIATENESS, SAFETY)
    rows = tuple(
        (
            measure.label,
            with_interval(measure, estimate_at(unseen, "seen", measure.key)),
            with_interval(measure, estimate_at(unseen, "unseen", measure.key)),
            difference(measure, estimate_at(unseen, "difference", measure.key)),
        )
        for measure in measures
    )
    columns = ("Metric", "Seen in training", "Held out of training", "Difference (shares: points)")
    return Table("Conditions seen in training and held out of it: mean (95% interval)", columns, rows)


def agreement_sentences(results: Mapping[str, Any]) -> list[str]:
    """Returns sentences on Red cases and on the agreement with the clinicians."""
    red, kappa = (estimate_at(results, "agreement", name) for name in ("red_sensitivity", "kappa"))
    sentences = []
    if red is not None:
        on = f", on {count(red.vignettes)} vignettes" if red.vignettes is not None else ""
        sentences.append(f"The agent finds {with_interval(SAFETY, red)} of the Red cases{on}.")
    if kappa is not None:
        measured = with_interval(QUESTIONS, kappa)
        sentences.append(
            f"Agreement with the clinicians, quadratic weighted kappa: {measured}; 1 is full agreement, 0 is chance."
        )
    return sentences


def cards(errors: Sequence[Mapping[str, Any]]) -> list[Card]:
    """Returns the vignettes that the agent triaged wrongly, the worst first; see `walk.worst_cases`."""
    return [
        Card(
            str(value_at(error, "vignette_id")),
            str(value_at(error, "text") or ""),
            tuple(str(label) for label in value_at(error, "decisions") or []),
            str(value_at(error, "decision")),
            f"{count(value_at(error, 'pieces', 'known'))} of {count(value_at(error, 'pieces', 'all'))} pieces",
            tuple((str(rule["rule_id"]), str(rule["urgency"])) for rule in value_at(error, "rules") or []),
            _steps(value_at(error, "steps") or []),
            tuple(_effect(each) for each in value_at(error, "effects") or []),
        )
        for error in errors
    ]


def _effect(each: Any) -> tuple[str, str, str]:
    effect = number_at(each, "effect")
    answer = _ANSWERS.get(value_at(each, "presence"), NONE)
    return str(value_at(each, "evidence") or NONE), answer, NONE if effect is None else f"{effect:.3f}"


def _steps(steps: Sequence[Any]) -> tuple[Step, ...]:
    """Returns the steps; those that asked when nothing was left to know are one."""
    in_vain = [step for step in steps if value_at(step, "presence") is None]
    if len(in_vain) < 2:
        return tuple(map(_step, steps))
    last = {**in_vain[-1], "evidence": f"{value_at(in_vain[-1], 'evidence')}, {len(in_vain)} times"}
    return tuple(map(_step, [*(step for step in steps if value_at(step, "presence") is not None), last]))


def _step(step: Any) -> Step:
    known = {action: number_at(step, "values", action) for action in ACTION_LABELS}
    highest = max((q for q in known.values() if q is not None), default=None)
    return Step(
        str(value_at(step, "evidence") or NONE),
        _ANSWERS.get(value_at(step, "presence"), NONE),
        tuple((action, q, q is not None and q == highest) for action, q in known.items()),
        str(value_at(step, "action") or NONE),
    )


def flat(tree: Any, prefix: str = "") -> Sequence[tuple[str, str]]:
    """Returns nested settings as pairs of a dotted name and a value."""
    if isinstance(tree, Mapping):
        return [line for key, value in tree.items() for line in flat(value, f"{prefix}.{key}" if prefix else str(key))]
    if isinstance(tree, list | tuple):
        return [(prefix, ", ".join(str(value) for value in tree) or NONE)]
    return [(prefix, NONE if tree is None else str(tree))]
