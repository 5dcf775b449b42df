"""Tables and sentences of the report on one agent."""

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.promise import NOT_COVERED
from trainer.evaluation.cases import TOO_LATE
from trainer.evaluation.estimates import MARGIN
from trainer.evaluation.slices import FALSE_DISCOVERIES
from trainer.reports.agent_figures import MOST_SLICES, shown_slices, slice_name
from trainer.reports.agent_report import AgentReport
from trainer.reports.headline import beside_clinicians, best_constant, side_by_side
from trainer.reports.numbers import (
    APPROPRIATENESS,
    EVIDENCE_SEEN,
    FORCED,
    KAPPA,
    NONE,
    OVER_TRIAGE,
    QUESTIONS,
    RED_SENSITIVITY,
    SAFETY,
    Table,
    count,
    difference,
    listed,
    several,
    shown,
    with_interval,
)
from trainer.reports.sentences import FEW_VIGNETTES
from trainer.training import promises
from trainer.vignettes.textbook_case import EMERGENCY

_MOST_GAPS = 20
_CHOSEN = {
    "default": "chosen in training",
    "neutral": "not chosen, as training had not ended at this step or held nothing out",
    "given": "given as an option",
}
_READINGS = {"all_evidence": "all evidence", "interview": "interview"}
_PLAYED = {"without_rules": "", "with_rules": ", with rules"}


def own_beside_table(report: AgentReport) -> Table | None:
    """Returns the agent, the agent with safety rules, and the clinicians side by side."""
    judged = report.as_clinicians
    measures = (RED_SENSITIVITY, SAFETY, APPROPRIATENESS, OVER_TRIAGE, KAPPA)
    if judged:
        least = count(report.human_minimum_decisions)
        caption = (
            f"Mean (95% interval) on the {count(judged.vignettes)} vignettes with {least} or more decisions. Each "
            "takes the place of one clinician after the other, and is judged by the rest"
        )
    else:
        caption = f"Mean (95% interval) on {count(report.vignettes)} vignettes, judged by all clinicians' decisions"
    return side_by_side(beside_clinicians(report), measures, caption)


def answers(report: AgentReport) -> list[tuple[str, str]]:
    """Returns headings with sentences: how it compares, what rules change, and how it asks and decides."""
    candidates = (
        ("Compared with clinicians", _compared(report)),
        ("With safety rules", _ruled(report)),
        ("How much it asks", _asking(report)),
        ("How it decides", _point(report)),
        ("What promises were asked for", " ".join(map(promises.in_words, report.promises))),
        ("What no promise covers", "; ".join(NOT_COVERED) if any(each.kept for each in report.promises) else ""),
        ("Compared with a constant answer", _constant(report)),
    )
    return [(heading, text) for heading, text in candidates if text]


def _compared(report: AgentReport) -> str:
    if report.as_clinicians is None:
        return (
            "No vignette has enough decisions: a clinician can be judged only by others who decided on the same case. "
            "All figures here judge the agent alone."
        )
    differences = report.as_clinicians.less_clinicians
    parts = (f"{measure.label.lower()} {difference(measure, differences.get(measure.key))} percentage points"
             for measure in (SAFETY, APPROPRIATENESS))  # fmt: skip
    return (
        f"The agent less the clinicians, vignette by vignette, with 95% intervals: {listed(list(parts))}. “As good as” "
        f"means non-inferiority: both intervals lie above {-100 * MARGIN:g} points."
    )


def _ruled(report: AgentReport) -> str:
    effect = report.safety_rules
    if effect is None:
        reason = (report.no_safety_rules or "there are none").removeprefix("no safety rules: ")
        return f"It was not played with safety rules: {reason}."
    safety, over = (difference(each, effect.metrics[each.key].difference) for each in (SAFETY, OVER_TRIAGE))
    return (
        f"{several(len(effect.rules['rules']), 'rule')} ({effect.rules['source']}) change the decision in "
        f"{shown(SAFETY, effect.changed)} of the episodes: safety by {safety} points, "
        f"over-triage by {over} points, judged by all clinicians."
    )


