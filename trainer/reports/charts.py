"""The drawing on the page of one agent: its calibration."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from trainer.evaluation.estimates import Calibration, ReliabilityBin
from trainer.evaluation.slices import MINIMUM_VIGNETTES
from trainer.reports.agent_report import AgentReport
from trainer.reports.drawing import Drawing, Panel, colour
from trainer.reports.numbers import SAFETY, Table, count, shown, with_interval


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
        means = [each.mean for _, each in points]
        axes.plot([place for place, _ in points], means, "-o", color=colour("blue"), clip_on=False)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
        axes.set_xlabel(label)

    return draw
