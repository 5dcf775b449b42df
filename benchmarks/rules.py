"""For whom does each safety rule fire?

    triage simulate --whole-patient --vignettes 10000 --seed 1000 --out whole
    python benchmarks/rules.py --data whole

*Red* are the patients whom most of their clinicians called Red; of equally many, the more urgent decision counts. Rules
see what follows from the evidence, as in an exported model. A rule that fires for many others is too wide.
"""

import argparse
import pathlib
from collections.abc import Sequence

import trainer  # noqa: F401  # isort: skip  # before TensorFlow, as its legacy-Keras switch demands

import numpy as np
import tensorflow as tf
from rich import box
from rich.table import Table

from schemas import safety_rules
from schemas.directories import SPLITS
from schemas.evidence import Vocabulary
from schemas.safety_rules import SafetyRule
from schemas.triage import Action
from trainer.data.split import majority
from trainer.data.state import Vignettes, sparse_states
from trainer.data.tfrecord import DataDirectory
from trainer.graph.rules import RuleGraph
from triage_runtime.command_line.progress import print_table

AT_ONCE = 1_000  # patients


def main() -> None:
    """Prints a row for each rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="data directory")
    parser.add_argument("--rules", default=safety_rules.DEFAULT, help="file of rules, by default the package's")
    given = parser.parse_args()
    data = DataDirectory.open(given.data)
    rules, _ = safety_rules.choose(given.rules, data.vocabulary)
    print_table(table(tuple(rules), [data.read(split) for split in SPLITS], data.vocabulary))


def table(rules: Sequence[SafetyRule], splits: Sequence[Vignettes], vocabulary: Vocabulary) -> Table:
    """Returns the share of Red and of other patients for whom each rule fires, and in the last row any rule for Red."""
    graph = RuleGraph(rules, vocabulary)
    states = (sparse_states(vignettes, len(vocabulary)) for vignettes in splits)
    parts = (rows[first : first + AT_ONCE].toarray() for rows in states for first in range(0, rows.shape[0], AT_ONCE))
    fires = np.concatenate([graph.fired(tf.constant(part)).numpy() for part in parts])  # [V, R]
    for_red = fires[:, [rule.urgency == Action.RED for rule in rules]].any(axis=1)
    fires = np.column_stack([fires, for_red])
    is_red = np.array(
        [majority(counts) == Action.RED for vignettes in splits for counts in vignettes.decision_counts.tolist()]
    )
    made = Table("rule", f"of {is_red.sum()} Red", f"of {(~is_red).sum()} others", box=box.SIMPLE)
    names = [*(rule.rule_id for rule in rules), "any for Red"]
    for name, red, other in zip(names, fires[is_red].mean(axis=0), fires[~is_red].mean(axis=0), strict=True):
        made.add_row(name, f"{red:.2%}", f"{other:.2%}")
    return made


if __name__ == "__main__":
    main()
