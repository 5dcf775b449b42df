"""`triage reproduce`: runs the paper's study on a data directory and writes a report."""

import argparse

from trainer import presets
from triage_runtime.command_line import json_output
from triage_runtime.storage import locations

SIZES = {
    # name: (full, quick, help)
    "seeds": (3, 2, "number of training runs of each learning agent, each with its own seed"),
    "folds": (10, 0, "folds of the cross-validation; 0 for none"),
    "fold_seeds": (3, 1, "repetitions of the cross-validation"),
    "powerset_rows": (10_000, 2000, "maximum rows of the expanded data set that an ensemble is trained on"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage reproduce` and every hyper-parameter."""
    parser.add_argument("--data", type=locations.source, required=True, metavar="DIR", help="data directory")
    parser.add_argument(
        "--out", type=locations.result, required=True, metavar="DIR",
        help="directory for trained agents, results and report; agents that it already holds are not retrained",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="run a small study, a few minutes on two cores")
    for name, (full, quick, text) in SIZES.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=int, metavar="N", help=f"{text} (default {full}, quick {quick})")
    json_output.add_argument(parser)
    presets.add_arguments(parser)