def _asking(report: AgentReport) -> str:
    agent = report.agent
    return (
        f"{with_interval(QUESTIONS, agent['questions'])} questions on average, which end with "
        f"{with_interval(EVIDENCE_SEEN, agent['evidence_seen'])} of a vignette's {report.mean_evidence:.1f} pieces "
        f"of evidence known. The limit of {report.max_questions} questions forced "
        f"{with_interval(FORCED, agent['forced'])} of the decisions."
    )


def _point(report: AgentReport) -> str:
    point = report.operating_point
    if point is None:
        return "By its Q-values alone: it triages as soon as a decision is worth more than asking."
    stop = f"that is worth more than going on at {point.price:.2g} a question"
    if point.sure_enough is not None:
        stop += f" and at least {point.sure_enough:g} of the possible value"
    return (
        f"It takes the decision with the highest P(appropriate) + {point.safety_weight:g} P(safe), and asks until "
        f"{stop}; the weight was {_CHOSEN[point.chosen]}."
    )


def _constant(report: AgentReport) -> str:
    best = best_constant(report)
    quality = report.constants[best.name][APPROPRIATENESS.key]
    said = f"Deciding “{best.name}” is appropriate in {with_interval(APPROPRIATENESS, quality)}"
    if best.agent <= best.share:
        return f"{said}: the agent is no better."
    return f"{said}; the agent in {with_interval(APPROPRIATENESS, report.agent[APPROPRIATENESS.key])}."


def gaps_table(report: AgentReport) -> Table | None:
    """Returns the groups of patients for whom the agent is worse than for the others, the widest gap first."""
    worse = sorted(report.gaps.worse, key=lambda gap: gap.difference.mean)
    measures = {measure.key: measure for measure in (SAFETY, APPROPRIATENESS)}
    rows = tuple(
        (
            slice_name(gap.by, gap.value),
            count(gap.vignettes),
            measures[gap.metric].label,
            shown(SAFETY, gap.mean),
            shown(SAFETY, gap.others),
            difference(SAFETY, gap.difference),
        )
        for gap in worse[:_MOST_GAPS]
    )
    columns = ("Group", "Vignettes", "Measure", "There", "Elsewhere", "Difference (95% interval)")
    return Table("Where the agent is worse than elsewhere", columns, rows) if rows else None


def gaps_sentence(report: AgentReport) -> str:
    """Returns for how many groups the agent is worse, of how many comparisons, and how those were corrected."""
    worse, comparisons = report.gaps
    if not comparisons:
        return "No group of patients is large enough to be compared with the others: that takes ten vignettes in both."
    names = list(dict.fromkeys(slice_name(gap.by, gap.value) for gap in worse))
    groups = f"The agent is worse for {several(len(names), 'group')} of patients" if names else (
        "For no group of patients is the agent shown to be worse than for the others"
    )  # fmt: skip
    more = f" The {_MOST_GAPS} widest gaps are listed." if len(worse) > _MOST_GAPS else ""
    return (
        f"{groups}, in {several(comparisons, 'comparison')} of safety and appropriateness. They are corrected for "
        f"their number: of the gaps that are named, one in {1 / FALSE_DISCOVERIES:.0f} is expected to be due to "
        f"chance.{more}"
    )


def slices_notes(report: AgentReport) -> list[str]:
    """Returns what the figure of slices leaves out."""
    notes = []
    kinds = {entry.by for entry in report.slices}
    lacking = [kind for kind in ("age", "sex") if kind not in kinds]
    if lacking:
        notes.append(
            f"Not measured by {listed(lacking)}: no vignette names it by a code that begins with "
            f"{listed([f'“{kind}_”' for kind in lacking])}. Other codes can be named when the report is made."
        )
    left_out = len(report.slices) - len(shown_slices(report))
    if left_out:
        notes.append(
            f"Of each tag, the {MOST_SLICES} largest slices are shown; {left_out} more are in the figures as JSON."
        )
    return notes


