"""`triage score`: a model's answers to files of stored cases. Its work is in `serving.commands.score_files`."""

import argparse

from schemas.features import MOST_QUESTIONS
from serving.scoring.cases import CSV, FORMATS, JSONL, TFRECORD
from triage_runtime.command_line import json_output
from triage_runtime.storage import locations


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage score`."""
    parser.add_argument(
        "--model",
        type=locations.source_model,
        required=True,
        metavar="DIR",
        help="version, or base path, for its highest version",
    )
    parser.add_argument(
        "--input",
        type=locations.source,
        action="extend",
        nargs="+",
        required=True,
        metavar="PATH",
        help=f"files of cases in .{', .'.join(FORMATS)}, the first three also with .gz; or directories of such files, "
        "such as a data directory",
    )
    parser.add_argument(
        "--output",
        type=locations.fresh_result,
        required=True,
        metavar="DIR",
        help="directory for the answers, one file for each input",
    )
    parser.add_argument(
        "--output-format",
        choices=[*FORMATS, *(f"{each}.gz" for each in (JSONL, CSV, TFRECORD))],
        help="format of the answers (default: that of the input)",
    )
    parser.add_argument(
        "--questions", type=int, default=0, metavar="N", help=f"suggest the N best questions, 0 to {MOST_QUESTIONS}"
    )
    parser.add_argument("--batch-size", type=int, default=4096, metavar="N", help="cases in a batch (default 4096)")
    parser.add_argument(
        "--allow-unknown-codes",
        action="store_true",
        help="ignore codes that the model does not know, and list them in the answer; default: refuse them",
    )
    parser.add_argument(
        "--defer-below", type=float, metavar="P",
        help="hand over to a person if a case is novel or contradictory, or P(safe) is below P",
    )  # fmt: skip
    parser.add_argument(
        "--require-signature",
        type=locations.source,
        metavar="FILE",
        help="file of a public Ed25519 key, in PEM format; the version must be signed with its private key",
    )
    json_output.add_argument(parser)
    parser.add_argument(
        "--runner", help="score with this Apache Beam runner, such as DataflowRunner (default: in this process)"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="with --runner: print the job as JSON and score nothing",
    )
    parser.add_argument(
        "--beam-options", nargs=argparse.REMAINDER, default=[], metavar="...",
        help="options for Apache Beam, such as --region=europe-west4; must come last",
    )  # fmt: skip


def reads_addresses(arguments: argparse.Namespace) -> bool:
    """Returns whether workers read and write what is at addresses."""
    return arguments.runner is not None
