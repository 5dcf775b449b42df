"""The work of `triage stats`; its options are in `trainer.commands.stats`."""

import argparse
import random

import numpy as np
from rich.console import Console

from schemas.directories import SPLITS
from trainer.commands.stats import ANOMALOUS, StatsOptions
from trainer.data.arrays import VignetteArrays
from trainer.data.state import sparse_states
from trainer.data.tfrecord import DataDirectory
from trainer.data.validation import ERROR, SEVERITIES, validate
from trainer.data.vignette import vignette_text
from trainer.evaluation.vignette_statistics import PAPER, statistics, statistics_table, to_json
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.progress import print_table, progress_bar, say, tracked
from triage_runtime.storage import locations


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    given = options.read(StatsOptions, arguments)
    if given.validate:
        return _validate(given)
    data = DataDirectory.open(given.data)
    if given.show is None:
        _statistics(data, given)
    else:
        _show(data, given, given.show)
    return 0


def _statistics(data: DataDirectory, given: StatsOptions) -> None:
    risk_factor = np.array([entry.kind == "risk_factor" for entry in data.vocabulary])
    both = data.read("train", names=False).joined(data.read("test", names=False))
    found = statistics(evidence_counts(both, risk_factor), both.decision_counts)
    if given.json != "-":
        console = Console()
        console.print(f"{data.path}: {' and '.join(SPLITS)} splits", highlight=False, markup=False, soft_wrap=True)
        print_table(statistics_table(found))
    report = {
        "data": str(data.path),
        "data_fingerprint": data.data_fingerprint,
        "splits": list(SPLITS),
        **to_json(found),
        "paper": to_json(PAPER),
    }
    json_output.write(report, given.json)


def evidence_counts(arrays: VignetteArrays, risk_factor: np.ndarray) -> np.ndarray:
    """Returns the numbers of symptoms present and absent, and of risk factors present and absent, int `[V, 4]`.

    `risk_factor` says which pieces of evidence are risk factors, bool `[E]`.
    """
    states = sparse_states(arrays, len(risk_factor))
    columns = [(states[:, kind] == sign).sum(axis=1) for kind in (~risk_factor, risk_factor) for sign in (1, -1)]
    return np.asarray(np.hstack(columns))


def _show(data: DataDirectory, given: StatsOptions, count: int) -> None:
    vignettes = [(arrays, row) for arrays in map(data.read, SPLITS) for row in range(len(arrays.vignette_ids))]
    chosen = sorted(random.Random(given.seed).sample(range(len(vignettes)), min(count, len(vignettes))))  # noqa: S311
    shown = []
    for arrays, row in map(vignettes.__getitem__, chosen):
        vignette = arrays.vignette(row, data.vocabulary)
        shown.append({"vignette_id": vignette.vignette_id, "text": vignette_text(vignette, data.vocabulary)})
    if given.json != "-":
        say(Console(), "\n\n".join(entry["text"] for entry in shown))
    json_output.write({"data": str(data.path), "seed": given.seed, "vignettes": shown}, given.json)


def _validate(given: StatsOptions) -> int:
    with progress_bar(Console(stderr=True)) as bar:
        report = validate(given.data, lambda records, shard: tracked(records, bar, shard))
    if given.json != "-":
        console = Console()
        for anomaly in report.anomalies:
            say(console, f"{anomaly}\n")
        counts = [(report.count(severity), severity) for severity in SEVERITIES]
        numbers = [f"{count} {severity}{'' if count == 1 else 's'}" for count, severity in counts]
        checked = ", ".join(f"{split} {count:,}" for split, count in report.vignettes.items())
        say(console, f"{checked} vignettes: {', '.join(numbers) if report.anomalies else 'no anomalies'}")
    content = {
        "data": locations.shown(given.data),
        "vignettes": report.vignettes,
        "anomalies": [anomaly.to_dict() for anomaly in report.anomalies],
    }
    json_output.write(content, given.json)
    return ANOMALOUS if report.count(ERROR) else 0
