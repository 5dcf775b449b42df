"""`triage export`: writes the trained agent of a job directory as a SavedModel version, on request past a gate."""

import argparse
import dataclasses
import pathlib

from schemas.errors import InputError
from trainer.evaluation.options import ORDERS
from trainer.training.agent_options import RULES, OperatingPointOptions, PromiseOptions
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.options import option
from triage_runtime.storage import locations

REJECTED = 3
"""Exit code if the version did not pass the gate, or the promise was refused."""

MARGIN = 0.02


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The options of `triage export`, see its help."""

    job_dir: pathlib.Path = option("directory that `triage train` wrote", type=locations.result)
    model_base_path: pathlib.Path | None
    push_to: pathlib.Path | None
    compare_with: pathlib.Path | None = option(
        "with --model-base-path: compare the version with the newest one of this BASE and mark it BLESSED or "
        f"NOT_BLESSED, for a later `triage push`; needs --data; exit code {REJECTED} if it is not blessed",
        type=locations.source_model, metavar="BASE",
    )  # fmt: skip
    version: int | None = option("number of the version; default: one more than the highest")
    step: int | None = option("checkpoint to export; default: the newest")
    rules: pathlib.Path | None = option(RULES, type=locations.source, metavar="FILE")
    model_name: str | None = option('name of the model in TensorFlow Serving; default: "triage"')
    data: pathlib.Path | None = option(
        "data directory whose test split evaluates the version", type=locations.source, metavar="DIR"
    )
    orders: int = option(f"random evidence orders to average over (default {ORDERS})", default=ORDERS)
    seed: int = option("seed of the orders and the bootstrap (default 0)", default=0)
    margin: float | None = option(f"loss of safety that --push-to accepts, from 0 to 1 (default {MARGIN:g})")
    cases: pathlib.Path | None = option(
        "textbook cases for --push-to and --compare-with: a file (docs/evaluating.md) or default; a version that "
        "triages an emergency less urgently than the version before it does not pass",
        type=locations.source, metavar="FILE",
    )  # fmt: skip
    allow_small_test: bool = option("let a version pass --push-to and --compare-with on fewer than 50 test vignettes")
    sign: pathlib.Path | None = option(
        "private Ed25519 key, in PEM format, that signs a published version for triage serve --require-signature",
        metavar="KEY",
    )
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        options.check_bounds("orders", self.orders, 1)
        options.check_bounds("seed", self.seed, 0)
        if self.push_to is not None and self.compare_with is not None:
            raise InputError("--push-to already compares with its own versions: leave out --compare-with")
        if self.margin is not None and not 0 <= self.margin <= 1:
            raise InputError(f"--margin {self.margin}: expected a share from 0 to 1, such as 0.02")
        self._check_gate()

    @property
    def base(self) -> pathlib.Path:
        """The base path that the version is written to."""
        path = self.push_to or self.model_base_path
        if path is None:
            raise InputError("give --model-base-path BASE or --push-to BASE")
        return path

    @property
    def gate(self) -> pathlib.Path | None:
        """The base path whose newest version the new one is compared with, None if it passes no gate."""
        return self.push_to or self.compare_with

    def _check_gate(self) -> None:
        if self.gate is None:
            names = [
                name for name in ("margin", "cases", "allow_small_test") if getattr(self, name) not in (None, False)
            ]
            if names:
                raise InputError(f"{options.flag(names[0])} needs --push-to or --compare-with: give one of them")
            return
        if self.data is None:
            name = "--push-to" if self.push_to else "--compare-with"
            raise InputError(
                f"{name} compares the new version with the serving one: give the vignettes with --data DIR"
            )
        if self.compare_with and self.model_base_path and self.compare_with.resolve() == self.model_base_path.resolve():
            raise InputError(f"--compare-with {self.compare_with}: versions are served from there: use --push-to")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage export`."""
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--model-base-path",
        type=locations.model_base,
        metavar="BASE",
        help="directory with a folder for each version",
    )
    where.add_argument(
        "--push-to",
        type=locations.model_base,
        metavar="BASE",
        help="the same, but publish the version only if it is no less safe than the newest one there; needs --data; "
        f"exit code {REJECTED} if it is not published",
    )
    options.add_arguments(parser, ExportOptions)
    options.add_arguments(parser, OperatingPointOptions)
    options.add_arguments(parser, PromiseOptions)
    json_output.add_argument(parser)
