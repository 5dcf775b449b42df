"""A dossier says of each item what is known and from where, or that the organisation must supply it."""

import re

import pytest

from trainer.reports.checklists import NAMES, Checklist, Item, read_checklist
from trainer.reports.dossier_page import MISSING, FactsFile, page

CARD = FactsFile(
    "model_card.json",
    "ab12",
    {
        "evaluation": {
            "vignettes": 1200,
            "agent": {"safety": {"mean": 0.91234, "low": 0.9, "high": 0.92}},
            "slices": [{"by": "sex"}, {"by": "age"}],
        },
        "decision": {"probabilities": False, "sure_enough": None},
        "limits": ["one|two", "three"],
        "splits": {"vignettes": 3, "decisions": {"Red": 1.5, "Blue": None}},
    },
)


def rows_of(text):
    """The cells of the tables, by the title of their section."""
    sections = {}
    for section in text.split("\n## ")[1:]:
        lines = [line for line in section.splitlines() if line.startswith("| ")][2:]
        sections[section.splitlines()[0]] = [re.split(r"(?<!\\) ?\| ?", line)[1:-1] for line in lines]
    return sections


def answer(*facts, software=()):
    checklist = Checklist("List", "somewhere", "something", (Item("1", "what", facts, software),))
    [[_, _, cell]] = rows_of(page("3", {"card": CARD}, [checklist]))["List"]
    return cell


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("evaluation.vignettes", "1,200"),
        ("evaluation.agent.safety", r"0.912 \[0.900, 0.920\]"),
        ("evaluation.slices", "2 entries"),
        ("decision.probabilities", "no"),
        ("limits", r"one\|two; three"),
        ("splits", r"vignettes 3, decisions \(Red 1.5\)"),
    ],
)
def test_a_fact_stands_with_its_file_and_field(field, text):
    escaped = field.replace("_", r"\_")
    assert answer(f"card:{field}") == rf"{escaped}: {text} (model\_card.json)"


def test_what_is_not_known_is_left_out_and_an_item_without_facts_is_the_organisations():
    assert answer("card:decision.sure_enough", "card:evaluation.vignettes") == (
        r"evaluation.vignettes: 1,200 (model\_card.json)"
    )
    assert answer("card:decision.sure_enough", "results:agent.safety") == MISSING
    assert answer(software=(("It answers.", "docs/serving.md"),)) == "It answers. (docs/serving.md)"


def test_each_item_of_each_list_stands_once_with_a_source_or_that_sentence():
    checklists = [read_checklist(name) for name in NAMES]
    sections = rows_of(page("3", {"card": CARD}, checklists))
    for checklist in checklists:
        rows = sections[checklist.title]
        assert [row[:2] for row in rows] == [[each.number, each.item] for each in checklist.items]
        for _, _, cell in rows:
            sourced = all(
                re.search(r" \((?:model\\_card\.json|docs/[a-z-]+\.md)\)$", part) for part in cell.split("<br>")
            )
            assert (cell == MISSING) != sourced, cell


def test_nothing_is_claimed_about_a_law_or_a_standard():
    text = page("3", {"card": CARD}, map(read_checklist, NAMES))
    assert not re.search(r"conform|compl(?:y|ies|ian)|certif|approved", text, re.IGNORECASE)
    assert "claims\nnothing about any law, standard or guideline" in text
