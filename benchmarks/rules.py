"""For whom does each safety rule fire?

    triage simulate --whole-patient --vignettes 10000 --seed 1000 --out whole
    python benchmarks/rules.py --data whole

*Red* are the patients whom most of their clinicians called Red; of equally many, the more urgent decision counts. Rules
see what follows from the evidence, as in an exported model. A rule that fires for many others is too wide.
"""

import argparse
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.table import Table

from schemas import safety_rules
from schemas.directories import SPLITS
from schemas.evidence import Vocabulary
from schemas.safety_rules import SafetyRule
from schemas.triage import Action
from trainer.data.split import majority
from trainer.data.tfrecord import DataDirectory, decode_example, read_records
from trainer.data.vignette import Vignette
from triage_runtime.command_line.progress import print_table


def main() -> None:
    """Prints a row for each rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="data directory")
    parser.add_argument("--rules", default=safety_rules.DEFAULT, help="file of rules, by default the package's")
    given = parser.parse_args()
    data = DataDirectory.open(given.data)
    rules, _ = safety_rules.choose(given.rules, data.vocabulary)
    vignettes = (
        decode_example(record) for split in SPLITS for shard in data.shards(split) for record in read_records(shard)
    )
    print_table(table(tuple(rules), vignettes, data.vocabulary))


def table(rules: Sequence[SafetyRule], vignettes: Iterable[Vignette], vocabulary: Vocabulary) -> Table:
    """Returns the share of Red and of other patients for whom each rule fires, and in the last row any rule for Red."""
    fired: dict[bool, list[list[bool]]] = {True: [], False: []}  # whether Red; a row for each patient
    for vignette in vignettes:
        known = vocabulary.relations.closed(vignette.present, vignette.absent)
        fires = [rule.fires(*known) for rule in rules]
        any_red = any(fire and rule.urgency == Action.RED for fire, rule in zip(fires, rules, strict=True))
        fired[majority(vignette.decision_counts) == Action.RED].append([*fires, any_red])
    made = Table("rule", f"of {len(fired[True])} Red", f"of {len(fired[False])} others", box=box.SIMPLE)
    names = [rule.rule_id for rule in rules]
    for name, red, others in zip([*names, "any for Red"], *map(shares, (fired[True], fired[False])), strict=True):
        made.add_row(name, red, others)
    return made


def shares(fired: Sequence[Sequence[bool]]) -> Iterator[str]:
    """Yields the share of patients for whom each rule fires, as text."""
    return (f"{sum(column) / len(column):.2%}" for column in zip(*fired, strict=True))


if __name__ == "__main__":
    main()
