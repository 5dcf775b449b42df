"""The report on one agent, as `triage evaluate --html` writes it: one page that a clinician reads."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from schemas.promise import NOT_COVERED
from schemas.triage import ACTION_LABELS, DECISION_LABELS
from trainer.evaluation.estimates import Calibration, ReliabilityBin
from trainer.evaluation.slices import FALSE_DISCOVERIES, MINIMUM_VIGNETTES
from trainer.reports import tables
from trainer.reports.agent_report import AgentReport
from trainer.reports.drawing import Drawing, Subplot, colour
from trainer.reports.numbers import APPROPRIATENESS, NONE, SAFETY, Table, count, several, shown, with_interval
from trainer.reports.page import clean, page
from trainer.training import promises

_MOST_SLICES = 8
"""Values of one tag that the page shows, the largest ones; `--json` has all of them."""
_SIMULATED = {
    True: "Vignettes and clinicians' decisions are simulated: the figures say nothing about patients.",
    None: "It is not recorded whether the vignettes and decisions are simulated.",
}
_ANSWERS = {"present": "yes", "absent": "no", None: "not known (no evidence left)"}


def agent_page(report: AgentReport, provenance: Mapping[str, Any]) -> str:
    """Returns the page; sections for which something is missing say so."""
    report, provenance = clean(report), clean(provenance)
    textbook = report.textbook_cases
    return page(
        "agent.html.jinja",
        {"calibration": calibration_chart(report)},
        report=report,
        simulated=_SIMULATED[report.simulated],
        command=provenance.get("command"),
        interviews=tables.interviews(report),
        random_order=tables.random_order(report),
        decides=_decides(report),
        confusion=tables.confusion(report),
        corrected=FALSE_DISCOVERIES,
        gaps=tables.gaps(report),
        slices=tables.slices(report, _MOST_SLICES),
        cards=[_card(error) for error in report.errors],
        textbook=textbook and tables.textbook_cases(textbook),
        missed=textbook and tables.missed_cases(textbook),
        facts=_facts(report, provenance),
    )


def _decides(report: AgentReport) -> list[tuple[str, str]]:
    """Returns how the agent decides and what its promises are, as names and values."""
    point, effect = report.operating_point, report.safety_rules
    decides = "by its Q-values"
    if point is not None:
        threshold = "" if point.sure_enough is None else f"; asks while the best Q-value is below {point.sure_enough:g}"
        decides = f"safety weight {point.safety_weight:g}, price {point.price:.2g}{threshold}"
    rules = report.no_safety_rules.removeprefix("no safety rules: ") or NONE
    if effect is not None:
        rules = tables.rule_effect(effect)
    constants = (
        f"{name} {shown(APPROPRIATENESS, quality[APPROPRIATENESS.key].mean)}"
        for name, quality in report.constants.items()
    )
    kept = any(promise.kept for promise in report.promises)
    rows = (
        ("Textbook emergencies too late", report.textbook_cases and tables.late_emergencies(report.textbook_cases)),
        ("Safety weight and price", decides),
        ("Safety rules", rules),
        ("Promises", " ".join(map(promises.in_words, report.promises))),
        ("No promise covers", "; ".join(NOT_COVERED) if kept else ""),
        ("Appropriate by always giving one decision", ", ".join(constants)),
    )
    return [(name, value) for name, value in rows if value]


def _facts(report: AgentReport, provenance: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Returns the data and the versions of the measurement."""
    versions = {"dyqn_triage": "dyqn-triage", "python": "Python", "tensorflow": "TensorFlow"}
    training = report.training
    return [
        ("Agent", f"{report.job_dir}, after {several(training['steps'], 'step')} and "
         f"{several(training['episodes'], 'episode')}; {several(report.networks, 'network')}"),
        ("Vignettes", f"{report.data}, {report.split} split, {count(report.vignettes)}, each in "
         f"{several(report.orders, 'evidence order')} (seed {report.seed})"),
        ("Pieces of evidence in a vignette", f"{report.mean_evidence:.1f} on average"),
        ("Question limit", count(report.max_questions)),
        ("Fingerprint of these data", report.data_fingerprint),
        ("Fingerprint of the training data", report.trained_on),
        ("Fingerprint of the vocabulary", report.vocabulary_fingerprint),
        ("Versions", ", ".join(f"{label} {provenance.get(key) or NONE}" for key, label in versions.items())),
        ("Finished", str(provenance.get("finished") or NONE)),
    ]  # fmt: skip


