"""`triage powerset`: expands a data directory to D_pow (trainer.study.powerset) with Apache Beam.

Only vignettes pass between workers, grouped by the shard of their rows;
`trainer.study.powerset_shards.write_shard` writes the rows directly to files, which avoids Beam's cost per
element.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import pathlib
import posixpath
import resource
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich import progress as bars
from rich.console import Console

from schemas import directories
from schemas.errors import InputError
from trainer.study.powerset import row_count
from trainer.vignettes.output import writing
from triage_runtime.beam import runner
from triage_runtime.beam.watch import watching
from triage_runtime.command_line import figures, options
from triage_runtime.command_line.progress import progress_bar, say, say_result
from triage_runtime.storage import files, locations
from triage_runtime.storage.locations import Remote

if TYPE_CHECKING:  # TensorFlow and Beam load only when the command runs
    import apache_beam as beam

    from trainer.study.beam_output import BeamOutput
    from trainer.study.powerset_shards import Plan
    from trainer.vignettes.output import OutputDirectory
    from trainer.vignettes.tfrecord import DataDirectory

_SHARD_ROWS = 50_000
_MAX_SHARDS = 99_999


@dataclasses.dataclass(frozen=True)
class PowersetOptions:
    """The options of `triage powerset`, see its help."""

    data: pathlib.Path | Remote
    out: pathlib.Path | Remote
    split: str | None
    seed: int
    sample: float
    shards: int | None
    gzip: bool
    overwrite: bool
    json: str | pathlib.Path | Remote | None
    dry_run: bool
    runner: str
    beam_options: list[str]

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**64:
            raise InputError(f"--seed {self.seed}: expected 0 or more, and less than 2^64")
        if not 0 < self.sample <= 1:
            raise InputError(f"--sample {self.sample:g}: expected more than 0, and at most 1")
        options.check_bounds("shards", self.shards, 1, _MAX_SHARDS)
        runner.check(self.beam_options, (field.name for field in dataclasses.fields(self)), "powerset")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage powerset`."""
    parser.add_argument("--data", type=locations.source, required=True, metavar="DIR", help="data directory to expand")
    parser.add_argument("--out", type=locations.result, required=True, metavar="DIR", help="data directory to make")
    parser.add_argument("--split", choices=directories.SPLITS, help="vignettes to expand (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="seed of every random draw (default 0)")
    parser.add_argument(
        "--sample", type=float, default=1.0, metavar="F", help="probability of drawing each row (default 1)"
    )
    parser.add_argument(
        "--shards", type=int, metavar="N", help=f"files per split (default: one per {_SHARD_ROWS} rows)"
    )
    parser.add_argument("--gzip", action="store_true", help="compress the shards")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing data directory")
    figures.add_argument(parser)
    runner.add_arguments(parser, runner.LOCAL, f"{runner.LOCAL}, in this process", "make")


def reads_addresses(_: argparse.Namespace) -> bool:
    """Returns that workers read and write what is at addresses."""
    return True


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    given = options.read(PowersetOptions, arguments)
    beam_runner = runner.Runner(given.runner, given.beam_options)
    from trainer.study.beam_output import BeamOutput

    with _opened(given.data) as data:
        expected = _expected_rows(data, given)
        inputs = [
            posixpath.join(files.absolute(str(given.data)), path.name)
            for split in expected
            for path in data.shards(split)
        ]
        if given.dry_run:
            plan = _plan(BeamOutput(files.absolute(str(given.out)), given.overwrite), expected, given)
            beam_runner.print_job(
                lambda pipeline: build(pipeline, inputs, plan), job=dataclasses.asdict(plan), files=inputs
            )
            return 0
        start = time.monotonic()
        stats = _made(data, inputs, expected, given, beam_runner)
    _report(stats, time.monotonic() - start, given)
    following = "train classifiers on it (docs/beam.md)"
    say_result(Console(stderr=True), locations.shown(given.out), following)
    return 0


def _made(
    data: "DataDirectory", inputs: Sequence[str], expected: dict[str, int], given: PowersetOptions,
    beam_runner: runner.Runner,
) -> dict[str, Any]:  # fmt: skip
    """Runs the pipeline and publishes the result; returns what its stats.json says."""
    from trainer.study.beam_output import output_at

    with (
        writing(given.out),
        output_at(given.out, given.overwrite) as output,
        progress_bar(Console(stderr=True)) as bar,
    ):
        plan = _plan(output, expected, given)
        with _progress(bar, plan, round(sum(expected.values()) * given.sample)):
            unfinished = posixpath.dirname(plan.scratch)
            beam_runner.run(lambda pipeline: build(pipeline, inputs, plan), folder=unfinished)
        stats = _header(data, given) | _merge_figures(data, plan, expected)
        output.describe(data.vocabulary, stats)
        output.publish()
    return stats


@contextlib.contextmanager
def _opened(data: pathlib.Path | Remote) -> "Iterator[DataDirectory]":
    """Yields the data directory, of one at an address a copy: rows are counted here, and faults found early."""
    from trainer.vignettes.tfrecord import DataDirectory

    if isinstance(data, pathlib.Path):
        yield DataDirectory.open(data).whole()
        return
    with tempfile.TemporaryDirectory(prefix="triage-") as folder, locations.standing_for({folder: data.folder}):
        copy = pathlib.Path(folder) / data.name
        _fetch(files.absolute(data.uri), copy)
        yield DataDirectory.open(copy).whole()


def _fetch(location: str, folder: pathlib.Path) -> None:
    try:
        for entry in files.entries(f"{location}/*"):
            name = posixpath.basename(entry.location)
            if name in (directories.VOCABULARY, directories.STATS) or directories.shard_parts(name):
                files.fetch(entry.location, folder / name)
    except OSError as error:
        raise InputError(f"--data: cannot read {error}") from error


def build(pipeline: "beam.Pipeline", inputs: Iterable[str], plan: "Plan") -> None:
    """Adds the steps to a Beam pipeline.

    Args:
        pipeline: a Beam pipeline.
        inputs: paths or addresses of the shards of vignettes, named as in a data directory.
        plan: where the rows go.
    """
    import apache_beam as beam

    from trainer.study.powerset_shards import keyed_vignettes, write_shard

    vignettes = (
        pipeline
        | "input shards" >> beam.Create(list(inputs))
        | "spread" >> beam.Reshuffle()
        | "read vignettes" >> beam.FlatMap(keyed_vignettes, plan)
    )
    # A shard without vignettes is written as well.
    names = [(name, b"") for split in plan.shards for name in plan.shard_names(split)]
    empty = pipeline | "output shards" >> beam.Create(names)
    grouped = (vignettes, empty) | beam.Flatten() | "by output shard" >> beam.GroupByKey()
    _ = grouped | "expand and write" >> beam.Map(write_shard, plan)


def _expected_rows(data: "DataDirectory", given: PowersetOptions) -> dict[str, int]:
    """Returns the number of rows to draw from, by split; reading the vignettes finds faults early."""
    rows = {}
    for split in (given.split,) if given.split else directories.SPLITS:
        offsets = data.read(split).offsets
        rows[split] = sum(map(row_count, (offsets[1:] - offsets[:-1]).tolist()))
    if not sum(rows.values()):
        raise InputError(f"--data {given.data}: there are no vignettes in the {' and '.join(rows)} split")
    return rows


def _plan(output: "OutputDirectory | BeamOutput", expected: dict[str, int], given: PowersetOptions) -> "Plan":
    from trainer.study.powerset_shards import Plan

    shards = {}
    for split, rows in expected.items():
        default = max(1, min(_MAX_SHARDS, -(-round(rows * given.sample) // _SHARD_ROWS)))
        shards[split] = (given.shards or default) if rows else 0
    return Plan(str(output.staging), str(output.scratch), given.seed, given.sample, given.gzip, shards)


@contextlib.contextmanager
def _progress(bar: bars.Progress, plan: "Plan", rows: int) -> Iterator[None]:
    """Shows on `bar` the number of rows in finished shards, from all processes."""
    from trainer.study.powerset_shards import ShardFigures, finished_shards

    task = bar.add_task("expand", total=rows, remark="", unit="rows")
    finished: dict[str, ShardFigures] = {}

    def look() -> None:
        finished.update(finished_shards(plan, finished))
        done = sum(shard.rows for shard in finished.values())
        bar.update(task, completed=done, remark=f", {bar.tasks[task].speed or 0:,.0f}/s")

    with contextlib.nullcontext() if bar.disable else watching(look):
        yield


def _merge_figures(data: "DataDirectory", plan: "Plan", expected: dict[str, int]) -> dict[str, Any]:
    """Returns `data_fingerprint` and the figures of the `splits`, after checking that no rows were lost."""
    from trainer.study.powerset_shards import finished_shards

    fingerprint = hashlib.sha256()
    finished = finished_shards(plan)
    splits: dict[str, Any] = {split: {"vignettes": 0, "generated_from": 0} for split in directories.SPLITS}
    for split in plan.shards:
        shards = [finished[name] for name in plan.shard_names(split) if name in finished]
        rows, vignettes = sum(shard.rows for shard in shards), sum(shard.vignettes for shard in shards)
        lost = len(shards) < plan.shards[split] or vignettes != data.stats["splits"][split]["vignettes"]
        if lost or (plan.sample == 1 and rows != expected[split]):
            raise InputError(f"the workers wrote only {rows:,} {split} rows of {vignettes:,} vignettes: run again")
        longest = max((len(shard.rows_by_evidence) for shard in shards), default=0)
        padded = [shard.rows_by_evidence + [0] * (longest - len(shard.rows_by_evidence)) for shard in shards]
        by_evidence = [sum(column) for column in zip(*padded, strict=True)]
        splits[split] = {"vignettes": rows, "generated_from": vignettes, "vignettes_by_evidence": by_evidence}
        fingerprint.update("".join(f"{split} {shard.sha256}\n" for shard in shards).encode())
    if not any(part["vignettes"] for part in splits.values()):
        raise InputError(f"--sample {plan.sample:g}: no rows were drawn: give a larger probability")
    return {"data_fingerprint": f"sha256:{fingerprint.hexdigest()}", "splits": splits}


def _header(data: "DataDirectory", given: PowersetOptions) -> dict[str, Any]:
    from trainer.vignettes.tfrecord import POWERSET_FORMAT

    return {
        "format": POWERSET_FORMAT,
        "sources": [{"data_fingerprint": data.data_fingerprint}],
        "options": {"sample": given.sample},
        "seed": given.seed,
        "vocabulary_fingerprint": data.vocabulary.fingerprint,
    }


def _report(stats: dict[str, Any], seconds: float, given: PowersetOptions) -> None:
    rows, memory = sum(part["vignettes"] for part in stats["splits"].values()), _peak_memory()
    if given.json != "-":
        sizes = ", ".join(f"{split} {part['vignettes']:,}" for split, part in stats["splits"].items())
        say(
            Console(),
            f"{locations.shown(given.out)}: {sizes} rows; {seconds:,.1f} s, {rows / seconds:,.0f} rows/s, at most "
            f"{max(memory.values()) / 2**20:,.0f} MiB of memory in a process",
        )
    speed = {"rows": rows, "seconds": seconds, "rows_per_second": rows / seconds}
    figures.write({"out": locations.shown(given.out), "runner": given.runner, **speed, **memory, **stats}, given.json)


def _peak_memory() -> dict[str, int]:
    """Returns the peak resident size in bytes of this process, and of its largest finished child."""
    unit = 1 if sys.platform == "darwin" else 1024
    kinds = {"peak_memory_bytes": resource.RUSAGE_SELF, "peak_memory_bytes_child": resource.RUSAGE_CHILDREN}
    return {name: resource.getrusage(who).ru_maxrss * unit for name, who in kinds.items()}
