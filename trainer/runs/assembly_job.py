"""A pipeline whose workers write a data directory: how it is started, and how it is shown before."""

import dataclasses
import pathlib
import posixpath
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from schemas.beam import files
from schemas.beam.runner import Runner
from schemas.locations import Remote
from trainer.runs.beam_output import BeamOutput
from trainer.runs.output import OutputDirectory

if TYPE_CHECKING:  # Beam and TensorFlow load only when they are to run
    import apache_beam as beam

    from trainer.vignettes.assembly import Plan
    from trainer.vignettes.passes import WriteOptions


class AssemblyJob:
    """A pipeline that ends as `trainer.vignettes.assembly.assemble` does.

    Args:
        runner: where it runs.
        how: how to divide the vignettes.
        build: adds the steps to a pipeline.
        unit: what is accepted or rejected.
        allow_rejects: whether rejects may be left out.
    """

    def __init__(
        self,
        runner: Runner,
        how: "WriteOptions",
        build: "Callable[[beam.Pipeline, Plan], None]",
        unit: str = "vignettes",
        allow_rejects: bool = False,
    ):
        self._runner, self._how, self._build = runner, how, build
        self._unit, self._allow_rejects = unit, allow_rejects

    def run(self, output: OutputDirectory | BeamOutput) -> dict[str, Any]:
        """Writes everything but the description, and returns what `trainer.vignettes.assembly.result` does.

        Raises:
            InputError: the pipeline failed.
            OSError: a file cannot be read.
        """
        from trainer.vignettes.assembly import result

        plan = self._plan(output)
        self._runner.run(lambda pipeline: self._build(pipeline, plan), folder=posixpath.dirname(plan.scratch))
        return result(plan)

    def print(self, out: pathlib.Path | Remote, overwrite: bool, **more: Any) -> None:
        """Prints what `run` would send to the runner as JSON, with `more` of the job, and writes nothing.

        Raises:
            InputError: what is at `out` may not be replaced.
        """
        plan = self._plan(BeamOutput(files.absolute(str(out)), overwrite))
        self._runner.print_job(lambda pipeline: self._build(pipeline, plan), job=dataclasses.asdict(plan) | more)

    def _plan(self, output: OutputDirectory | BeamOutput) -> "Plan":
        from trainer.vignettes.assembly import Plan

        return Plan(str(output.staging), str(output.scratch), self._how, self._unit, self._allow_rejects)
