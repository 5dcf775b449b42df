"""The figures of `triage bench serve`: medians and spread over the rounds, ratios within a round, and goals."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from serving.bench.load import Measurement

SERVERS = ("triage", "http", "empty", "plain")
"""Ours over gRPC, and over HTTP if that is measured; and the peers."""
LEVELS = (1, 4, 16, 64)
"""Numbers of concurrent calls."""
HALF_LOAD = "half load"

_MOST = LEVELS[-1]


@dataclasses.dataclass(frozen=True)
class Round:
    """One round of measurements.

    Attributes:
        measured: measurement by (server, level); the level is one of `LEVELS`, or `HALF_LOAD`.
        processor: the server's processor time per call in seconds by (server, level), NaN if unknown.
        model: median duration of one run of the model for one state, in seconds.
    """

    measured: Mapping[tuple[str, int | str], Measurement]
    processor: Mapping[tuple[str, int | str], float]
    model: float


@dataclasses.dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum over the rounds."""

    median: float
    least: float
    largest: float


def spread(values: Sequence[float]) -> Spread:
    """Returns the spread of one value per round."""
    return Spread(statistics.median(values), min(values), max(values))


def figures(rounds: Sequence[Round]) -> dict[str, Any]:
    """Returns the report for `--json`: throughput in calls per second, durations in milliseconds, and the goals."""
    levels: tuple[int | str, ...] = (*LEVELS, HALF_LOAD)
    rows = [_row(rounds, server, level) for level in levels for server in SERVERS if (server, 1) in rounds[0].measured]
    model = spread([each.model * 1000 for each in rounds])
    return {"rounds": len(rounds), "model_ms": dataclasses.asdict(model), "rows": rows, "goals": goals(rounds)}


def _row(rounds: Sequence[Round], server: str, level: int | str) -> dict[str, Any]:
    measurements = [each.measured[server, level] for each in rounds]
    processor = statistics.median([each.processor[server, level] for each in rounds])
    return {
        "server": server,
        "concurrent": level,
        "calls_per_second": dataclasses.asdict(spread([each.calls_per_second for each in measurements])),
        "p50_ms": dataclasses.asdict(spread([each.p50 * 1000 for each in measurements])),
        "p99_ms": dataclasses.asdict(spread([each.p99 * 1000 for each in measurements])),
        "processor_us_per_call": None if processor != processor else processor * 1e6,  # NaN differs from itself
        "failed": sum(each.failed for each in measurements),
    }


def goals(rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """Returns each goal with the result, and whether the median over the rounds meets it."""

    def throughput(each: Round, server: str) -> float:
        return each.measured[server, _MOST].calls_per_second

    def ratio(value: float, to: float) -> float:
        return value / to if to else 0.0

    reached: list[tuple[str, list[float], float, bool]] = [
        (
            f"throughput at {_MOST}, share of the empty handler's",
            [ratio(throughput(each, "triage"), throughput(each, "empty")) for each in rounds],
            0.85,
            True,
        ),
        (
            f"throughput at {_MOST}, times the plain server's",
            [ratio(throughput(each, "triage"), throughput(each, "plain")) for each in rounds],
            2.5,
            True,
        ),
        (
            "p99 at half load, times p50",
            [ratio(each.measured["triage", HALF_LOAD].p99, each.measured["triage", HALF_LOAD].p50) for each in rounds],
            3.0,
            False,
        ),
        (
            "p50 at 1, times the empty handler's",
            [ratio(each.measured["triage", 1].p50, each.measured["empty", 1].p50) for each in rounds],
            2.0,
            False,
        ),
    ]
    if ("http", 1) in rounds[0].measured:
        single = [ratio(each.measured["http", 1].p50, each.measured["triage", 1].p50) for each in rounds]
        reached.append(("p50 at 1 over HTTP, times gRPC's", single, 1.3, False))
    return [
        {
            "goal": f"{name}: {'at least' if at_least else 'below'} {limit:g}",
            "reached": dataclasses.asdict(spread(values)),
            "met": (statistics.median(values) >= limit) if at_least else (statistics.median(values) < limit),
        }
        for name, values, limit, at_least in reached
    ]


def table(report: Mapping[str, Any]) -> str:
    """Returns the report as Markdown tables."""
    lines = [
        "| concurrent | server | calls/s | p50 ms | p99 ms | server's processor µs/call | failed |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in report["rows"]:
        processor = "-" if row["processor_us_per_call"] is None else f"{row['processor_us_per_call']:.0f}"
        cells = [
            str(row["concurrent"]),
            row["server"],
            _format(row["calls_per_second"], 0),
            _format(row["p50_ms"], 2),
            _format(row["p99_ms"], 2),
            processor,
            str(row["failed"]),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", f"One run of the model for one state: {_format(report['model_ms'], 2)} ms", ""]
    lines += ["| goal | reached | met |", "| --- | --- | --- |"]
    for goal in report["goals"]:
        lines.append(f"| {goal['goal']} | {_format(goal['reached'], 2)} | {'yes' if goal['met'] else 'no'} |")
    return "\n".join(lines)


def _format(value: Mapping[str, float], digits: int) -> str:
    return f"{value['median']:,.{digits}f} ({value['least']:,.{digits}f} to {value['largest']:,.{digits}f})"
