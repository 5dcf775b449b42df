"""benchmarks/rules.py: for which patients each safety rule fires."""

from benchmarks.rules import table
from schemas import safety_rules
from schemas.evidence import Evidence, Vocabulary
from schemas.triage import Action
from trainer.data.vignette import Vignette

VOCABULARY = Vocabulary(
    [Evidence("fever", "symptom", "Fever", "Fever?"), Evidence("high", "symptom", "High", "High?", parent="fever")]
)
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
    red, green = Action.RED, Action.GREEN
    vignettes = [
        Vignette("well", (), (), (green,)),
        Vignette("fever", ("fever",), (), (green,)),
        Vignette("a tie is Red", ("high",), (), (green, red)),  # and high fever is fever
        Vignette("two of three say Green", (), (), (green, green, red)),
    ]
    made = table(tuple(safety_rules.parse(RULES, "rules.toml", VOCABULARY)), vignettes, VOCABULARY)
    assert [column.header for column in made.columns] == ["rule", "of 1 Red", "of 3 others"]
    assert [list(column.cells) for column in made.columns] == [
        ["any_fever", "high_fever", "any for Red"],
        ["100.00%", "100.00%", "100.00%"],
        ["33.33%", "0.00%", "33.33%"],
    ]
