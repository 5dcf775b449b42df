"""Compares settings of the agent on many simulated training sets.

    python benchmarks/tune.py default paper "wider: hidden_sizes=512,512 dropout=0.8" mine.json --results tune.jsonl

Every row learns from the same training sets and plays the same test sets. There is one of each per seed, from the same
panel of simulated clinicians: `--sizes` vignettes to learn from and `--test` fresh ones. The table has means over the
sets and the paired differences from the first row, both with 95% t intervals. A row is one of

    default, paper                      a preset
    NAME: option=value option=a,b       options of triage train, over the preset default or preset=paper
    FILE.json                           a configuration file
    forest                              300 trees with leaves of 2, trained on all evidence
    clinicians                          each judged by the others

Choose by seeds below 1,000. Those from 1,000 on are kept for the figures that are reported (`--report`): a setting that
was chosen by them has not been measured. `--data DIR` gives a second opinion on data of your own: its sets are the
folds of the training split, and the test split is never read.

Each run is a line of the results file and is not repeated: an interrupted comparison continues where it stopped.
"""

import argparse
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import numpy as np
import scipy.stats
from rich.console import Console

from benchmarks.learn import fitted_forest
from schemas.errors import InputError
from trainer import presets
from trainer.data.arrays import VignetteArrays
from trainer.data.state import sparse_states
from trainer.data.tfrecord import DataDirectory
from trainer.dyqn.rollout import order_seeds
from trainer.evaluation import agreement, calibration, metrics
from trainer.evaluation.estimates import Estimate, bracketed
from trainer.evaluation.measurement import agent_outcomes
from trainer.graph.decide import OperatingPoint
from trainer.training.job import load_network
from triage_runtime.command_line import options
from triage_runtime.command_line.progress import say, say_result

REPORTING = 1000
"""The first of the seeds that are kept for reporting."""
SETS = 5
ORDERS = 3
MINIMUM_DECISIONS = 3
FOREST, CLINICIANS = "forest", "clinicians"
SHOWN = {
    "appropriateness": "appropriate",
    "safety": "safe",
    "evidence_share": "evidence",
    "appropriateness_as_clinicians": "appropriate, as clinicians",
    "safety_as_clinicians": "safe, as clinicians",
    "red_sensitivity_as_clinicians": "Red sensitivity, as clinicians",
}
JUDGED_ALIKE = tuple(name for name in SHOWN if name.endswith("_as_clinicians"))
WITH_ALL = "_with_all_evidence"
SHOWN |= {f"{name}{WITH_ALL}": f"{SHOWN[name]}, all evidence" for name in JUDGED_ALIKE}
"""The figures of the table with their headings; `--json` has all. "As clinicians": on vignettes with three or more
decisions, judged by all clinicians but one. "All evidence": by an agent that does not stop before."""


class Row(NamedTuple):
    """Who is compared."""

    name: str
    settings: dict[str, Any]  # together with the data, determines the result


@dataclasses.dataclass(frozen=True)
class SetOptions:
    """The options that choose the training sets, see the help."""

    data: pathlib.Path | None
    folds: int
    sizes: list[int]
    test: int
    seeds: list[int] | None
    report: bool


