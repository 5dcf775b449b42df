r"""Do the promises of `triage export --promise` hold? Draws the patients set apart many times, without new training.

    python benchmarks/promises.py --job-dir job --data data [--rules none default] \
        [--shifted cautious=other] [--systems neurological]

The patients of the test split stand for all patients there are: those set apart are drawn from them, with replacement,
and what is true of all of them is known. A statement is true if no risk of the chosen operating point is above what it
says. Where patients are shifted, it need not be true, and a sample of them should show that: to the gate of an export
with newer data, and to `triage monitor --labels`. Prints a table in Markdown; `--json` has all figures.
"""

import argparse
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from schemas import safety_rules
from schemas.promise import RISKS
from trainer.dyqn.rollout import Slice
from trainer.graph.decide import OperatingPoint
from trainer.graph.operating_point import HeldOutOutputs, candidates, handing_over, worth
from trainer.interviews.play import Leader, Leaving
from trainer.training.job import load_network
from trainer.training.promise_options import levels_of
from trainer.training.promises import NEWER_ERROR
from trainer.training.risk_control import control, in_order
from trainer.vignettes.tfrecord import DataDirectory
from triage_runtime import promise
from triage_runtime.command_line import json_output
from triage_runtime.promise import Count

MONITOR_ERROR = 0.01
"""Of `triage monitor` by default; half of it is for the intervals of all patients, and of these half for each side."""
CONFIDENCE, APART, SPLITS = 0.9, 500, 500
"""Of the promises; patients set apart; and how often they are drawn."""
PROMISES = ("red=0.2,over=0.5", "red=0.1,yellow=0.05,over=0.5", "under=0.05,over=0.4")


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
        price: of a question.
        levels: what is asked for.
        confidence: with which.
        apart: number of patients.
        splits: number of draws.
        seed: of the draws.

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


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """Returns the results of promises as a table in Markdown."""
    others = list(found[0]["shifted"])
    heads = ["promise", "rules", "made", "all that was stated is true", "true risk where promised"]
    heads += [f"{name}: true; of the others noticed, monitored" for name in others]
    lines = [heads, ["---"] * len(heads)]
    for each in found:
        asked = ",".join(f"{name}={level:g}" for name, level in each["levels"].items())
        risks = ", ".join(f"{name} {risk:.3f}" for name, risk in (each["risk"] or {}).items())
        shares = [[each["shifted"][name][key] for key in ("holds", "noticed", "monitored")] for name in others]
        lines.append([f"`{asked}`", each["rules"], f"{each['made']:.0%}", f"{each['true']:.1%}", risks or "-"])
        lines[-1] += ["; ".join("-" if share is None else f"{share:.0%}" for share in those) for those in shares]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _holds(risks: Mapping[str, float], levels: Mapping[str, float]) -> bool:
    return all(risks[name] <= level for name, level in levels.items())


def _mean(values: Sequence[bool] | np.ndarray) -> float | None:
    return float(np.mean(values)) if len(values) else None


def play(
    leader: Leader, points: Sequence[OperatingPoint], data: DataDirectory, most: int
) -> tuple[Panel, list[set[str]]]:
    """Returns the panel of the first `most` vignettes of a test split, and the tags of each."""
    vignettes = data.read("test")
    offsets = vignettes.offsets[: most + 1]
    some = Slice(offsets, vignettes.signed_codes[: offsets[-1]], vignettes.decision_counts[:most])
    leaving = Leaving(leader, some, data.whole_patients)
    panel = Panel({point: leaving.decisions(point) for point in points}, np.asarray(some.decision_counts))
    return panel, [set(tags) for tags in vignettes.tags[:most]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a row for each promise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job-dir", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--shifted", nargs="*", default=[], metavar="NAME=DATA")
    parser.add_argument("--systems", nargs="*", default=[], help="a case mix of these systems alone, by their tags")
    parser.add_argument("--promises", type=levels_of, nargs="+", default=[levels_of(each) for each in PROMISES])
    parser.add_argument("--rules", nargs="+", default=["none"], help="a run for each, as `triage export` takes them")
    parser.add_argument("--patients", type=int, default=2000, help="of each panel")
    json_output.add_argument(parser)
    given = parser.parse_args(arguments)
    trained = load_network(given.job_dir)
    data = DataDirectory.open(given.data)
    paths = {name: pathlib.Path(path) for name, _, path in (each.partition("=") for each in given.shifted)}
    others = {name: DataDirectory.open(path) for name, path in paths.items()}
    for each in (data, *others.values()):
        if each.vocabulary.fingerprint != trained.vocabulary.fingerprint:
            raise SystemExit(f"{each.path}: its vocabulary is not the one that {given.job_dir} was trained with")
    if trained.questions is None or trained.held_out is None:
        raise SystemExit(f"{given.job_dir}: no agent that leads interviews: train with --preset default")
    points = candidates(trained.operating_point)
    if any("handed_over" in levels for levels in given.promises):
        points += handing_over(points)
    found: dict[str, list[dict[str, Any]]] = {"points": [], "promises": []}
    for named in given.rules:
        rules, _ = safety_rules.choose(named, trained.vocabulary)
        leader = Leader(
            trained.model, trained.vocabulary, trained.questions, rules, trained.signs, trained.max_questions
        )
        panel, tags = play(leader, points, data, given.patients)
        shifted = {name: play(leader, points, other, given.patients)[0] for name, other in others.items()}
        if given.systems:
            wanted = {f"system={system}" for system in given.systems}
            shifted["systems"] = panel.only(np.flatnonzero([bool(wanted & each) for each in tags]))
        found["points"] += [{"rules": named} | dataclasses.asdict(point) | panel.risks(point) for point in points]
        for levels in given.promises:
            price = trained.target.price
            drawn = resampled(panel, shifted, trained.held_out, price, levels, CONFIDENCE, APART, SPLITS, seed=0)
            found["promises"].append({"rules": named} | drawn)
    print(table(found["promises"]))
    json_output.write(found, given.json)


if __name__ == "__main__":
    main()
