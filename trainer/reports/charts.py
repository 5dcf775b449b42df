"""The drawings on the page of one agent: calibration, quality by number of questions, and learning."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from trainer.evaluation.estimates import Calibration, Estimate, ReliabilityBin
from trainer.evaluation.slices import MINIMUM_VIGNETTES
from trainer.reports.agent_report import AgentReport
from trainer.reports.drawing import Drawing, Panel, colour, share_limits
from trainer.reports.numbers import (
    APPROPRIATENESS,
    OVER_TRIAGE,
    QUESTIONS,
    SAFETY,
    Measure,
    Table,
    count,
    shown,
    with_interval,
)


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
        "The share of decisions that are appropriate, or safe, by the probability that the agent gave. On the dashed "
        "line, 80% means 80%; below it, the agent is overconfident. Lines are 95% intervals.",
        f"Expected calibration error: {', '.join(errors)}.",
        tuple(
            Panel(f"{of.capitalize()}, by {name}", _diagonal(bins[name], name))
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
        axes.plot([place for place, _ in points], [each.mean for _, each in points], "-o", color=colour("blue"))
        axes.set_xlim(0, 1.02)
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
        axes.set_xlabel(label)

    return draw


def questions_chart(report: AgentReport) -> Drawing | None:
    """Returns the quality of decisions that are forced after a number of questions; None on too few vignettes."""
    points = [each for each in report.by_evidence if each.vignettes >= MINIMUM_VIGNETTES]
    if not points:
        return None
    asked = [each.evidence - 1 for each in points]
    curves = {APPROPRIATENESS: [each.appropriateness for each in points], SAFETY: [each.safety for each in points]}
    rows = tuple(
        (
            count(each.evidence - 1),
            count(each.vignettes),
            *(with_interval(measure, getattr(each, measure.key)) for measure in curves),
        )
        for each in points
    )
    return Drawing(
        "questions",
        "The quality of a decision that is forced after a number of questions, each answered by one more piece of the "
        "vignette in random order. Further right are only vignettes that have so many pieces. Bands are 95% intervals.",
        f"Safety from {rows[0][3]} after {rows[0][0]} to {rows[-1][3]} after {rows[-1][0]} questions.",
        tuple(
            Panel(measure.label, _curve(asked, curve, measure, "questions asked")) for measure, curve in curves.items()
        ),
        numbers=Table("Decisions forced after questions: mean (95% interval)",
                      ("Questions", "Vignettes", *(measure.label for measure in curves)), rows),
    )  # fmt: skip


def learning_chart(report: AgentReport) -> Drawing | None:
    """Returns the agent's quality over its training; None if nothing was recorded."""
    evaluations = report.learning
    if not evaluations:
        return None
    steps = [each.step for each in evaluations]
    panels = [
        Panel(measure.label, _curve(steps, [each.metrics[measure.key] for each in evaluations], measure, _STEPS))
        for measure in (APPROPRIATENESS, SAFETY, QUESTIONS)
    ]
    measures = (APPROPRIATENESS, SAFETY, OVER_TRIAGE, QUESTIONS)
    rows = tuple(
        (count(each.step), *(with_interval(measure, each.metrics[measure.key]) for measure in measures))
        for each in evaluations
    )
    return Drawing(
        "learning",
        "The training as the job directory recorded it, on the test split. Bands are 95% intervals. A curve that still "
        "rises at the right edge shows that more steps, or more vignettes, may help.",
        f"Safety from {rows[0][2]} to {rows[-1][2]}.",
        tuple(panels),
        numbers=Table("Evaluations during training: mean (95% interval)",
                      ("Step", *(measure.label for measure in measures)), rows),
    )  # fmt: skip


_STEPS = "training steps"


def _curve(
    places: Sequence[int], estimates: Sequence[Estimate], measure: Measure, label: str
) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        axes.plot(places, [each.mean for each in estimates], "-o", color=colour("blue"), markersize=5)
        bands = [(place, *each.ends) for place, each in zip(places, estimates, strict=True) if each.ends]
        if bands:
            between, lows, highs = zip(*bands, strict=True)
            axes.fill_between(between, lows, highs, color=colour("blue"), alpha=0.15, linewidth=0)
        axes.set_xlabel(label)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
        if measure.share:
            axes.set_ylim(*share_limits([each.ends[0] if each.ends else each.mean for each in estimates]))
            axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
        else:
            axes.set_ylim(bottom=0)

    return draw


def _thousands(step: float, _: int) -> str:
    return f"{step / 1000:g}k" if step >= 1000 else f"{step:g}"
