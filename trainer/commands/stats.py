"""`triage stats`: statistics of a data directory, vignettes as text, or a check for anomalies."""

import argparse
import dataclasses
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from schemas import directories
from schemas.errors import InputError
from schemas.triage import TRIAGE_DECISIONS
from triage_runtime.command_line import json_output, options
from triage_runtime.storage import locations

if TYPE_CHECKING:  # TensorFlow loads only when the command runs
    import numpy as np
    from rich.console import Console

    from schemas.evidence import Vocabulary
    from trainer.vignettes.arrays import VignetteArrays
    from trainer.vignettes.tfrecord import DataDirectory
    from trainer.vignettes.vignette import Vignette

ANOMALOUS = 1
"""Exit code of `--validate` if there are errors."""


@dataclasses.dataclass(frozen=True)
class StatsOptions:
    """The options of `triage stats`, see its help."""

    data: pathlib.Path
    split: str | None
    show: int | None
    validate: bool
    seed: int
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        options.check_bounds("seed", self.seed, 0)
        options.check_bounds("show", self.show, 1)
        if self.validate and self.split:
            raise InputError("--validate compares the splits: leave out --split")

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits to use."""
        return (self.split,) if self.split else directories.SPLITS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage stats`."""
    parser.add_argument("data", metavar="DIR", type=locations.source, help="data directory, as triage prepare makes it")
    parser.add_argument("--split", choices=directories.SPLITS, help="vignettes to use (default: all)")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--show", metavar="N", type=int, help="print N random vignettes instead of the table")
    instead.add_argument(
        "--validate",
        action="store_true",
        help="check schema, counts and duplicates across the splits instead; exit code 1 if there are errors",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw of --show (default 0)")
    json_output.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    given = options.read(StatsOptions, arguments)
    if given.validate:
        return _validate(given)
    from trainer.vignettes.tfrecord import DataDirectory

    data = DataDirectory.open(given.data)
    if given.show is None:
        _statistics(data, given)
    else:
        _show(data, given, given.show)
    return 0


def _statistics(data: "DataDirectory", given: StatsOptions) -> None:
    import numpy as np
    from rich.console import Console

    from trainer.evaluation.vignette_statistics import PAPER, PAPER_DECISIONS, Sums, statistics_table, to_json
    from triage_runtime.command_line.progress import print_table

    sums = Sums()
    risk_factor = np.array([entry.kind == "risk_factor" for entry in data.vocabulary])
    for arrays in _shards(data, given.splits):
        sums.add(evidence_counts(arrays, risk_factor), arrays.decision_counts)
    moments = sums.moments()
    decisions = None
    if sums.fewest_decisions is not None and sums.most_decisions is not None:
        decisions = (sums.fewest_decisions, sums.most_decisions)
    if given.json != "-":
        console = Console()
        console.print(f"{data.path}: {' and '.join(given.splits)} split", highlight=False, markup=False, soft_wrap=True)
        print_table(statistics_table(moments, decisions))
    report = {
        "data": str(data.path),
        "data_fingerprint": data.data_fingerprint,
        "splits": list(given.splits),
        **to_json(moments, decisions),
        "paper": to_json(PAPER, PAPER_DECISIONS),
    }
    json_output.write(report, given.json)


def evidence_counts(arrays: "VignetteArrays", risk_factor: "np.ndarray") -> "np.ndarray":
    """Returns the numbers of symptoms present and absent, and of risk factors present and absent; int `[V, 4]`.

    Args:
        arrays: V vignettes.
        risk_factor: bool `[E]`, whether each piece of evidence is one.
    """
    import numpy as np

    vignettes = len(arrays.offsets) - 1
    codes: np.ndarray = arrays.signed_codes.astype(np.int64)
    columns = 2 * risk_factor[np.abs(codes) - 1] + (codes < 0)
    rows: np.ndarray = np.repeat(np.arange(vignettes), np.diff(arrays.offsets))
    return np.bincount(rows * 4 + columns, minlength=vignettes * 4).reshape(vignettes, 4)


def _show(data: "DataDirectory", given: StatsOptions, count: int) -> None:
    import random

    from trainer.vignettes.vignette import vignette_text
    from triage_runtime.command_line.progress import say

    total = sum(data.stats["splits"][split]["vignettes"] for split in given.splits)
    chosen = sorted(random.Random(given.seed).sample(range(total), min(count, total)))  # noqa: S311
    shown = []
    start = 0
    for arrays in _shards(data, given.splits):
        end = start + len(arrays.vignette_ids)
        for position in chosen:
            if start <= position < end:
                vignette = _vignette(arrays, position - start, data.vocabulary)
                shown.append({"vignette_id": vignette.vignette_id, "text": vignette_text(vignette, data.vocabulary)})
        start = end
    if given.json != "-":
        say(_console(), "\n\n".join(entry["text"] for entry in shown))
    json_output.write({"data": str(data.path), "seed": given.seed, "vignettes": shown}, given.json)


def _vignette(arrays: "VignetteArrays", row: int, vocabulary: "Vocabulary") -> "Vignette":
    from trainer.vignettes.state import evidence_codes
    from trainer.vignettes.vignette import Vignette

    signed = arrays.signed_codes[arrays.offsets[row] : arrays.offsets[row + 1]].tolist()
    counts = arrays.decision_counts[row].tolist()
    decisions = tuple(decision for decision in TRIAGE_DECISIONS for _ in range(counts[decision]))
    return Vignette(str(arrays.vignette_ids[row]), *evidence_codes(signed, vocabulary), decisions)


def _shards(data: "DataDirectory", splits: tuple[str, ...]) -> Iterator["VignetteArrays"]:
    """Yields the vignettes of one shard at a time, with a progress bar on a terminal.

    Raises:
        InputError: a shard is damaged, or a split has another number of vignettes than in stats.json.
    """
    from trainer.vignettes.arrays import ShardReader
    from triage_runtime.command_line.progress import progress_bar

    reader = ShardReader(data.vocabulary)
    with progress_bar(_console(stderr=True)) as bar:
        for split in splits:
            stated, counted = data.stats["splits"][split]["vignettes"], 0
            task = bar.add_task(split, total=stated, remark="", unit="vignettes")
            for shard in data.shards(split):
                arrays = reader.read([shard])
                counted += len(arrays.vignette_ids)
                bar.update(task, completed=counted)
                yield arrays
            if counted != stated:
                raise InputError(
                    f"{data.path}: the {split} split has {counted} vignettes, {directories.STATS} says {stated}: see "
                    "triage stats --validate"
                )


def _validate(given: StatsOptions) -> int:
    from trainer.importing.validation import ERROR, SEVERITIES, validate
    from triage_runtime.command_line.progress import progress_bar, say, tracked

    with progress_bar(_console(stderr=True)) as bar:
        report = validate(given.data, lambda records, shard: tracked(records, bar, shard))
    if given.json != "-":
        console = _console()
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


def _console(stderr: bool = False) -> "Console":
    from rich.console import Console

    return Console(stderr=stderr)
