"""benchmarks/rules.py: for which patients each safety rule fires."""

from benchmarks.rules import table
from schemas import safety_rules
from tests.builders import arrays_of, symptoms

VOCABULARY = symptoms("fever", "high", parents={"high": "fever"})
RULES = """
[any_fever]
reason = "Fever."
urgency = "Red"
all.present = ["fever"]
[high_fever]
reason = "High fever."
urgency = "Yellow"
all.present = ["high"]
"""


def test_each_rule_has_its_share_of_red_and_of_other_patients():
    fever, high = 1, 2  # signed codes; high fever is fever
    green, tie, mostly_green = (0, 0, 1, 0), (1, 0, 1, 0), (1, 0, 2, 0)  # a tie is Red
    train, test = arrays_of([green, green], [[], [fever]]), arrays_of([tie, mostly_green], [[high], []])
    made = table(tuple(safety_rules.parse(RULES, "rules.toml", VOCABULARY)), [train, test], VOCABULARY)
    assert [column.header for column in made.columns] == ["rule", "of 1 Red", "of 3 others"]
    assert [list(column.cells) for column in made.columns] == [
        ["any_fever", "high_fever", "any for Red"],
        ["100.00%", "100.00%", "100.00%"],
        ["33.33%", "0.00%", "33.33%"],
    ]
