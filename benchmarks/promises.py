"""Do the promises of `triage export --promise` hold? Draws the patients set apart many times, without new training.

    python benchmarks/promises.py --job-dir job --data data

The patients of the test split stand for all patients there are: those set apart are drawn from them, with replacement,
and what is true of all of them is known. A statement is true if no risk of the chosen operating point is above what it
says. For patients of `SYSTEMS` alone it need not be true, and a sample of them should show that: to the gate of an
export with newer data, and to `triage monitor --labels`. Writes a record of benchmarks/results.
"""

import argparse
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import numpy as np

from benchmarks import records
from schemas import safety_rules
from schemas.promise import RISKS
from trainer.data.tfrecord import DataDirectory
from trainer.graph.decide import OperatingPoint
from trainer.graph.operating_point import HeldOutOutputs, candidates, handing_over, worth
from trainer.interviews.play import Leader, Leaving
from trainer.training.agent_options import levels_of
from trainer.training.job import load_network
from trainer.training.promises import NEWER_ERROR
from trainer.training.risk_control import control, in_order
from triage_runtime import promise
from triage_runtime.promise import Count

MONITOR_ERROR = 0.01
"""Of `triage monitor` by default; half of it is for the intervals of all patients, and of these half for each side."""
CONFIDENCE, APART, SPLITS = 0.9, 500, 500
"""Of the promises; patients set apart; and how often they are drawn."""
PROMISES = ("under=0.05,over=0.4", "red=0.2,over=0.5", "red=0.25,over=0.3,handed_over=0.3")
SYSTEMS = frozenset(("system=neurological", "system=cardiovascular"))
"""Tags of a case mix of its own."""
PATIENTS = 2000


class Panel(NamedTuple):
    """The patients there are, and with which decisions they leave."""

    decisions: Mapping[OperatingPoint, Mapping[str, np.ndarray]]  # of V patients, in each setting
    decision_counts: np.ndarray  # [V, 4]

    def count(self, point: OperatingPoint, rows: np.ndarray) -> dict[str, dict[str, Count]]:
        """Returns the errors of the patients `rows` in each setting."""
        counts = self.decision_counts[rows]
        return {setting: promise.count(each[rows], counts) for setting, each in self.decisions[point].items()}

    def only(self, rows: np.ndarray) -> "Panel":
        """Returns the panel of some of the patients."""
        decisions = {
            point: {setting: each[rows] for setting, each in settings.items()}
            for point, settings in self.decisions.items()
        }
        return Panel(decisions, self.decision_counts[rows])

    def risks(self, point: OperatingPoint) -> dict[str, float]:
        """Returns the true risks: the larger one of both settings."""
        found = self.count(point, np.arange(len(self.decision_counts)))
        return {name: max(counts[name].share or 0.0 for counts in found.values()) for name in RISKS}


