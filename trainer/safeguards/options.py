"""The option `--rules` of the commands that write a model."""

import argparse
import dataclasses
import sys

from schemas import locations, safety_rules
from schemas.evidence import Vocabulary
from schemas.safety_rules import RuleSet


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the option."""
    parser.add_argument(
        "--rules",
        type=locations.source,
        metavar="FILE",
        help="safety rules that the model obeys: a file (docs/rules.md), default for the red flags of this package, "
        "or none; by default those red flags, if the vocabulary has all of their codes",
    )


def chosen(arguments: argparse.Namespace, vocabulary: Vocabulary) -> RuleSet:
    """Returns the rules that the option means; where none are in force unasked, a line on standard error says so.

    Raises:
        InputError: the rules are faulty, or do not fit the vocabulary.
    """
    name = None if arguments.rules is None else str(arguments.rules)
    rules, remark = safety_rules.choose(name, vocabulary)
    if remark:
        sys.stderr.write(f"{remark}\n")
    return dataclasses.replace(rules, source=locations.shown(arguments.rules)) if name and len(rules) else rules
