"""`triage kubeflow`: compiles the pipeline for Kubeflow Pipelines or runs it on this machine."""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import sys
import warnings
from typing import Any

from rich.console import Console

from schemas import VERSION
from schemas.errors import InputError
from triage_runtime.command_line import options
from triage_runtime.command_line.extras import WHOLE, missing
from triage_runtime.command_line.options import option
from triage_runtime.command_line.progress import say, say_result

IMAGE = f"{WHOLE}:{VERSION}"
CLAIM = "triage"
FAILED = 1


@dataclasses.dataclass(frozen=True)
class CompileOptions:
    """The options of `triage kubeflow compile`, see its help."""

    out: pathlib.Path = option("YAML file to write", metavar="FILE")
    image: str = option(f"container image with this package and its extra kubeflow (default {IMAGE})", default=IMAGE)
    claim: str = option(
        f'PersistentVolumeClaim with the vignettes and the models; "" for none (default {CLAIM})',
        default=CLAIM, metavar="NAME",
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class LocalRunOptions:
    """The options of `triage kubeflow run-local`, see its help."""

    vignettes: pathlib.Path = option("vignettes, JSON Lines", metavar="FILE")
    vocabulary: pathlib.Path = option("their vocabulary", metavar="FILE")
    push_to: pathlib.Path = option("model base path", metavar="BASE")
    root: pathlib.Path = option(
        "folder for the artifacts; each run gets its own subfolder (default pipeline)",
        default=pathlib.Path("pipeline"), metavar="DIR",
    )  # fmt: skip
    cases: pathlib.Path | None = option(
        "textbook cases (docs/evaluating.md) for the gate: no emergency may be triaged less urgently than before",
        metavar="FILE",
    )
    parameter: list[str] = option(
        "another parameter of the pipeline, such as folds=2 or 'seeds=[0, 1]'; can be repeated",
        type=str, action="append", default=[], metavar="NAME=VALUE",
    )  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage kubeflow`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    compiling = actions.add_parser("compile", help="write the pipeline as YAML, for Kubeflow Pipelines 2")
    options.add_arguments(compiling, CompileOptions)
    running = actions.add_parser(
        "run-local", help="run the same pipeline on this machine, each task in its own process"
    )
    options.add_arguments(running, LocalRunOptions)


def run(arguments: argparse.Namespace) -> int:
    """Compiles, or runs; returns the exit code: 1 where a task of the pipeline failed.

    Raises:
        InputError: kfp is not installed, a parameter is unknown, or a file cannot be read or written.
    """
    try:
        from kfp import kubernetes  # noqa: F401
    except ImportError as error:
        raise missing(str(error.name), "this command", "kubeflow") from error
    if arguments.action == "compile":
        return compile_pipeline(options.read(CompileOptions, arguments))
    return run_local(options.read(LocalRunOptions, arguments))


def compile_pipeline(given: CompileOptions) -> int:
    """Writes the YAML file; returns 0."""
    from kfp import compiler

    from trainer.cloud.pipeline import Cluster, build

    if given.out.suffix not in (".yaml", ".yml"):
        raise InputError(f"--out {given.out}: expected a name that ends in .yaml")
    try:
        compiler.Compiler().compile(build(Cluster(given.image, given.claim)), str(given.out))
    except OSError as error:
        raise InputError(f"--out {given.out}: cannot write: {error.strerror or error}") from error
    say_result(Console(stderr=True), given.out, "upload it to Kubeflow Pipelines and start a run")
    return 0


def run_local(given: LocalRunOptions) -> int:
    """Runs the pipeline with KFP's local runner, in the Python environment that is running; returns the exit code."""
    from kfp import local

    from trainer.cloud.pipeline import Cluster, build

    files = {
        "vignettes": str(_readable(given.vignettes, "--vignettes").resolve()),
        "vocabulary": str(_readable(given.vocabulary, "--vocabulary").resolve()),
        "cases": "" if given.cases is None else str(_readable(given.cases, "--cases").resolve()),
    }
    pipeline = build(Cluster(IMAGE, claim=""))
    parameters = {**files, "push_to": str(given.push_to.resolve()), **_parameters(given.parameter, pipeline)}
    try:
        given.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--root {given.root}: cannot write: {error.strerror or error}") from error
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(given.root.resolve()))
    # The runner warns that the image may lack Python; it uses no image.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            _in_a_loop_of_one(pipeline, parameters)()
        except RuntimeError:  # which names the loop, not the task
            sys.stderr.write("triage kubeflow: error: a task failed: the lines above name it and say why\n")
            return FAILED
    say(
        Console(stderr=True),
        f"artifacts of all tasks are in {given.root}; a blessed version is in {given.push_to}",
    )
    return 0


def _in_a_loop_of_one(pipeline: Any, parameters: dict[str, Any]) -> Any:
    """Returns a pipeline whose one step is `pipeline`.

    The local runner of kfp 2.16 only looks for loops at the top level, and otherwise skips nested ones.
    """
    from kfp import dsl

    @dsl.pipeline(name="local")
    def local_run() -> None:
        with dsl.ParallelFor(["once"]):
            pipeline(**parameters)

    return local_run


def _parameters(texts: list[str], pipeline: Any) -> dict[str, Any]:
    """Returns the parameters that `NAME=VALUE` texts give; a value is JSON where it is not a text by its type."""
    known = pipeline.component_spec.inputs
    parameters: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            raise InputError(f"--parameter {text}: expected NAME=VALUE, where NAME is one of {', '.join(known)}")
        parameters[name] = value
        if known[name].type.upper() != "STRING":
            with contextlib.suppress(ValueError):
                parameters[name] = json.loads(value)
            if isinstance(parameters[name], str):
                raise InputError(f"--parameter {text}: expected a value of type {known[name].type}, as JSON")
    return parameters


def _readable(path: pathlib.Path, flag: str) -> pathlib.Path:
    if not path.is_file():
        raise InputError(f"{flag} {path}: no such file")
    return path
