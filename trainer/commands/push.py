"""`triage push`: copies a blessed version into a model base path, as TFX's Pusher does."""

import argparse
import dataclasses
import pathlib
import shutil
import sys

from rich.console import Console

from schemas import directories
from schemas.errors import InputError
from schemas.model_directory import read_manifest
from triage_runtime.command_line import options
from triage_runtime.command_line.progress import say_result
from triage_runtime.storage import locations


@dataclasses.dataclass(frozen=True)
class PushOptions:
    """The options of `triage push`, see its help."""

    version_dir: pathlib.Path
    to: pathlib.Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage push`."""
    parser.add_argument(
        "--version-dir",
        type=locations.source,
        required=True,
        metavar="DIR",
        help="folder of the version, as `triage export --compare-with` wrote it",
    )
    parser.add_argument(
        "--to",
        type=locations.model_base,
        required=True,
        metavar="BASE",
        help="directory that holds a folder for each version",
    )


def run(arguments: argparse.Namespace) -> int:
    """Pushes and prints where to; returns 0.

    Raises:
        InputError: see `push`.
    """
    given = options.read(PushOptions, arguments)
    pushed = locations.shown(push(given.version_dir, given.to))
    sys.stdout.write(f"pushed to {pushed}\n")
    say_result(Console(stderr=True), pushed, f"triage serve --model-base-path {locations.shown(given.to)}")
    return 0


def push(version: pathlib.Path, base: pathlib.Path) -> pathlib.Path:
    """Copies a blessed version into `base`, where it appears whole; returns its folder there.

    Raises:
        InputError: it is not a version, was not blessed, or was compared with another version than the one that is
            served from `base` now; or `base` cannot be written.
    """
    from trainer.export import gate
    from trainer.export.saved_model import StagedVersion, newest_version

    if directories.version_number(version.name) is None or not (version / directories.MANIFEST).is_file():
        raise InputError(f"{version}: not a version: expected a folder that triage export wrote, such as out/3")
    if not (version / gate.BLESSED).exists():
        raise InputError(f"{version}: was not blessed: triage export --compare-with {base} compares it first")
    manifest = read_manifest(version)
    serving = newest_version(base)
    compared, there = manifest["gate"]["serving_version"], serving.name if serving else None
    if compared != there:
        raise InputError(
            f"{version}: was compared with {_named(compared)}, and {base} now serves {_named(there)}: compare it again"
        )
    stage = StagedVersion(base, int(version.name))
    try:
        shutil.copytree(version, stage.folder, dirs_exist_ok=True)
        return stage.publish()
    except OSError as error:
        raise InputError(f"{base}: cannot write a model version: {error.strerror or error}") from error
    finally:
        shutil.rmtree(stage.folder, ignore_errors=True)


def _named(version: str | None) -> str:
    return "no version" if version is None else f"version {version}"
