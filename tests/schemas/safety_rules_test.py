"""Safety rules: what they mean, and what is wrong with a file of them."""

import pathlib

import pytest

from schemas import safety_rules
from schemas.errors import InputError
from schemas.safety_rules import SafetyRule
from schemas.triage import Action
from tests.builders import fired_in, symptoms
from trainer.simulation.knowledge_base import KnowledgeBase

ROOT = pathlib.Path(__file__).parents[2]
VOCABULARY = symptoms("chest_pain", "sweating", "fever", "injury")
HEAD = 'reason = "A reason."\nurgency = "Red"\n'


def parse(text):
    return safety_rules.parse(text, "rules.toml", VOCABULARY)


def test_the_example_of_the_documentation_is_one():
    text = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    codes = ("fever", "low_blood_pressure", "mottled_skin", "long_heat_exposure")
    vocabulary = symptoms(*codes)
    (rule,) = safety_rules.parse(text, "rules.toml", vocabulary)
    fired = fired_in([rule], vocabulary, [codes[::2]], [codes[2:]], [codes])
    assert fired == [{"sepsis_signs"}, set(), set()]


def test_a_file_gives_its_rules_in_order():
    rules = parse(
        "[heart]\n"
        'reason = "Can be a heart attack."\nurgency = "Red"\nall.present = ["chest_pain"]\n'
        'any.present = ["sweating"]\nany.absent = ["fever"]\nnone.present = ["injury"]\n'
        '[hot]\nreason = "Needs a look."\nurgency = "Green"\nall.present = ["fever"]\n'
        '[soon]\nreason = "Needs a look."\nurgency = "Yellow"\nall.absent = ["fever"]\nstop_asking = true\n'
    )
    assert rules.rules == (
        SafetyRule(
            "heart", "Can be a heart attack.", Action.RED, True,
            (("chest_pain", True),), (("sweating", True), ("fever", False)), (("injury", True),),
        ),
        SafetyRule("hot", "Needs a look.", Action.GREEN, False, (("fever", True),)),
        SafetyRule("soon", "Needs a look.", Action.YELLOW, True, (("fever", False),)),
    )  # fmt: skip
    assert rules.fingerprint.startswith("sha256:")
    assert rules.described()["rules"][1] == {
        "rule_id": "hot", "urgency": "Green", "stop_asking": False, "reason": "Needs a look.",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'[r]\n{HEAD}all.present = [\n  "fever",\n  "swetting",\n]\n', "all.present: .*'swetting': .*sweating"),
        (f'[r]\n{HEAD}all.present = ["fever"]\nalso = 1\n', "key 'also'"),
        ('[r]\nurgency = "Red"\nall.present = ["fever"]\n', "key 'reason'"),
        ('[r]\nreason = ""\nurgency = "Red"\nall.present = ["fever"]\n', "reason: "),
        ('[r]\nreason = "x"\nurgency = "red"\nall.present = ["fever"]\n', "urgency 'red': .*Red, Yellow, Green, Blue"),
        (f'[r]\n{HEAD}all.present = ["fever"]\nstop_asking = "no"\n', "stop_asking 'no': "),
        (f'[r]\n{HEAD}all = ["fever"]\n', "all: .*all.present"),
        (f"[r]\n{HEAD}all.present = []\n", "all.present: "),
        (f'[r]\n{HEAD}any.present = ["fever", "fever"]\n', "any.present: 'fever'"),
        (f'[r]\n{HEAD}none.present = ["fever"]\n', "all or any"),
        (f'[r]\n{HEAD}all.present = ["fever"]\nall.absent = ["fever"]\n', "never fire: 'fever' .*absent"),
        (f'[r]\n{HEAD}all.present = ["fever"]\nnone.present = ["fever"]\n', "never fire: 'fever' .*none"),
        (f'[r]\n{HEAD}any.present = ["fever"]\nnone.present = ["fever"]\n', "never fire: .*any .*none"),
        ("r = 1\n", "table"),
    ],
)
def test_a_fault_is_reported_with_its_rule(text, message):
    with pytest.raises(InputError, match=f"^rules.toml: rule 'r': .*{message}"):
        parse(text)


@pytest.mark.parametrize(("text", "message"), [("[r\n", "not TOML"), ("", "no rules")])
def test_a_file_without_rules_is_reported(text, message):
    with pytest.raises(InputError, match=f"^rules.toml: {message}"):
        parse(text)


def test_every_fault_is_reported_at_once():
    with pytest.raises(InputError) as error:
        parse('[a]\nreason = "x"\nurgency = "Red"\nall.present = ["fevr"]\n[b]\nurgency = "Red"\nall = {}\n')
    assert [line.split(":")[1] for line in str(error.value).splitlines()] == [" rule 'a'", " rule 'b'", " rule 'b'"]