class EpisodeStep(NamedTuple):
    """One step of an episode: the question, its answer, and what the agent decides by."""

    evidence: str
    answer: str
    values: Sequence[tuple[float, bool]]  # of each action, and whether it is the highest
    action: str


class Card(NamedTuple):
    """One vignette that the agent triaged wrongly, see `walk.worst_cases`."""

    error: Mapping[str, Any]
    steps: Sequence[EpisodeStep]
    effects: Sequence[str]  # the largest first

    @property
    def levels_too_low(self) -> int:
        """Number of levels by which the agent is less urgent than the least urgent clinician."""
        decided, *given = map(DECISION_LABELS.index, (self.error["decision"], *self.error["decisions"]))
        return decided - max(given)


def _card(error: Mapping[str, Any]) -> Card:
    effects = [f"{each['evidence']} ({_ANSWERS[each['presence']]}) {each['effect']:.3f}" for each in error["effects"]]
    known = [step for step in error["steps"] if step["presence"] is not None]
    in_vain = error["steps"][len(known) :]  # asked when nothing was left to know: one line
    if in_vain:
        times = f", {len(in_vain)} times" if len(in_vain) > 1 else ""
        known.append({**in_vain[-1], "evidence": in_vain[-1]["evidence"] + times})
    return Card(error, [_step(step) for step in known], effects)


def _step(step: Mapping[str, Any]) -> EpisodeStep:
    highest = max(step["values"].values())
    values = [(step["values"][action], step["values"][action] == highest) for action in ACTION_LABELS]
    return EpisodeStep(step["evidence"], _ANSWERS[step["presence"]], values, step["action"])


def calibration_chart(report: AgentReport) -> Drawing | None:
    """Returns how often decisions are appropriate, and safe, by the probability that the agent gave.

    Of an agent without probabilities, by its Q-values. None if no bin has decisions on enough vignettes.
    """
    if report.probabilities:
        own = report.probabilities["own_decision"]
        given = {f"P({name})": (name, calibrated) for name, calibrated in own.items()}
    else:
        given = {"Q-value": ("appropriate", report.calibration["best_decision"])} if report.calibration else {}
    bins = {name: _bins(calibrated) for name, (_, calibrated) in given.items()}
    if not any(bins.values()):
        return None
    rows = tuple(
        (name, f"{each.low:.1f} to {each.high:.1f}", count(each.states), shown(SAFETY, each.predicted),
         with_interval(SAFETY, each.observed))
        for name, some in bins.items()
        for each in some
    )  # fmt: skip
    errors = (f"{name} {calibrated.expected_calibration_error.mean:.3f}" for name, (_, calibrated) in given.items())
    return Drawing(
        "calibration",
        "Observed share of appropriate, or safe, decisions against the probability that the agent gave. On the dashed "
        "line, 80% means 80%; below it, the agent is overconfident. Lines are 95% intervals.",
        f"Expected calibration error: {', '.join(errors)}.",
        tuple(
            Subplot(f"{of.capitalize()}, by {name}", _diagonal(bins[name], name))
            for name, (of, _) in given.items()
            if bins[name]
        ),
        numbers=Table("Calibration", ("Given", "From", "Decisions", "Mean given", "Observed"), rows),
    )


def _bins(calibrated: Calibration) -> list[ReliabilityBin]:
    return [each for each in calibrated.curve if each.observed and (each.observed.vignettes or 0) >= MINIMUM_VIGNETTES]


def _diagonal(bins: Sequence[ReliabilityBin], label: str) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        points = [(each.predicted, each.observed) for each in bins if each.predicted is not None and each.observed]
        for place, observed in points:
            if observed.ends:
                axes.plot([place, place], observed.ends, color=colour("blue"), alpha=0.5, solid_capstyle="butt")
        axes.plot([0, 1], [0, 1], color=colour("muted"), linestyle="--", linewidth=1.2)
        means = [each.mean for _, each in points]
        axes.plot([place for place, _ in points], means, "-o", color=colour("blue"), clip_on=False)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
        axes.set_xlabel(label)

    return draw
