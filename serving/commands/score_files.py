"""The work of `triage score`; its options are in `serving.commands.score`."""

import argparse
import collections
import gc
import pathlib
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from schemas.errors import InputError
from serving.scoring.cases import check_kind
from serving.scoring.file import load_scorer, score_file
from serving.scoring.job import ScoreOptions, shards_of
from serving.security import VersionKey
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.extras import need
from triage_runtime.command_line.progress import progress_bar, say_result
from triage_runtime.storage import locations


def run(arguments: argparse.Namespace) -> int:
    """Scores, and says how many cases got which decision.

    Raises:
        InputError: an option, the model or an input is faulty. The answers to earlier files stay.
    """
    given = options.read(ScoreOptions, arguments)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    began = time.monotonic()
    if given.runner is None:
        counts = _score(given, console)
    else:
        need("apache_beam", "--runner", "beam")
        from serving.scoring.beam import score_on_beam  # loads Apache Beam, an extra

        on_workers = score_on_beam(given, console)
        if on_workers is None:
            return 0
        counts = on_workers
    report = {
        "output": locations.shown(given.output),
        "cases": counts.total(),
        "answers": dict(counts.most_common()),
        "seconds": time.monotonic() - began,
    }
    _summarise(console, report)
    with locations.staged(argparse.Namespace(json=given.json)) as local:
        json_output.write(report, local.json)
    return 0


def _score(given: ScoreOptions, console: Console) -> collections.Counter[str]:
    """Scores in this process, and returns the number of cases by triage decision, or by what else is next."""
    key = VersionKey.read(pathlib.Path(given.require_signature)) if given.require_signature else None
    pairs = [(pathlib.Path(shard.source), pathlib.Path(shard.target)) for shard in shards_of(given)]
    for source, _ in pairs:
        check_kind(source)
    try:
        pathlib.Path(given.output).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output {given.output}: {error.strerror}") from error
    scorer = load_scorer(pathlib.Path(given.model), key, given)
    gc.freeze()  # what TensorFlow has loaded stays: no collection of what is read needs to look at it
    counts: collections.Counter[str] = collections.Counter()
    with progress_bar(console, "{task.fields[done]}") as bar:
        task = bar.add_task("scoring", total=sum(source.stat().st_size for source, _ in pairs), done="")
        for source, target in pairs:

            def show(cases: int, name: str = source.name) -> None:
                bar.update(task, done=f"{cases:,} cases of {name}")

            counts += score_file(scorer, source, target, show)
            bar.advance(task, source.stat().st_size)
    return counts


def _summarise(console: Console, report: Mapping[str, Any]) -> None:
    cases = report["cases"]
    if cases:  # not every runner counts
        console.print(f"{cases:,} cases in {report['seconds']:,.0f} s ({cases / report['seconds']:,.0f}/s)")
        shares = ", ".join(f"{label} {count / cases:.1%}" for label, count in report["answers"].items())
        console.print(f"{cases:,} cases: {shares}")
    say_result(console, report["output"], "join the answers with your cases by vignette_id")
