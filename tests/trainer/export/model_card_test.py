"""What a model card says, and what it leaves out where nothing is known."""

import json
import shlex

import pytest

import triage_cli
from schemas.evidence import Evidence, Vocabulary
from schemas.knowledge_base import KnowledgeBase
from trainer.evaluation.estimates import AgentFigures, Baselines, Confusion, Estimate
from trainer.export.model_card import VersionFigures, model_card, training_facts
from trainer.vignettes.tfrecord import is_simulated

VOCABULARY = Vocabulary(
    [
        Evidence("cough", "symptom", "Cough", "Do you cough?"),
        Evidence("fever", "symptom", "Fever", "Do you have a fever?"),
        Evidence("smoker", "risk_factor", "Smoker", "Do you smoke?"),
    ]
)
MANIFEST = {
    "model_version": "3",
    "created": "2026-01-02T03:04:05+00:00",
    "package_version": "0.1.0",
    "signatures": ["state"],
    "max_questions": 23,
    "questions": None,
    "config": {"loop": {"steps": 50}},
    "training": {"steps": 40, "episodes": 9},
    "safety_rules": {"source": "none", "fingerprint": None, "rules": []},
    "novelty": None,
    "decision": {"probabilities": False},
    "promise": None,
}
KNOWLEDGE = KnowledgeBase.load().fingerprint
DECISIONS = {"Red": 1, "Yellow": 2, "Green": 3, "Blue": 4}
STATS = {
    "format": "simulate",
    "seed": 5,
    "test_fraction": 0.25,
    "sources": [],
    "options": {"knowledge_fingerprint": KNOWLEDGE, "unseen_conditions": ["gout", "it's"]},
    "data_fingerprint": "sha256:data",
    "splits": {split: {"vignettes": count, "decisions": DECISIONS} for split, count in (("train", 30), ("test", 10))},
}


def played(safety):
    return AgentFigures({"safety": safety}, {}, Confusion("", "", [], []), None, None, [])


EVALUATION = VersionFigures(
    "sha256:data", simulated=True, split="test", seed=7, vignettes=10, orders=6,
    baselines=Baselines(None, None, 3, {}), played=played(Estimate(0.9, 0.8, 0.95, 10)),
)  # fmt: skip


def card_of(stats=STATS, evaluation=EVALUATION, gate=None):
    facts = training_facts("sha256:data", stats)
    return model_card(MANIFEST, VOCABULARY, facts, evaluation, gate)


def test_the_training_data_are_described_by_their_own_statistics():
    facts = card_of()["training_data"]
    assert facts["simulated"] is True
    assert facts["simulation"] == {
        "knowledge_fingerprint": KNOWLEDGE,
        "unseen_conditions": ["gout", "it's"],
        "whole_patient": False,
        "caution": None,
    }
    assert facts["splits"]["train"] == {"vignettes": 30, "decisions": DECISIONS}


@pytest.mark.parametrize(("origin", "expected"), [("simulate", True), ("ddxplus", True), ("jsonl", None), (None, None)])
def test_only_data_that_are_marked_as_simulated_count_as_such(origin, expected):
    assert is_simulated({"format": origin}) is expected


def test_the_commands_repeat_the_data_the_run_and_the_evaluation():
    commands = card_of()["reproduce"]["commands"]
    assert shlex.split(commands[0]) == shlex.split(
        'triage simulate --out DATA --vignettes 40 --seed 5 --test-fraction 0.25 --unseen-conditions gout "it\'s"'
    )
    assert commands[2] == "triage train --data DATA --job-dir JOB --config config.json --steps 40"
    assert commands[-1] == "triage evaluate --job-dir JOB --step 40 --data DATA --orders 6 --seed 7"
    assert commands[-2].endswith(" --orders 6 --seed 7 --rules none")
    assert not simulates(STATS | {"format": "jsonl"})


def simulates(stats):
    return any("simulate" in command for command in card_of(stats)["reproduce"]["commands"])


