"""The agent beside the clinicians: one list of rows for the terminal, the page, the notebook and the JSON file."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from trainer.evaluation.estimates import MARGIN, AsClinicians, Baselines, Estimate, Estimates, RuleEffect
from trainer.evaluation.slices import MINIMUM_VIGNETTES
from trainer.reports.numbers import (
    APPROPRIATENESS,
    MEASURES,
    NONE,
    RED_SENSITIVITY,
    SAFETY,
    Measure,
    Table,
    count,
    difference,
    with_interval_if_enough,
)

LEAST_VIGNETTES = math.ceil(3 / MARGIN)
"""Of n cases without a single difference, up to a share of 3/n may still differ (95% confidence, the rule of three)."""


class ComparedMeasure(NamedTuple):
    """A measure of the agent and of the clinicians; None where it does not exist."""

    measure: str
    agent: Estimate | None
    with_rules: Estimate | None  # the agent with safety rules, if it was played with them
    clinicians: Estimate | None
    difference: Estimate | None  # the agent less the clinicians, vignette by vignette


class Comparison(NamedTuple):
    """An agent beside the clinicians."""

    vignettes: int
    """On which clinicians are scored against the others, and the agent against all but one; 0 if there are none. The
    agent's own figures are then by all clinicians. Questions and evidence are always those on all vignettes."""
    rows: Sequence[ComparedMeasure]
    verdict: str | None  # one line; None without evidence for one


def compare(
    agent: Estimates, baselines: Baselines, judged: AsClinicians | None, ruled: RuleEffect | None
) -> Comparison:
    """Returns the rows of `MEASURES`, and a verdict if there is evidence for one.

    The figures of the `agent` are on all vignettes, scored against all clinicians. It is not `judged` by leave-one-out
    if no vignette has enough decisions, and not `ruled` if no safety rules were played.
    """
    ours = {**agent, **(judged.by_all_but_one if judged else {})}
    clinicians = {**(baselines.human or {}), **(baselines.human_agreement or {})} if judged else {}
    differences = judged.less_clinicians if judged else {}
    with_rules: dict[str, Estimate | None] = {}
    if ruled is not None:
        with_rules |= {name: compared.with_rules for name, compared in ruled.metrics.items()}
        with_rules |= ruled.as_clinicians.by_all_but_one if ruled.as_clinicians else {}
    rows = [
        ComparedMeasure(key, *(estimates.get(key) for estimates in (ours, with_rules, clinicians, differences)))
        for key in (measure.key for measure in MEASURES)
    ]
    red, quality = ours.get(RED_SENSITIVITY.key), agent[APPROPRIATENESS.key]
    constant = max(each[APPROPRIATENESS.key].mean for each in baselines.constants.values())
    beats_constants = quality is not None and quality.mean > constant
    verdict = _verdict(differences, (red and red.vignettes) or 0, beats_constants)
    return Comparison(judged.vignettes if judged else 0, rows, verdict)


def _verdict(differences: Estimates, red_cases: int, beats_constants: bool) -> str | None:
    """Returns whether an agent is as good as the clinicians, None where these vignettes do not show it.

    "As good as" is non-inferiority: the 95% intervals of both differences, in safety and in appropriateness, lie above
    -`MARGIN`. It takes `LEAST_VIGNETTES`, enough emergencies, and more than a constant answer. "Not as good" is an
    interval that lies below 0 and reaches below -`MARGIN`, of these or of Red sensitivity.
    """
    safety, appropriateness, red = (differences.get(each.key) for each in (SAFETY, APPROPRIATENESS, RED_SENSITIVITY))
    if safety is None or appropriateness is None or safety.ends is None or appropriateness.ends is None:
        return None
    if (safety.vignettes or 0) < LEAST_VIGNETTES:
        return None
    below = {
        measure.label.lower(): high < 0
        for measure, (low, high) in ((SAFETY, safety.ends), (APPROPRIATENESS, appropriateness.ends))
        if low < -MARGIN
    }
    lower = [name for name, surely in below.items() if surely]
    enough_red = red_cases >= MINIMUM_VIGNETTES
    if enough_red and red and red.ends and red.ends[0] < -MARGIN and red.ends[1] < 0:
        lower.append(RED_SENSITIVITY.label)
    if lower:
        return f"Not as good as the clinicians: lower in {', '.join(lower)}."
    if below or not enough_red or not beats_constants:
        return None
    points = f"{100 * MARGIN:g} percentage points"
    but = f", but its Red sensitivity may be lower by more than {points}" if red and red.mean < -MARGIN else ""
    return f"As good as the clinicians in safety and appropriateness, within {points}{but}."


def comparison_table(
    comparison: Comparison, minimum_decisions: int, rules: bool = True, measures: Sequence[Measure] = MEASURES
) -> Table:
    """Returns the rows of `measures` as texts; with `rules`, also the agent with safety rules, if it was so played."""
    rules = rules and any(row.with_rules for row in comparison.rows)
    columns = ("Measure", "Agent", *(("With safety rules",) if rules else ()), "Clinicians", "Agent minus clinicians")
    found, rows = {row.measure: row for row in comparison.rows}, []
    for measure in measures:
        row = found[measure.key]
        means = (row.agent, *((row.with_rules,) if rules else ()), row.clinicians)
        cells = [with_interval_if_enough(measure, each) for each in means]
        enough = row.difference is None or (row.difference.vignettes or 0) >= MINIMUM_VIGNETTES
        rows.append((measure.label, *cells, difference(measure, row.difference) if enough else NONE))
    on = (
        f"on the {count(comparison.vignettes)} vignettes with {minimum_decisions} decisions or more, agent and "
        "clinicians scored against all clinicians but one; questions and other counts on all vignettes"
        if comparison.vignettes
        else f"scored against all clinicians, as no vignette has {minimum_decisions} decisions"
    )
    return Table(f"mean (95% interval) {on}. Differences of shares in percentage points", columns, tuple(rows))