def textbook_table(report: AgentReport) -> Table | None:
    """Returns the textbook cases that were right and too late, by category; None if none were played."""
    textbook = report.textbook_cases
    if textbook is None:
        return None
    played = [
        (f"{_READINGS[name].capitalize()}{_PLAYED[rules]}", reading.categories)
        for rules, figures in textbook.played.items()
        for name, reading in figures.readings.items()
    ]
    columns = ("Category", "Cases", *(label for label, _ in played))
    rows = tuple(
        (
            name.replace("self_care", "self-care"),
            count(counted.cases),
            *(f"{categories[name].right} ({categories[name].too_late} late)" for _, categories in played),
        )
        for name, counted in textbook.without_rules.interview.categories.items()
    )
    return Table("Textbook cases that are right, and that are triaged too late", columns, rows)


def missed_emergencies(report: AgentReport) -> list[str]:
    """Returns a sentence for each textbook emergency that is triaged too late."""
    missed: dict[str, list[str]] = {}
    for rules, figures in (report.textbook_cases.played if report.textbook_cases else {}).items():
        for name, reading in figures.readings.items():
            for miss in reading.misses:
                if miss.category == EMERGENCY and miss.verdict == TOO_LATE:
                    missed.setdefault(miss.title, []).append(f"{miss.decision} ({_READINGS[name]}{_PLAYED[rules]})")
    return [f"{title}: {', '.join(decisions)}" for title, decisions in missed.items()]


def own_limits(report: AgentReport) -> list[str]:
    """Returns the limits of the figures, first those of this evaluation."""
    sentences = [f"{caution[:1].upper()}{caution[1:]}." for caution in report.cautions]
    if report.simulated:
        sentences.append(
            "Simulated clinicians make only the errors of the simulator, and simulated cases are tidier than real ones."
        )
    if report.vignettes < FEW_VIGNETTES:
        sentences.append(
            f"The {report.split} split has {count(report.vignettes)} vignettes: each changes a share by "
            f"{100 / report.vignettes:.1f} percentage points."
        )
    if report.split == "train":
        sentences.append("These are the vignettes that the agent learned from: on new ones it is worse.")
    return [
        *sentences,
        "The reference is the decisions of a few clinicians. A decision that they all share can be wrong, and one that "
        "none of them made can be right.",
        "Evidence comes in random order, and answers are always correct. Patients err, and are asked in another order.",
        "Intervals are 95% bootstrap intervals of the mean over vignettes. They do not cover chance in training: "
        "another training of the same data moves these figures by a point or two.",
        "Slices overlap, and a group can be worse because its cases are harder: compare it with clinicians on the same "
        "cases before you conclude anything.",
        "No figure here comes from use with patients. Clinical use requires clinical validation before and after "
        "deployment.",
    ]


def facts(report: AgentReport, provenance: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Returns what was measured on what, and with which versions."""
    versions = {"dyqn_triage": "dyqn-triage", "python": "Python", "tensorflow": "TensorFlow"}
    training = report.training
    return [
        ("Agent", f"{report.job_dir}, after {several(training['steps'], 'step')} and "
         f"{several(training['episodes'], 'episode')}; {several(report.networks, 'network')}"),
        ("Vignettes", f"{report.data}, {report.split} split, {count(report.vignettes)}, each in "
         f"{several(report.orders, 'evidence order')} (seed {report.seed})"),
        ("Fingerprint of these data", report.data_fingerprint),
        ("Fingerprint of the data learned from", report.trained_on),
        ("Fingerprint of the vocabulary", report.vocabulary_fingerprint),
        ("Versions", ", ".join(f"{label} {provenance.get(key) or NONE}" for key, label in versions.items())),
        ("Finished", str(provenance.get("finished") or NONE)),
    ]  # fmt: skip