class TrainingSet(NamedTuple):
    """Vignettes to learn from, and others to test on."""

    key: dict[str, Any]
    write: Callable[[pathlib.Path], None]  # as a data directory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+", metavar="ROW", help="the others are compared with the first one")
    parser.add_argument("--results", type=pathlib.Path, required=True, help="JSON Lines; what stands there is kept")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1248], help="training vignettes (default 1248)")
    parser.add_argument("--test", type=int, default=10_000, help="test vignettes of each set (default 10000)")
    parser.add_argument("--seeds", type=int, nargs="+", help=f"one set each (default 0 to {SETS - 1})")
    parser.add_argument("--report", action="store_true", help=f"use the seeds from {REPORTING} on; choose nothing now")
    parser.add_argument("--data", type=pathlib.Path, metavar="DIR", help="a data directory in place of simulated sets")
    parser.add_argument("--folds", type=int, default=SETS, help=f"of the training split of --data (default {SETS})")
    parser.add_argument("--show", action="store_true", help="show what the results hold, and run nothing")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="means, differences and intervals")
    arguments = parser.parse_args()
    try:
        rows = [read_row(text) for text in arguments.rows]
        sets = training_sets(options.read(SetOptions, arguments))
    except InputError as error:
        parser.error(str(error))
    console = Console(stderr=True)
    if not arguments.show:
        done = sum(run_rows(rows, training_set, arguments.results) for training_set in sets)
        if not done:
            say(console, "nothing to run: the results hold all of these runs")
    runs = [run for run in read(arguments.results) if any(each.key.items() <= run.items() for each in sets)]
    tables = [compare(rows, [run for run in runs if run["train_vignettes"] == size])
              for size in sorted({run["train_vignettes"] for run in runs})]  # fmt: skip
    purpose = "REPORTING seeds: choose nothing by them" if arguments.report else "tuning seeds: report others"
    print(f"{f'folds of {arguments.data}' if arguments.data else purpose}\n")
    print("\n".join(map(markdown, tables)))
    if arguments.json:
        arguments.json.write_text(json.dumps(tables, indent=1) + "\n")
    say_result(console, arguments.results, "the tables again with --show" if arguments.report or arguments.data
               else "the row that you choose with --report, for figures to publish")  # fmt: skip


def read_row(text: str) -> Row:
    """Returns the row that the command line describes.

    Raises:
        InputError: it describes none.
    """
    if text in (FOREST, CLINICIANS):
        return Row(text, {"baseline": text})
    if text in presets.PRESETS:
        return Row(text, _agent(["--preset", text]))
    if text.endswith(".json"):
        return Row(pathlib.Path(text).stem, _agent(["--config", text]))
    name, colon, settings = text.partition(":")
    if not colon:
        raise InputError(f"{text!r}: expected a preset, a baseline, FILE.json, or NAME: option=value ...")
    flags = []
    for option in settings.split():
        key, _, values = option.partition("=")
        flags += [f"--{key.replace('_', '-')}", *values.split(",")]
    return Row(name.strip(), _agent(flags))


def _agent(flags: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="tune.py ROW", usage="NAME: option=value ...", allow_abbrev=False)
    presets.add_arguments(parser)
    # Evaluations during training would only take time.
    return {"config": presets.from_arguments(parser.parse_args([*flags, "--evaluation-interval", "0"])).to_dict()}


def training_sets(given: SetOptions) -> list[TrainingSet]:
    """Returns the sets to compare on.

    Raises:
        InputError: seeds for choosing and seeds for reporting are mixed, or there is no such data directory.
    """
    if given.data:
        fingerprint, folds = DataDirectory.open(given.data).data_fingerprint, given.folds
        return [
            TrainingSet(
                {"data": fingerprint, "folds": folds, "seed": fold},
                functools.partial(write_fold, given.data, folds, fold),
            )
            for fold in range(folds)
        ]
    first = REPORTING if given.report else 0
    seeds = given.seeds or range(first, first + SETS)
    if any((seed >= REPORTING) != given.report for seed in seeds):
        raise InputError(f"--seeds: choose by those below {REPORTING}; the others need --report, which takes no others")
    return [
        TrainingSet(
            {"data": "simulated", "train_vignettes": size, "test_vignettes": given.test, "seed": seed},
            functools.partial(write_simulated, size, given.test, seed),
        )
        for size in given.sizes
        for seed in seeds
    ]


def write_simulated(train: int, test: int, seed: int, out: pathlib.Path) -> None:
    """Simulates vignettes, so many in each split."""
    total = train + test
    triage("simulate", "--vignettes", total, "--test-fraction", f"{test}/{total}", "--seed", seed, "--out", out)


def write_fold(data: pathlib.Path, folds: int, fold: int, out: pathlib.Path) -> None:
    """Writes a fold of the training split as `triage fold` does: its own test split is the part that is held out."""
    triage("fold", "--data", data, "--folds", folds, "--fold", fold, "--out", out)


