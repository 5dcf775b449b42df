"""`triage score`: a model's answers to files of stored cases."""

import argparse
import gc
import pathlib
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from schemas import directories
from schemas.errors import InputError
from schemas.features import MOST_QUESTIONS
from schemas.model_directory import version_folder
from serving.scoring.bar import bar_over
from serving.scoring.cases import CSV, FORMATS, JSONL, TFRECORD, check_kind
from serving.scoring.job import print_job, score_on_beam
from serving.scoring.options import ScoreOptions
from serving.scoring.record import RECORD, Record
from serving.scoring.shards import Shard, local_files, shards_of
from serving.security import verified
from triage_runtime.beam import runner
from triage_runtime.command_line import figures, options
from triage_runtime.storage import whole_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage score`."""
    parser.add_argument(
        "--model", required=True, metavar="DIR", help="version, or base path of which the newest counts"
    )
    parser.add_argument(
        "--input",
        nargs="+",
        required=True,
        metavar="PATH",
        help=f"files of cases that end in .{', .'.join(FORMATS)}, the first three also with .gz; or directories, "
        "such as a data directory",
    )
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="directory of the answers, a file for each input"
    )
    parser.add_argument(
        "--output-format",
        choices=[*FORMATS, *(f"{each}.gz" for each in (JSONL, CSV, TFRECORD))],
        help="format of the answers (default: as the input)",
    )
    parser.add_argument(
        "--questions", type=int, default=0, metavar="N", help=f"suggest the N best questions, 0 to {MOST_QUESTIONS}"
    )
    parser.add_argument("--batch-size", type=int, default=4096, metavar="N", help="cases at a time (default 4096)")
    parser.add_argument(
        "--allow-unknown-codes",
        action="store_true",
        help="list codes that the model does not know; default: refuse them",
    )
    parser.add_argument(
        "--defer-below", type=float, metavar="P",
        help="hand over to a person what is novel, contradictory, or safe with a probability of less than P",
    )  # fmt: skip
    parser.add_argument(
        "--require-signature",
        metavar="FILE",
        help="file of a public Ed25519 key, in PEM format; the version must be signed with its private key",
    )
    figures.add_argument(parser)
    runner.add_arguments(parser, None, "none, this process alone", "score")


def reads_addresses(_: argparse.Namespace) -> bool:
    """Returns that Beam reads and writes what is at addresses, for which `ScoreOptions` requires a runner."""
    return True


def run(arguments: argparse.Namespace) -> int:
    """Scores, and says how many cases got which decision; files that are done already are left alone.

    Raises:
        InputError: an option, the model or an input is faulty. The answers to earlier files stay.
    """
    given = options.read(ScoreOptions, arguments)
    if given.dry_run:
        print_job(given)
        return 0
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    began = time.monotonic()
    done = score_on_beam(given, console) if given.runner else _score(given, console)
    if done is None:
        return 0
    record, scored = done
    counts = record.counts
    report = {
        "output": given.output,
        "cases": counts.total(),
        "best_triage": dict(counts.most_common()),
        "scored_cases": record.cases(scored),
        "seconds": time.monotonic() - began,
    }
    _summarise(console, report)
    figures.write(report, given.json)
    return 0


def _score(given: ScoreOptions, console: Console) -> tuple[Record, list[Shard]]:
    """Scores the inputs that are not done in this process, and returns the record and what these were."""
    key = given.read_key()
    folder = version_folder(pathlib.Path(given.model))
    shards = shards_of(local_files(given.input), given.output, given.output_format)
    path = pathlib.Path(given.output) / RECORD
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output {given.output}: {error.strerror}") from error
    manifest = (folder / directories.MANIFEST).read_bytes()
    earlier = Record.read(path.read_bytes(), str(path)) if path.exists() else None
    record = Record.continued(given, folder.name, manifest, earlier)
    left = [shard for shard in shards if not (record.is_done(shard) and pathlib.Path(shard.target).exists())]
    for shard in left:
        check_kind(pathlib.Path(shard.source))
    if left:
        from serving.scoring.answers import Scorer
        from serving.scoring.file import score_file

        with verified(folder, key) as signed:
            scorer = Scorer(signed, given.questions, given.allow_unknown_codes, given.defer_below)
        gc.freeze()  # what TensorFlow has loaded stays: no collection of what is read needs to look at it
        bar, task = bar_over(console, left)
        with bar:
            for shard in left:
                source = pathlib.Path(shard.source)

                def show(cases: int, name: str = source.name) -> None:
                    bar.update(task, done=f"{cases:,} cases of {name}")

                counts = score_file(scorer, source, pathlib.Path(shard.target), given.batch_size, show)
                record.add(shard.name, shard.state, counts)
                with whole_file.replacing(path) as file:
                    file.write(record.text)
                bar.advance(task, shard.size)
    return record, left


def _summarise(console: Console, report: Mapping[str, Any]) -> None:
    if report["scored_cases"]:
        rate = report["scored_cases"] / report["seconds"]
        console.print(f"{report['scored_cases']:,} cases in {report['seconds']:,.0f} s ({rate:,.0f}/s)")
    else:
        console.print("nothing to do: every input has its answers")
    shares = ", ".join(f"{label} {count / report['cases']:.1%}" for label, count in report["best_triage"].items())
    console.print(f"{report['cases']:,} cases; best triage {shares}")
    console.print(f"result in {report['output']}; next: join the answers with your cases by vignette_id")
