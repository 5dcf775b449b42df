"""The option `--rules` of the commands that write a model."""

import argparse
import dataclasses
import pathlib
import sys

from schemas import safety_rules
from schemas.evidence import Vocabulary
from schemas.safety_rules import RuleSet
from triage_runtime.storage import locations


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the option."""
    parser.add_argument(
        "--rules",
        type=locations.source,
        metavar="FILE",
        help="safety rules that the model obeys: a file (docs/rules.md), default (the red flags of this package) or "
        "none; if omitted, default where the vocabulary has all of their codes",
    )


def read_rules(path: pathlib.Path | None, vocabulary: Vocabulary) -> RuleSet:
    """Returns the rules that the option names; warns on standard error if, without the option, none apply.

    Raises:
        InputError: the rules are faulty, or do not fit the vocabulary.
    """
    rules, remark = safety_rules.choose(None if path is None else str(path), vocabulary)
    if remark:
        sys.stderr.write(f"{remark}\n")
    return dataclasses.replace(rules, source=locations.shown(path)) if path is not None and len(rules) else rules
