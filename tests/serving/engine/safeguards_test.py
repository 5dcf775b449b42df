"""The server's own rules, applied after the model's."""

import types

import pytest

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from schemas.model_directory import ModelInfo
from schemas.safety_rules import SafetyRule
from schemas.triage import Action
from serving.config.settings import ServeConfig
from serving.engine.model_config import Wanted
from serving.engine.safeguards import SafeguardedEngine, SafeguardedModels
from serving.engine.served_models import LocalModels
from serving.engine.versions import Versions
from serving.engine.watcher import Watcher
from serving.messages import state_message
from serving.server.triage_server import TriageServer
from triage.v1 import triage_pb2, triage_service_pb2
from triage_client import TriageClient, evidence_state

ASK, RED, YELLOW = triage_pb2.TRIAGE_ACTION_ASK, triage_pb2.TRIAGE_ACTION_RED, triage_pb2.TRIAGE_ACTION_YELLOW
BLUE = triage_pb2.TRIAGE_ACTION_BLUE
RULES = """
[nonsmoker]
reason = "No smoker."
urgency = "Yellow"
all.absent = ["smoker"]
[hot_nonsmoker]
reason = "Fever without smoking."
urgency = "Red"
all.present = ["fever"]
all.absent = ["smoker"]
"""


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    path = tmp_path_factory.mktemp("rules") / "server.toml"
    path.write_text(RULES)
    return str(path)


@pytest.fixture(scope="module")
def ruled(guarded_base_path, rules):
    return SafeguardedModels(LocalModels(), rules).load(guarded_base_path / "4")


def rules_in(response):
    return [(rule.rule_id, rule.from_action, rule.to_action) for rule in response.fired_rules]


def test_the_servers_rules_apply_after_those_of_the_model(ruled):
    states = [state_message([], ["smoker"], 10), state_message(["fever"], ["smoker"]), state_message(["chest_pain"])]
    no_smoker, both, pain = ruled.triage(states)
    assert (no_smoker.action, no_smoker.best_triage, rules_in(no_smoker)) == (
        YELLOW,
        YELLOW,
        [("nonsmoker", BLUE, YELLOW)],
    )
    assert rules_in(both) == [("nonsmoker", ASK, ASK), ("hot_nonsmoker", ASK, RED)]
    assert both.action == both.best_triage == RED
    assert rules_in(pain) == [("pain", RED, RED)]


def test_a_service_with_rules_answers_and_describes_itself(guarded_base_path, rules):
    config = ServeConfig(port=0, grace_seconds=0, rules=rules)
    watcher = Watcher(Versions("triage"), SafeguardedModels(LocalModels(), config.rules), Wanted(guarded_base_path))
    watcher.look()
    watcher.check()
    server = TriageServer(config)
    server.start(watcher)
    with TriageClient(server.address, timeout_seconds=60.0) as client:
        assert rules_in(client.triage(evidence_state(["fever"], ["smoker"])))[-1] == ("hot_nonsmoker", ASK, RED)
        info = client.model_info()
        model, server_own = triage_service_pb2.RULE_SOURCE_MODEL, triage_service_pb2.RULE_SOURCE_SERVER
        assert [(rule.rule_id, rule.urgency, rule.stops_asking, rule.source) for rule in info.rules][2:] == [
            ("hot_smoker", RED, True, model), ("nonsmoker", YELLOW, False, server_own),
            ("hot_nonsmoker", RED, True, server_own),
        ]  # fmt: skip
        assert info.novelty_threshold == pytest.approx(0.99)
        with client.interview() as interview:
            assert interview.not_known().response.action == ASK
            last = interview.no_more_evidence()
        assert (last.ended, last.response.action, last.response.forced) == (True, ASK, True)
    server.stop()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (RULES.replace('"fever"', '"fevr"'), "rule 'hot_nonsmoker': all.present: unknown evidence code 'fevr'"),
        (RULES.replace("nonsmoker]", "pain]", 1), "rule 'pain' is in .* already: rename it"),
    ],
)
def test_a_version_that_the_rules_do_not_fit_is_not_served(guarded_base_path, tmp_path, text, complaint):
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=complaint):
        SafeguardedModels(LocalModels(), str(path)).load(guarded_base_path / "4")


@pytest.mark.parametrize(
    ("present", "absent", "fires"),
    [(["crushing"], [], True), (["crushing", "pregnant"], [], False), (["crushing"], ["man"], False)],
)
def test_a_rule_is_about_what_follows_from_the_evidence(present, absent, fires):
    related = (("pain", "", ""), ("crushing", "pain", ""), ("woman", "", "sex"), ("man", "", "sex"))
    vocabulary = Vocabulary(
        Evidence(code, "symptom", code, f"{code}?", parent=parent, exclusive=group)
        for code, parent, group in (*related, ("pregnant", "woman", ""))
    )
    answer = triage_pb2.TriageResponse(action=BLUE, best_triage=BLUE)
    engine = types.SimpleNamespace(
        info=ModelInfo("1", "", "", 5, 10, ""), vocabulary=vocabulary, signatures={}, triage=lambda *given: [answer]
    )
    rule = SafetyRule("pain", "r", Action.RED, True, all_of=(("pain", True),), none_of=(("woman", True),))
    (response,) = SafeguardedEngine(engine, [rule]).triage([state_message(present, absent)])
    assert (response.action, response.best_triage) == ((RED, RED) if fires else (BLUE, BLUE))
    assert rules_in(response) == ([("pain", BLUE, RED)] if fires else [])


def test_a_code_that_is_both_present_and_absent_fires_nothing(ruled):
    (response,) = ruled.triage([state_message(["smoker", "fever"], ["smoker"])])
    assert rules_in(response) == [("fever", ASK, ASK)]