def resampled(
    panel: Panel,
    shifted: Mapping[str, Panel],
    held_out: HeldOutOutputs,
    price: float,
    levels: Mapping[str, float],
    confidence: float,
    apart: int,
    splits: int,
    seed: int,
) -> dict[str, Any]:
    """Returns how often statements are made and true, and how close they come.

    Args:
        panel: from which `apart` patients are drawn, `splits` times.
        shifted: other panels, by name.
        held_out: decides the order of the tests.
        levels: what is asked for.
        confidence: with which.
        apart: number of patients.
        splits: number of draws.

    Returns:
        `made`, the share of draws with a promise; `true`, the share in which all that is said is true; `promises_true`,
        that among the promises; `risk`, the mean true risk of the promised points; `bound` and `bound_risk`, the mean
        bound of a refusal and the true risk; and for each shifted panel `holds`, the share of promises that are true of
        it, and of the others the shares that `apart` patients of it show to be broken, `noticed` by the gate of an
        export and `monitored` by `triage monitor`, which sees their interviews.
    """
    generator = np.random.default_rng(seed)
    may_hand_over = "handed_over" in levels
    points = [point for point in panel.decisions if may_hand_over or point.hand_over_from is None]
    order = in_order(points, held_out, levels)
    worths = {point: worth(held_out, point, price) for point in order}
    risks = {point: panel.risks(point) for point in order}
    elsewhere = {name: {point: other.risks(point) for point in order} for name, other in shifted.items()}
    rows: dict[str, list[Any]] = {key: [] for key in ("made", "true", "risk", "bound", "bound_risk")}
    held: dict[str, list[bool]] = {name: [] for name in shifted}
    noticed: dict[str, list[bool]] = {name: [] for name in shifted}
    monitored: dict[str, list[bool]] = {name: [] for name in shifted}
    for _ in range(splits):
        drawn = generator.integers(len(panel.decision_counts), size=apart)
        result = control(order, lambda point, drawn=drawn: panel.count(point, drawn), levels, 1 - confidence)
        point = max(result.kept, key=worths.__getitem__, default=result.likeliest)
        stated = levels if result.kept else result.bounds
        rows["made"].append(bool(result.kept))
        rows["true"].append(_holds(risks[point], stated))
        rows["risk" if result.kept else "bound_risk"].append([risks[point][name] for name in levels])
        if not result.kept:
            rows["bound"].append([stated[name] for name in levels])
            continue
        for name, other in shifted.items():
            held[name].append(_holds(elsewhere[name][point], levels))
            if not held[name][-1]:
                newer = other.count(point, generator.integers(len(other.decision_counts), size=apart))
                error = NEWER_ERROR / len(newer)
                noticed[name].append(any(promise.broken(levels, counts, error) for counts in newer.values()))
                monitored[name].append(bool(promise.broken(levels, newer["interview"], MONITOR_ERROR / 4)))
    made = np.array(rows["made"])
    return {
        "levels": dict(levels),
        "made": float(made.mean()),
        "true": float(np.mean(rows["true"])),
        "promises_true": _mean(np.array(rows["true"])[made]),
        **{key: dict(zip(levels, np.round(np.mean(rows[key], axis=0), 4).tolist(), strict=True)) if rows[key] else None
           for key in ("risk", "bound", "bound_risk")},
        "shifted": {name: {key: _mean(shares[name]) for key, shares in
                           (("holds", held), ("noticed", noticed), ("monitored", monitored))} for name in shifted},
    }  # fmt: skip


def _holds(risks: Mapping[str, float], levels: Mapping[str, float]) -> bool:
    return all(risks[name] <= level for name, level in levels.items())


def _mean(values: Sequence[bool] | np.ndarray) -> float | None:
    return float(np.mean(values)) if len(values) else None


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job-dir", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="simulated, with the agent's vocabulary")
    records.add_argument(parser)
    given = parser.parse_args(arguments)
    trained, data = load_network(given.job_dir), DataDirectory.open(given.data)
    if trained.questions is None or trained.held_out is None:
        raise SystemExit(f"{given.job_dir}: no agent that leads interviews: train with --preset default")
    points = candidates(trained.operating_point)
    points += handing_over(points)
    vignettes = data.read("test")
    some = vignettes.select(np.arange(min(PATIENTS, len(vignettes.decision_counts))))
    shifted = np.flatnonzero([bool(SYSTEMS & set(tags)) for tags in some.tags])
    found = []
    for named in ("none", safety_rules.DEFAULT):
        rules, _ = safety_rules.choose(named, trained.vocabulary)
        leader = Leader(
            trained.model, trained.vocabulary, trained.questions, rules, trained.signs, trained.max_questions
        )
        leaving = Leaving(leader, some, data.whole_patients)
        panel = Panel({point: leaving.decisions(point) for point in points}, some.decision_counts)
        for asked in PROMISES:
            others, price = {"systems": panel.only(shifted)}, trained.target.price
            drawn = resampled(
                panel, others, trained.held_out, price, levels_of(asked), CONFIDENCE, APART, SPLITS, seed=0
            )
            found.append({"asked": asked, "rules": named, **drawn})
    sizes = {"patients": len(some.decision_counts), "apart": APART, "draws": SPLITS, "confidence": CONFIDENCE}
    seed = data.stats["seed"]
    records.write(given.results, f"promises-{seed}", sizes | {"promises": found}, seed)


if __name__ == "__main__":
    main()