def test_data_that_no_command_makes_again_have_none():
    other = {"knowledge_fingerprint": "sha256:other"}
    assert simulates(STATS)
    assert not simulates(STATS | {"options": STATS["options"] | other})
    folded = STATS | {"fold": {"folds": 4, "fold": 0, "seed": 3}, "fold_of": "sha256:whole"}
    assert card_of(folded)["training_data"]["fold"] == {"folds": 4, "fold": 0, "seed": 3}
    assert not simulates(folded)


def test_the_command_for_simulated_data_makes_them_again(tmp_path):
    options = ["--whole-patient", "--caution", "2.5", "--unseen-conditions", "gout"]
    first, again = tmp_path / "first", tmp_path / "again"
    given = ["--out", str(first), "--vignettes", "40", "--seed", "3", "--test-fraction", "0.25", "--processes", "1"]
    assert triage_cli.main(["simulate", *given, *options]) == 0
    stats = json.loads((first / "stats.json").read_text())
    facts = training_facts(stats["data_fingerprint"], stats)
    command = model_card(MANIFEST, VOCABULARY, facts, None, None)["reproduce"]["commands"][0]
    program, *arguments = shlex.split(command.replace("DATA", str(again)))
    assert program == "triage"
    assert triage_cli.main(arguments) == 0
    assert json.loads((again / "stats.json").read_text()) == stats


def test_the_training_is_repeated_from_the_agent_that_it_started_from():
    facts = training_facts("sha256:data", STATS)
    card = model_card(MANIFEST | {"start_from": "sha256:a after 9 steps"}, VOCABULARY, facts, EVALUATION, None)
    assert card["reproduce"]["commands"][2].endswith(" --config config.json --steps 40 --start-from START")


RULES = {
    "source": "ward_7.toml",
    "fingerprint": "sha256:rules",
    "rules": [{"rule_id": "hot_smoker", "urgency": "Red", "stop_asking": True, "reason": "Hot."}],
}


def test_rules_and_novelty_are_those_of_the_version_and_the_commands_repeat_the_rules():
    novelty = {"threshold": 0.99, "reference_moments": 640}
    facts = training_facts("sha256:data", STATS)
    card = model_card(MANIFEST | {"safety_rules": RULES, "novelty": novelty}, VOCABULARY, facts, EVALUATION, None)
    assert (card["safety_rules"], card["novelty"]) == (RULES, novelty)
    assert [command.endswith(" --rules assets.extra/rules.toml") for command in card["reproduce"]["commands"][-2:]] == [
        True,
        True,
    ]


DECISION = {
    "probabilities": True, "safety_weight": 2.0, "sure_enough": None, "price": 0.008, "chosen": "given",
    "held_out": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("decision", "options"),
    [
        (DECISION, " --safety-weight 2 --question-price 0.008"),
        (DECISION | {"sure_enough": 0.9}, " --safety-weight 2 --question-price 0.008 --sure-enough 0.9"),
        (DECISION | {"chosen": "default"}, " --seed 7"),  # training chooses it again
    ],
)
def test_the_commands_repeat_how_the_version_decides(decision, options):
    facts = training_facts("sha256:data", STATS)
    card = model_card(MANIFEST | {"decision": decision}, VOCABULARY, facts, EVALUATION, None)
    assert card["decision"] == decision
    assert card["reproduce"]["commands"][-1].endswith(options)


def test_the_export_is_repeated_with_its_promise():
    asked = {"confidence": 0.9, "question_limit": 20, "given": None}
    promise = {"asked": asked, "levels": {"red": 0.05, "over": 0.4}}
    decision = DECISION | {"chosen": "promise"}
    facts = training_facts("sha256:data", STATS)
    card = model_card(MANIFEST | {"decision": decision, "promise": promise}, VOCABULARY, facts, EVALUATION, None)
    export, evaluate = card["reproduce"]["commands"][-2:]
    assert export.endswith(" --promise red=0.05,over=0.4 --confidence 0.9 --question-limit 20")
    assert evaluate.endswith(" --safety-weight 2 --question-price 0.008")
