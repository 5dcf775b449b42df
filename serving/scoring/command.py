"""`triage score`: a model's answers to files of stored cases."""

import argparse
import collections
import dataclasses
import gc
import hashlib
import json
import pathlib
import time
from collections.abc import Mapping
from typing import Any

from rich import progress as bars
from rich.console import Console

from schemas import directories, figures, whole_file
from schemas.errors import InputError
from schemas.features import MOST_QUESTIONS
from schemas.model_directory import version_folder
from serving.scoring.cases import CSV, FORMATS, JSONL, TFRECORD, format_of
from serving.security import VersionKey, verified

RECORD = "score.json"
"""What the output directory holds beside the answers: model, options, and the inputs that are done."""


@dataclasses.dataclass(frozen=True)
class ScoreOptions:
    """The options of `triage score`, see its help."""

    model: pathlib.Path
    input: list[pathlib.Path]
    output: pathlib.Path
    output_format: str | None
    questions: int
    batch_size: int
    allow_unknown_codes: bool
    require_signature: pathlib.Path | None
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        if not 0 <= self.questions <= MOST_QUESTIONS:
            raise InputError(f"--questions {self.questions}: expected 0 to {MOST_QUESTIONS}")
        if self.batch_size < 1:
            raise InputError(f"--batch-size {self.batch_size}: expected 1 or more")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage score`."""
    parser.add_argument(
        "--model",
        type=pathlib.Path,
        required=True,
        metavar="DIR",
        help="version, or base path of which the newest counts",
    )
    parser.add_argument(
        "--input",
        type=pathlib.Path,
        nargs="+",
        required=True,
        metavar="PATH",
        help=f"files of cases that end in .{', .'.join(FORMATS)}, the first three also with .gz; or directories, "
        "such as a data directory",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        required=True,
        metavar="DIR",
        help="directory of the answers, a file for each input",
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
        "--require-signature",
        type=pathlib.Path,
        metavar="FILE",
        help="file of a public Ed25519 key, in PEM format; the version must be signed with its private key",
    )
    figures.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Scores, and says how many cases got which decision; files that are done already are left alone.

    Raises:
        InputError: an option, the model or an input is faulty. The answers to earlier files stay.
    """
    given = ScoreOptions(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(ScoreOptions)})
    figures.check(given.json)
    key = VersionKey.read(given.require_signature) if given.require_signature else None
    folder = version_folder(given.model)
    files = _input_files(given)
    record = _Record(given, folder)
    left = [(source, target) for source, target in files if not record.is_done(source, target)]
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    began, scored = time.monotonic(), 0
    if left:
        from serving.scoring.answers import Scorer
        from serving.scoring.file import score_file

        with verified(folder, key) as signed:
            scorer = Scorer(signed, given.questions, given.allow_unknown_codes)
        gc.freeze()  # what TensorFlow has loaded stays: no collection of what is read needs to look at it
        with _bar(console) as bar:
            task = bar.add_task("scoring", total=sum(source.stat().st_size for source, _ in left), cases="")
            for source, target in left:

                def show(cases: int, name: str = source.name) -> None:
                    bar.update(task, cases=f"{cases:,} cases of {name}")

                counts = score_file(scorer, source, target, given.batch_size, show)
                record.add(source, target, counts)
                scored += counts.total()
                bar.advance(task, source.stat().st_size)
    total = record.counts
    report = {
        "output": str(given.output),
        "cases": total.total(),
        "best_triage": dict(total.most_common()),
        "scored_cases": scored,
        "seconds": time.monotonic() - began,
    }
    _summarise(console, report)
    figures.write(report, given.json)
    return 0


def _input_files(given: ScoreOptions) -> list[tuple[pathlib.Path, pathlib.Path]]:
    """Returns each input file with the file for its answers.

    Raises:
        InputError: a file is missing or of no known format, there are none, or two would have the same answers' file.
    """
    files: list[pathlib.Path] = []
    for path in given.input:
        if path.is_dir():
            found = [each for each in sorted(path.iterdir()) if format_of(each) and each.name != directories.VOCABULARY]
            if not found:
                raise InputError(f"{path}: no files that end in .{', .'.join(FORMATS)}")
            files += found
        elif not path.exists():
            raise InputError(f"--input {path}: no such file or directory")
        elif format_of(path) is None:
            raise InputError(f"{path}: unknown format: expected a name that ends in .{', .'.join(FORMATS)}")
        else:
            files.append(path)
    targets: dict[pathlib.Path, pathlib.Path] = {}
    for path in files:
        kind = format_of(path)
        ending = path.name[path.name.rindex(f".{kind}") + 1 :]
        target = given.output / f"{path.name.removesuffix(ending)}{given.output_format or ending}"
        if target in targets and targets[target] != path:
            raise InputError(f"{path} and {targets[target]} have the same name: score them into different directories")
        targets[target] = path
    return [(source, target) for target, source in targets.items()]


class _Record:
    """The file that says which inputs are done.

    Raises:
        InputError: the directory holds the answers of another model or of other options, or cannot be written.
    """

    def __init__(self, given: ScoreOptions, folder: pathlib.Path):
        self._path = given.output / RECORD
        manifest = (folder / directories.MANIFEST).read_bytes()
        self._of = {
            "format": 1,
            "model_version": folder.name,
            "manifest_sha256": hashlib.sha256(manifest).hexdigest(),
            "questions": given.questions,
            "allow_unknown_codes": given.allow_unknown_codes,
        }
        self._done: dict[str, dict[str, Any]] = {}
        try:
            given.output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--output {given.output}: {error.strerror}") from error
        if self._path.exists():
            earlier = whole_file.read_json(self._path)
            self._done = earlier.pop("files", {})
            if earlier != self._of:
                names = ", ".join(name for name, value in self._of.items() if earlier.get(name) != value)
                raise InputError(f"{given.output}: holds answers with other values of {names}: give another --output")

    def is_done(self, source: pathlib.Path, target: pathlib.Path) -> bool:
        """Returns whether the answers are there, to the input as it is now."""
        return target.exists() and self._done.get(target.name, {}).get("input") == _state(source)

    def add(self, source: pathlib.Path, target: pathlib.Path, counts: collections.Counter[str]) -> None:
        """Keeps that a file is done."""
        self._done[target.name] = {"input": _state(source), "cases": counts.total(), "best_triage": dict(counts)}
        with whole_file.replacing(self._path) as file:
            json.dump({**self._of, "files": self._done}, file, indent=2)

    @property
    def counts(self) -> collections.Counter[str]:
        """The cases of all files by best triage decision."""
        return sum((collections.Counter(each["best_triage"]) for each in self._done.values()), collections.Counter())


def _state(source: pathlib.Path) -> dict[str, Any]:
    status = source.stat()
    return {"path": str(source.resolve()), "bytes": status.st_size, "modified": status.st_mtime_ns}


def _bar(console: Console) -> bars.Progress:
    return bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(bar_width=None),
        bars.TextColumn("{task.fields[cases]}"),
        bars.TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        expand=True,
    )


def _summarise(console: Console, report: Mapping[str, Any]) -> None:
    if report["scored_cases"]:
        rate = report["scored_cases"] / report["seconds"]
        console.print(f"{report['scored_cases']:,} cases in {report['seconds']:,.0f} s ({rate:,.0f}/s)")
    else:
        console.print("nothing to do: every input has its answers")
    shares = ", ".join(f"{label} {count / report['cases']:.1%}" for label, count in report["best_triage"].items())
    console.print(f"{report['cases']:,} cases; best triage {shares}")
    console.print(f"result in {report['output']}; next: join the answers with your cases by vignette_id")
