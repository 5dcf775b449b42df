"""What `triage score` is to do: its options, and the files of cases, each with the file for its answers."""

import argparse
import dataclasses
import pathlib
from collections.abc import Iterable

from schemas import directories
from schemas.errors import InputError
from schemas.features import MOST_QUESTIONS
from serving.scoring.cases import COMPRESSED, CSV, FORMATS, JSONL, TFRECORD, format_of
from triage_runtime.command_line.options import check_bounds, flag, option
from triage_runtime.storage import locations
from triage_runtime.storage.locations import Location


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """The options of `triage score`, see its help."""

    model: Location = option(
        "version, or base path, for its highest version", type=locations.source_model, metavar="DIR"
    )
    input: list[Location] = option(
        f"files of cases in .{', .'.join(FORMATS)}, the first three also with .gz; or directories of such files, such "
        "as a data directory",
        type=locations.source, action="extend", nargs="+", metavar="PATH",
    )  # fmt: skip
    output: Location = option(
        "directory for the answers, one file for each input", type=locations.fresh_result, metavar="DIR"
    )
    output_format: str | None = option(
        "format of the answers (default: that of the input)",
        choices=[*FORMATS, *(f"{each}{COMPRESSED}" for each in (JSONL, CSV, TFRECORD))],
    )
    questions: int = option(f"suggest the N best questions, 0 to {MOST_QUESTIONS}", default=0, metavar="N")
    allow_unknown_codes: bool = option(
        "ignore codes that the model does not know, and list them in the answer; default: refuse them"
    )
    defer_below: float | None = option(
        "hand over to a person if a case is novel or contradictory, or P(safe) is below P", metavar="P"
    )
    require_signature: Location | None = option(
        "file of a public Ed25519 key, in PEM format; the version must be signed with its private key",
        type=locations.source, metavar="FILE",
    )  # fmt: skip
    json: str | Location | None
    runner: str | None = option("score with this Apache Beam runner, such as DataflowRunner (default: in this process)")
    beam_options: list[str] = option(
        "options for Apache Beam, such as --region=europe-west4; must come last",
        nargs=argparse.REMAINDER, default=[], metavar="...",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_bounds("questions", self.questions, 0, MOST_QUESTIONS)
        if self.defer_below is not None and not 0 <= self.defer_below <= 1:
            raise InputError(f"--defer-below {self.defer_below:g}: expected a number from 0 to 1")
        ours = {flag(field.name) for field in dataclasses.fields(self)}
        for given in self.beam_options:
            if given.partition("=")[0] in ours:
                raise InputError(f"{given}: an option of triage score: give it before --beam-options")
        if self.beam_options and self.runner is None:
            raise InputError("--beam-options: needs --runner, such as --runner DataflowRunner")


@dataclasses.dataclass(frozen=True)
class Shard:
    """A file of cases, and the file for its answers."""

    source: Location
    target: Location


def shards_of(given: ScoreOptions) -> list[Shard]:
    """Returns each file of cases, also those in folders, with the file for its answers.

    Raises:
        InputError: a file is not there or of no known format, a folder has none, two files would have the same answers'
            file, or answers would replace a file of cases.
    """
    files = [file for location in given.input for file in _cases_at(location)]
    inputs = {_resolved(file) for file in files}
    shards: dict[str, Shard] = {}
    for file in files:
        kind = format_of(file)
        if kind is None:
            raise InputError(f"{file}: unknown format: expected a name that ends in .{', .'.join(FORMATS)}")
        ending = file.name[file.name.rindex(f".{kind}") + 1 :]
        name = f"{file.name.removesuffix(ending)}{given.output_format or ending}"
        shard = Shard(file, given.output / name)
        other = shards.setdefault(name, shard)
        if other.source != shard.source:
            raise InputError(
                f"{shard.source} and {other.source} have the same name: score them into different directories"
            )
        if _resolved(shard.target) in inputs:
            raise InputError(
                f"{shard.target}: the answers would replace this input: give another directory as --output"
            )
    return list(shards.values())


def _cases_at(location: Location) -> Iterable[Location]:
    files = locations.files_at(location)
    if files == [location]:
        return files
    cases = [file for file in files if format_of(file) and file.name != directories.VOCABULARY]
    if not cases and (files or (isinstance(location, pathlib.Path) and location.is_dir())):
        raise InputError(f"{location}: no files that end in .{', .'.join(FORMATS)}")
    if not cases:
        raise InputError(f"--input {location}: no such file or directory")
    return cases


def _resolved(location: Location) -> str:
    """Returns a path without links, or an address as it is."""
    return str(location.resolve() if isinstance(location, pathlib.Path) else location)
