"""`triage prepare --runner`: the input as its workers read it, wherever it is."""

import contextlib
import dataclasses
import pathlib
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from schemas import locations
from schemas.beam import files
from schemas.beam.runner import Runner
from schemas.errors import InputError
from schemas.locations import Remote
from trainer.importing.input_formats import Format, Jsonl, Parts, Source, can_be_read_twice
from trainer.importing.units import InputFile
from trainer.runs.assembly_job import AssemblyJob
from trainer.vignettes.source import MAX_LINE_BYTES, PREFIX_BYTES, is_archive

if TYPE_CHECKING:  # Beam and TensorFlow load only when they are to run
    import apache_beam as beam

    from trainer.vignettes.assembly import Plan
    from trainer.vignettes.passes import WriteOptions

_READ_IN_PARTS = ("vignettes", "patients", "test_patients")
"""Options whose files only workers read as a whole."""


@contextlib.contextmanager
def opened(chosen: Format, seed: int) -> Iterator[tuple[Source, Parts]]:
    """Yields the input, and how workers read it; of files at addresses, copies what is needed to check them.

    Raises:
        InputError: a file cannot be read or is not of its format, or the format is not read in parts.
    """
    with tempfile.TemporaryDirectory(prefix="triage-") as temporary:
        copies = _Copies(pathlib.Path(temporary), headed=not isinstance(chosen, Jsonl))
        values: dict[str, Any] = {}
        for name, value in vars(chosen).items():
            many = isinstance(value, list)
            placed = [copies.placed(each, name in _READ_IN_PARTS) for each in (value if many else [value])]
            values[name] = placed if many else placed[0]
        local: Any = dataclasses.replace(chosen, **values)  # type: ignore[type-var]
        if not can_be_read_twice(local):
            raise InputError("with --runner every input must be a regular file: a pipe can be read only once")
        with locations.staged_as(copies.uris):
            try:
                source = local.open(seed)
                if source.parts is None:
                    raise InputError("--format csv-long: one process groups the rows of vignettes: leave out --runner")
                yield source, source.parts
            except InputError as error:
                raise InputError(locations.shown(str(error))) from error


def input_files(source: Source) -> list[InputFile]:
    """Returns the input files as workers find them."""
    names = [locations.shown(reader.path) for reader in source.readers]
    return [InputFile(place, files.absolute(name), name) for place, name in enumerate(names)]


def job_of(source: Source, parts: Parts, how: "WriteOptions", allow_rejects: bool, runner: Runner) -> AssemblyJob:
    """Returns the job that prepares a data directory.

    Args:
        source: the input.
        parts: how workers read it.
        how: how to divide the vignettes.
        allow_rejects: whether rejects may be left out.
        runner: where the pipeline runs.
    """
    inputs = input_files(source)

    def build(pipeline: "beam.Pipeline", plan: "Plan") -> None:
        from trainer.importing import prepare_pipeline

        prepare_pipeline.build(pipeline, inputs, parts, plan)

    return AssemblyJob(runner, how, build, source.unit, allow_rejects)


class _Copies:
    """Copies of files at addresses, on this machine.

    Args:
        folder: of the copies.
        headed: whether the first line is needed of files that are read in parts, which shows their kind otherwise.
    """

    def __init__(self, folder: pathlib.Path, headed: bool):
        self._folder, self._headed = folder, headed
        self.uris: dict[str, str] = {}

    def placed(self, value: Any, in_parts: bool) -> Any:
        """Returns the path of a copy of an address, of its start if it is read in parts; or `value` as it is."""
        if not isinstance(value, Remote):
            return value
        folder = self._folder / str(len(self.uris))
        self.uris[str(folder)] = value.folder
        path = folder / value.name
        try:
            location = files.absolute(value.uri)
            if not files.entries(location):
                raise InputError(f"{value}: no such file")
            if not in_parts:
                files.fetch(location, path)
            else:
                files.fetch_start(location, path, PREFIX_BYTES, 2 * MAX_LINE_BYTES if self._headed else 0)
                if self._headed and is_archive(path):  # what is in it stands at its end
                    files.fetch(location, path)
        except OSError as error:
            raise InputError(f"cannot read {error}") from error
        return path