def run_rows(rows: Sequence[Row], training_set: TrainingSet, results: pathlib.Path) -> int:
    """Runs the rows that the results do not hold yet, adds a line for each, and returns their number."""
    seed, done = training_set.key["seed"], read(results)
    keys = {row.name: training_set.key | {"settings": row.settings} for row in rows}
    waiting = [row for row in rows if not any(keys[row.name].items() <= run.items() for run in done)]
    waiting = [row for place, row in enumerate(waiting)
               if row.settings not in [each.settings for each in waiting[:place]]]  # fmt: skip
    if not waiting:
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "data"
        training_set.write(path)
        data = DataDirectory.open(path)
        train, test = data.read("train", names=False), data.read("test", names=False)
        sizes = {"train_vignettes": len(train.decision_counts), "test_vignettes": len(test.decision_counts)}
        for row in waiting:
            began = time.monotonic()
            if "config" in row.settings:
                figures = agent_figures(row.settings["config"], path, test, seed)
            elif row.settings["baseline"] == CLINICIANS:
                figures = clinician_figures(test)
            else:
                figures = forest_figures(train, test, len(data.vocabulary), seed)
            seconds = {"seconds": time.monotonic() - began} | figures.pop("times", {})
            line = {**keys[row.name], **sizes, "row": row.name, **seconds, "figures": figures}
            with results.open("a") as file:
                file.write(json.dumps(line) + "\n")
            shown = ", ".join(f"{name} {value:.3f}" for name, value in figures.items() if name in SHOWN)
            Console(stderr=True).print(f"{row.name}, {training_set.key}: {shown}", highlight=False, soft_wrap=True)
    return len(waiting)


def triage(*arguments: Any) -> None:
    """Runs a command of the package in a process of its own; its output is shown where it fails."""
    command = [sys.executable, "-m", "triage_cli", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"triage {arguments[0]} ended with exit code {done.returncode}: {done.stderr[-2000:]}")


def agent_figures(config: Mapping[str, Any], data: pathlib.Path, test: VignetteArrays, seed: int) -> dict[str, Any]:
    """Trains as `triage train` does, and returns the figures of the agent on the test vignettes."""
    with tempfile.TemporaryDirectory() as scratch:
        settings, job = pathlib.Path(scratch) / "config.json", pathlib.Path(scratch) / "job"
        settings.write_text(json.dumps({**config, "loop": {**config["loop"], "seed": seed}}))
        began = time.monotonic()
        triage("train", "--data", data, "--job-dir", job, "--config", settings)
        times = {"training_seconds": time.monotonic() - began}
        trained = load_network(job)
    counts = test.decision_counts
    outcomes = agent_outcomes(trained.model, test, order_seeds(seed, ORDERS), trained.max_questions)
    figures: dict[str, Any] = decision_figures(outcomes.decisions, counts)
    figures["evidence_share"] = float(outcomes.evidence_seen.mean() / np.diff(test.offsets).mean())
    figures |= {name: float(getattr(outcomes, name).mean()) for name in ("evidence_seen", "questions", "forced")}
    if "safe" in outcomes.heads:
        point = OperatingPoint(sure_enough=1.0)
        everything = agent_outcomes(trained.model, test, order_seeds(seed, 1), trained.max_questions, point=point)
        with_all = decision_figures(everything.decisions, counts)
        figures |= {f"{name}{WITH_ALL}": with_all[name] for name in JUDGED_ALIKE}
        pairs = calibration.probability_pairs(outcomes.heads, outcomes.decisions, counts)
        for name, each in pairs.items():
            error = calibration.calibration(each, seed).expected_calibration_error.mean
            figures[f"calibration_error_{name}"] = error
    return {**figures, "steps": trained.training["steps"], "times": times}


def forest_figures(train: VignetteArrays, test: VignetteArrays, codes: int, seed: int) -> dict[str, Any]:
    """Trains a forest on all evidence, and returns its figures on the test vignettes."""
    trees = fitted_forest(sparse_states(train, codes), train.decision_counts, seed)
    figures = decision_figures(trees.predict(sparse_states(test, codes))[np.newaxis], test.decision_counts)
    return {**figures, "evidence_share": 1.0} | {f"{name}{WITH_ALL}": figures[name] for name in JUDGED_ALIKE}


