"""The example vocabulary and vignettes are fit to be learned from."""

import collections
import json
import pathlib

import pytest

from schemas import safety_rules
from schemas.evidence import Vocabulary
from schemas.triage import DECISION_LABELS
from tests.builders import fired_in, prepared
from trainer.graph.mixture import FEWEST_LEARNED

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"

# What no patient has, of codes that the relations of known vocabularies do not name; a minus is a denial.
IMPOSSIBLE = (
    "hives -rash", "age_under_3_months -age_under_5", "pregnant -sex_female", "vaginal_bleeding -sex_female",
    "reduced_fetal_movements -pregnant", "testicular_pain -sex_male", "pregnant sex_male", "vaginal_bleeding sex_male",
    "hormonal_contraception sex_male", "testicular_pain sex_female", "age_under_5 age_over_65", "age_under_5 pregnant",
    "age_over_65 pregnant",
)  # fmt: skip


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.load(EXAMPLES / "vocabulary.csv")


@pytest.fixture(scope="module")
def vignettes():
    lines = (EXAMPLES / "vignettes.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def majority(decisions):
    """Returns the most frequent decision; of equally frequent ones the most urgent, as DECISION_LABELS stands."""
    return max(DECISION_LABELS, key=decisions.count)


def test_vocabulary_loads_and_has_both_kinds(vocabulary):
    kinds = collections.Counter(entry.kind for entry in vocabulary)
    assert 110 <= len(vocabulary) <= 130
    assert kinds["symptom"] > kinds["risk_factor"] >= 15


def test_each_entry_asks_one_question_in_plain_words(vocabulary):
    assert [entry.code for entry in vocabulary if not entry.question.endswith("?")] == []
    assert len({entry.question for entry in vocabulary}) == len(vocabulary)


def test_they_are_prepared_and_none_contradicts_itself(vignettes, vocabulary, tmp_path, capsys):
    prepared(tmp_path, vignettes, vocabulary)  # refuses unknown codes, those present and absent, ids that come twice
    assert "contradictory" not in capsys.readouterr().err


def test_there_are_120_vignettes(vignettes):
    """Nine in ten are for training, and of these three quarters at least learned from: enough to choose questions."""
    assert len(vignettes) == 120
    assert 0.75 * 0.9 * len(vignettes) >= FEWEST_LEARNED


def test_each_vignette_has_a_tag_no_split_and_one_to_eight_decisions_not_from_red_to_blue(vignettes):
    wrong = [
        vignette["vignette_id"]
        for vignette in vignettes
        if not vignette.get("tags")
        or "split" in vignette
        or not 1 <= len(vignette["decisions"]) <= 8
        or {"Red", "Blue"} <= set(vignette["decisions"])
    ]
    assert wrong == []


def test_every_vocabulary_code_is_present_somewhere(vignettes, vocabulary):
    present = {code for v in vignettes for code in v["present"]}
    assert set(vocabulary.codes) - present == set()


def test_no_two_vignettes_have_identical_evidence(vignettes):
    evidence = collections.defaultdict(list)
    for v in vignettes:
        evidence[frozenset(v["present"]), frozenset(v["absent"])].append(v["vignette_id"])
    assert [ids for ids in evidence.values() if len(ids) > 1] == []


def test_no_vignette_says_what_no_patient_has(vignettes, vocabulary):
    stated = [{*v["present"], *(f"-{code}" for code in v["absent"])} for v in vignettes]
    for pair in map(str.split, IMPOSSIBLE):
        assert {code.removeprefix("-") for code in pair} <= {*vocabulary.codes}
        assert not any(codes >= {*pair} for codes in stated), pair


@pytest.mark.parametrize("label", DECISION_LABELS)
def test_each_colour_is_the_majority_of_at_least_ten_vignettes(vignettes, label):
    assert sum(majority(v["decisions"]) == label for v in vignettes) >= 10


def test_clinicians_disagree_on_at_least_a_third_of_the_vignettes_with_three_or_more(vignettes):
    bags = [v["decisions"] for v in vignettes if len(v["decisions"]) >= 3]
    disagreeing = [bag for bag in bags if len(set(bag)) > 1]
    assert 3 * len(disagreeing) >= len(bags) > 0


def test_the_rules_fire_on_vignettes_and_go_at_most_one_step_beyond_the_most_urgent_decision(vocabulary, vignettes):
    rules, _ = safety_rules.choose(str(EXAMPLES / "rules.toml"), vocabulary)
    firing = fired_in(rules, vocabulary, *((vignette["present"], vignette["absent"]) for vignette in vignettes))
    fired = [
        (rule.rule_id, DECISION_LABELS.index(rule.urgency.label), vignette)
        for rule in rules
        for vignette, rule_ids in zip(vignettes, firing, strict=True)
        if rule.rule_id in rule_ids
    ]
    assert len({rule_id for rule_id, *_ in fired}) >= 10
    steps = {
        (rule_id, vignette["vignette_id"]): min(map(DECISION_LABELS.index, vignette["decisions"])) - urgency
        for rule_id, urgency, vignette in fired
    }
    beyond = {where: step for where, step in steps.items() if step > 0}
    assert beyond == {("chest_pain_with_danger_signs", "panic-01"): 1, ("fever_in_young_baby", "infant-fever-02"): 1}
