import copy
import re

import pytest

from schemas.errors import InputError
from trainer.simulation.knowledge_base import condition_faults, load_conditions, load_tables


@pytest.fixture
def tables(toy_knowledge_directory):
    return load_tables(toy_knowledge_directory / "conditions" / "toy.toml")


def test_a_condition_keeps_what_its_table_says(toy_knowledge):
    heart_attack = toy_knowledge.condition("heart_attack")
    assert (heart_attack.name, heart_attack.icd10, heart_attack.system) == ("Heart attack", "I21.9", "toy")
    assert heart_attack.prevalence == 15
    assert heart_attack.urgency == (0.8, 0.2, 0.0, 0.0)  # Red first
    assert heart_attack.evidence["crushing_chest_pain"] == 0.6
    assert heart_attack.risk_factors == {"child": 0, "man": 2, "woman": 1, "smoker": 3}
    assert (heart_attack.red_flags, heart_attack.urgent_with, heart_attack.requires) == (("sweating",), ("smoker",), ())


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("prevalance",), 3, "key 'prevalance'"),
        (("urgency",), None, "'urgency' .*missing"),
        (("name",), "", "name '': "),
        (("icd10",), "121", "icd10 '121': .*'I21.9'"),
        (("prevalence",), 0, "prevalence 0: "),
        (("prevalence",), "3", "prevalence '3'"),
        (("urgency",), {"Rde": 1.0}, "urgency: .*Red, Yellow, Green, Blue"),
        (("urgency", "Red"), 0.5, "urgency: .*0.7, not to 1"),
        (("urgency", "Red"), 1.8, "urgency: .*0 to 1"),
        (("evidence", "chest_pian"), 0.5, "evidence: .*'chest_pian': .*chest_pain"),
        (("evidence", "smoker"), 0.5, "evidence: smoker .*symptom"),
        (("evidence", "nausea"), 0, "evidence: nausea: probability 0: "),
        (("evidence", "nausea"), True, "evidence: nausea: probability True"),
        (("evidence", "crushing_chest_pain"), 0.95, "parent chest_pain .*0.95"),
        (("evidence", "mild_pain"), 0.41, "'pain_severity' .*1.01"),
        (("risk_factors", "smoker"), -1, "risk_factors: smoker: multiplier -1: .*0 to 100"),
        (("risk_factors", "cough"), 2, "risk_factors: cough .*risk_factor"),
        (("red_flags",), ["headache"], "red_flags: headache "),
        (("red_flags",), ["sweating", "sweating"], "red_flags: sweating .*twice"),
        (("red_flags",), "sweating", "red_flags: .*list"),
        (("urgent_with",), ["fever"], "urgent_with: fever .*risk_factor"),
        (("requires",), ["pregnent"], "requires: .*'pregnent'"),
        (("evidence",), {"cough": 0.5}, "evidence: .*8 to 25 .*found 1"),
        (("evidence",), [], "evidence: .*table"),
        (("risk_factors",), [], "risk_factors: .*table"),
    ],
)
def test_each_fault_of_a_table_is_reported(tables, toy_knowledge, path, value, fault):
    table = copy.deepcopy(tables["heart_attack"])
    assert condition_faults(table, toy_knowledge.catalogue) == []
    place = table
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    table = {key: value for key, value in table.items() if value is not None}
    faults = condition_faults(table, toy_knowledge.catalogue)
    assert any(re.search(fault, text) for text in faults), faults


def test_sound_conditions_of_a_faulty_file_are_returned_beside_the_faults(toy_knowledge_directory, toy_knowledge):
    path = toy_knowledge_directory / "conditions" / "toy.toml"
    path.write_text(path.read_text().replace('icd10 = "J00"', 'icd10 = "cold"'))
    conditions, faults = load_conditions(path, toy_knowledge.catalogue)
    assert [condition.code for condition in conditions] == ["heart_attack", "threatened_miscarriage"]
    [fault] = faults
    assert fault.startswith(f"{path}: common_cold: icd10 'cold': ")


@pytest.mark.parametrize(("text", "fault"), [("a = ", "not TOML"), ("a = 1", "a: .*table"), ("[a]\n[a]", "not TOML")])
def test_a_file_that_is_not_a_table_of_tables_is_an_input_error(tmp_path, text, fault):
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(InputError, match=fault):
        load_tables(tmp_path / "x.toml")