def decision_figures(decisions: np.ndarray, counts: np.ndarray) -> dict[str, Any]:
    """Returns the figures of decisions int `[K, V]` on vignettes with decision counts `[V, 4]`."""
    figures = {name: float(values.mean()) for name, values in metrics.triage_quality(decisions, counts).items()}
    red = agreement.detection_by_others(counts, MINIMUM_DECISIONS, decisions)
    figures["red_sensitivity_as_clinicians"] = _sensitivity(red)
    enough = counts.sum(axis=1) >= MINIMUM_DECISIONS
    judged = {
        "as_clinicians": metrics.quality_by_others(counts, MINIMUM_DECISIONS, decisions),
        "with_3_decisions": metrics.triage_quality(decisions[:, enough], counts[enough]),
    }
    return figures | {
        f"{name}_{how}": float(values[name].mean())
        for how, values in judged.items()
        for name in ("appropriateness", "safety")
    }


def clinician_figures(test: VignetteArrays) -> dict[str, Any]:
    """Returns the clinicians' figures: each of them by the others, on vignettes with three or more decisions."""
    quality = metrics.quality_by_others(test.decision_counts, MINIMUM_DECISIONS)
    parts = agreement.detection_by_others(test.decision_counts, MINIMUM_DECISIONS)
    return {
        **{f"{name}_as_clinicians": float(quality[name].mean()) for name in ("appropriateness", "safety")},
        "red_sensitivity_as_clinicians": _sensitivity(parts),
        "evidence_share": 1.0,
    }


def _sensitivity(parts: np.ndarray) -> float | None:
    share = float(agreement.detection_rates(parts.sum(axis=0))[0])
    return None if np.isnan(share) else share


def read(results: pathlib.Path) -> list[dict[str, Any]]:
    """Returns the lines of a results file, without one that a kill cut short."""
    runs = []
    for line in results.read_text().splitlines() if results.exists() else []:
        with contextlib.suppress(ValueError):
            runs.append(json.loads(line))
    return runs


def compare(rows: Sequence[Row], runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns means of each row that has runs, and paired differences over the sets shared with the first row."""
    by_seed = [{run["seed"]: run["figures"] for run in runs if run["settings"] == row.settings} for row in rows]
    names = dict.fromkeys([*SHOWN, *(name for by_set in by_seed for each in by_set.values() for name in each)])
    compared = []
    for row, by_set in zip(rows, by_seed, strict=True):
        theirs = by_seed[0]
        shared = sorted(set(by_set) & set(theirs))
        compared.append(
            {
                "row": row.name,
                "sets": len(by_set),
                "figures": {name: mean([each.get(name) for each in by_set.values()]) for name in names},
                "differences": {
                    name: mean([_difference(by_set[seed].get(name), theirs[seed].get(name)) for seed in shared])
                    for name in names
                },
            }
        )
    return {"train_vignettes": runs[0]["train_vignettes"], "rows": [each for each in compared if each["sets"]]}


def mean(values: Sequence[float | None]) -> dict[str, float | None] | None:
    """Returns the mean with its 95% t interval, None for both ends of one value; None without values."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    low, high = None, None
    if len(known) > 1:
        half = float(scipy.stats.t.ppf(0.975, len(known) - 1) * scipy.stats.sem(known))
        low, high = np.mean(known) - half, np.mean(known) + half
    return {"mean": float(np.mean(known)), "low": low, "high": high}


def _difference(value: float | None, reference: float | None) -> float | None:
    return None if value is None or reference is None else value - reference


def _cell(figure: Mapping[str, Any] | None, form: str = ".3f") -> str:
    return bracketed(None if figure is None else Estimate(**figure), form)


def markdown(table: Mapping[str, Any]) -> str:
    """Returns a table of `compare` as Markdown: a line of means for each row, and below it one of differences."""
    lines = [
        f"{table['train_vignettes']:,} training vignettes\n",
        f"| | sets | {' | '.join(SHOWN.values())} |",
        "| --- " * (len(SHOWN) + 2) + "|",
    ]
    first = table["rows"][0]
    for row in table["rows"]:
        cells = (_cell(row["figures"].get(name)) for name in SHOWN)
        lines.append(f"| {row['row']} | {row['sets']} | {' | '.join(cells)} |")
        if row is not first:
            cells = (_cell(row["differences"].get(name), "+.3f") for name in SHOWN)
            lines.append(f"| - {first['row']} | | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
