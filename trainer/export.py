"""`triage export`: writes the trained agent of a job directory as a SavedModel version."""

import argparse
import pathlib
import sys

from schemas import figures


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage export`."""
    parser.add_argument("--job-dir", type=pathlib.Path, required=True, help="directory that `triage train` wrote")
    parser.add_argument(
        "--model-base-path", type=pathlib.Path, required=True, help="directory that holds a folder for each version"
    )
    parser.add_argument("--version", type=int, help="number of the version; the highest that exists plus 1 by default")
    parser.add_argument("--step", type=int, help="checkpoint to export; the last one by default")
    parser.add_argument("--model-name", help='name under which TensorFlow Serving offers the model; default: "triage"')
    figures.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Exports, and says where to.

    Raises:
        InputError: there is no trained agent in the job directory, or the version cannot be written.
    """
    from trainer import job, servable  # TensorFlow takes seconds to load, and `triage export --help` needs none

    trained = job.load_network(arguments.job_dir, arguments.step)
    folder = servable.write_version(
        arguments.model_base_path, trained, arguments.version, arguments.model_name or servable.MODEL_NAME
    )
    if arguments.json != "-":
        sys.stdout.write(f"wrote version {folder.name} to {folder}\n")
    figures.write(
        {
            "path": str(folder),
            "model_version": folder.name,
            "vocabulary_fingerprint": trained.vocabulary.fingerprint,
            "data_fingerprint": trained.data_fingerprint,
            "metrics": trained.metrics,
        },
        arguments.json,
    )
    return 0
