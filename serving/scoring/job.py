"""What `triage score` is to do: its options, and the files of cases, each with the file for its answers."""

import dataclasses
import pathlib
from collections.abc import Iterable

from schemas import directories
from schemas.errors import InputError
from schemas.features import MOST_QUESTIONS
from serving.scoring.cases import FORMATS, format_of
from triage_runtime.command_line.options import check_bounds, flag
from triage_runtime.storage import locations
from triage_runtime.storage.locations import Location


@dataclasses.dataclass(frozen=True)
class ScoreOptions:
    """The options, see the help."""

    model: Location
    input: list[Location]
    output: Location
    output_format: str | None
    questions: int
    batch_size: int
    allow_unknown_codes: bool
    defer_below: float | None
    require_signature: Location | None
    json: str | Location | None
    runner: str | None
    dry_run: bool
    beam_options: list[str]

    def __post_init__(self) -> None:
        check_bounds("questions", self.questions, 0, MOST_QUESTIONS)
        check_bounds("batch_size", self.batch_size, 1)
        if self.defer_below is not None and not 0 <= self.defer_below <= 1:
            raise InputError(f"--defer-below {self.defer_below:g}: expected a number from 0 to 1")
        ours = {flag(field.name) for field in dataclasses.fields(self)}
        for option in self.beam_options:
            if option.partition("=")[0] in ours:
                raise InputError(f"{option}: an option of triage score: give it before --beam-options")
        for option, given in (("--beam-options", self.beam_options), ("--dry-run", self.dry_run)):
            if given and self.runner is None:
                raise InputError(f"{option}: needs --runner, such as --runner DataflowRunner")


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