def test_a_file_that_does_not_exist_or_is_not_text_is_reported(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.toml: "):
        safety_rules.choose(str(tmp_path / "nowhere.toml"), VOCABULARY)
    (tmp_path / "latin.toml").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"latin\.toml: .*byte 0"):
        safety_rules.choose(str(tmp_path / "latin.toml"), VOCABULARY)


def test_the_default_rules_fit_the_packages_own_vocabulary():
    rules, remark = safety_rules.choose(None, KnowledgeBase.load().catalogue.vocabulary)
    assert len(rules) >= 40
    assert remark == ""
    assert rules.source == "default"
    assert {rule.urgency for rule in rules} <= {Action.RED, Action.YELLOW}


def test_a_red_flag_that_implies_the_general_finding_does_not_wait_for_it():
    knowledge = KnowledgeBase.load()
    parents = {entry.evidence.code: entry.parent for entry in knowledge.catalogue}
    rules, _ = safety_rules.choose("default", knowledge.catalogue.vocabulary)
    for rule in rules:
        for needed, _ in rule.all_of:
            specific = [code for code, _ in rule.all_of + rule.any_of if parents[code] == needed]
            assert specific == [], f"{rule.rule_id}: {specific} imply {needed}, and would not fire without it"
    assert fired_in(rules, knowledge.catalogue.vocabulary, [["crushing_chest_pain"]]) == [{"crushing_chest_pain"}]


@pytest.mark.parametrize(
    ("patient", "needed"),
    [
        ("back_pain leg_weakness unable_to_pass_urine", "leg_weakness unable_to_pass_urine"),
        ("back_pain leg_weakness incontinence_of_stool", "leg_weakness incontinence_of_stool"),
        ("shortness_of_breath swollen_calf", "swollen_calf"),
        ("shortness_of_breath pleuritic_pain hormonal_contraception", "pleuritic_pain hormonal_contraception"),
        ("shortness_of_breath fast_heart_rate cancer", "fast_heart_rate cancer"),
        ("shortness_of_breath_at_rest recent_long_journey", "shortness_of_breath_at_rest recent_long_journey"),
        ("coughing_blood recent_surgery", "recent_surgery"),
        ("upper_abdominal_pain pale_clammy_skin", "pale_clammy_skin"),
        ("upper_abdominal_pain sweating age_60_to_74", "upper_abdominal_pain sweating"),
        ("upper_abdominal_pain paleness", "upper_abdominal_pain paleness"),
        ("jaw_pain sweating age_45_to_59", "jaw_pain sweating"),
        ("shortness_of_breath_at_rest sweating age_75_and_over", "shortness_of_breath_at_rest sweating"),
        ("swallowed_object drooling age_1_to_4", "swallowed_object drooling"),
        ("swallowed_battery_or_magnet age_45_to_59", "swallowed_battery_or_magnet"),
        ("diabetes shakiness sweating", "diabetes shakiness sweating"),
        ("nosebleed nosebleed_over_twenty_minutes fainting", "nosebleed_over_twenty_minutes fainting"),
        ("very_thirsty frequent_urination vomiting", "very_thirsty frequent_urination vomiting"),
        ("very_thirsty weight_loss fast_breathing", "very_thirsty weight_loss fast_breathing"),
        ("very_thirsty deep_rapid_breathing", "very_thirsty deep_rapid_breathing"),
    ],
)
def test_signs_that_make_an_emergency_together_are_none_without_one_of_them(patient, needed):
    vocabulary = KnowledgeBase.load().catalogue.vocabulary
    for_red = [rule for rule in safety_rules.choose("default", vocabulary)[0] if rule.urgency == Action.RED]
    present = set(patient.split())
    whole, *without = fired_in(for_red, vocabulary, [present], *([present - {code}] for code in needed.split()))
    assert whole
    assert not any(without)


@pytest.mark.parametrize("complaint", ["upper_abdominal_pain", "jaw_pain", "shortness_of_breath_at_rest"])
def test_sweating_is_no_heart_attack_in_the_young(complaint):
    vocabulary = KnowledgeBase.load().catalogue.vocabulary
    rules, _ = safety_rules.choose("default", vocabulary)
    assert fired_in(rules, vocabulary, [[complaint, "sweating", "age_18_to_29"]]) == [set()]


def test_another_vocabulary_gets_no_half_of_the_default_rules():
    rules, remark = safety_rules.choose(None, VOCABULARY)
    assert len(rules) == 0
    assert "no safety rules" in remark
    with pytest.raises(InputError, match=r"default: rule .*'unrousable'"):
        safety_rules.choose("default", VOCABULARY)
