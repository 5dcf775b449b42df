"""Every field of an answer goes every way: a field of the table that a route leaves out fails here."""

import contextlib
import dataclasses
import hashlib

import numpy as np
import pytest

import triage_cli
from schemas.answer import ANSWER, BY_SERVER, Kind
from schemas.safety_rules import RuleSet, SafetyRule
from schemas.triage import Action
from serving.client import channel
from serving.client.search import Search
from serving.config.settings import ServeConfig
from serving.console import view
from serving.console.case import PRESENT, Case, Statement
from serving.console.served_model import Answer, ModelVersion
from serving.engine.saved_model import SavedModelEngine
from serving.messages import state_message
from serving.scoring.answers import Scorer
from serving.scoring.cases import Cases
from serving.wires import openapi
from serving.wires.message_json import message_figures
from tests.builders import random_network, symptoms, trained_agent, write_version
from trainer.export.conversion import convert
from trainer.export.policy import load_version
from trainer.graph.novelty import Novelty
from triage.v1 import triage_pb2
from triage_client import TriageResponse
from triage_client.v1 import triage_service_pb2
from triage_runtime.litert import LiteRtModel

COUNT = 6
VOCABULARY = symptoms(*(f"e{cell}" for cell in range(COUNT)))
FIELDS = set(triage_pb2.TriageResponse.DESCRIPTOR.fields_by_name)
STATES = [
    state_message(["e1", "e2"], questions_asked=9),  # forced
    state_message(["e1", "e3", "x"], ["e3"]),  # a code that is unknown, and one that is present and absent
    state_message(["e5"], ["e4"]),
]


@pytest.fixture(scope="module")
def folder(without_litert, made_once):
    """A version with all that a model may have."""
    generator = np.random.default_rng(1)
    model = random_network(COUNT, (8,), spread=0.4, outputs="probabilities")
    rule = SafetyRule("r", "A reason.", Action.RED, True, all_of=(("e1", True),))
    novelty = Novelty(
        *(generator.normal(size=size).astype(np.float32) for size in ([3], [2 * COUNT, 4])),
        np.sort(generator.normal(size=[4, 50])).astype(np.float32) - 9,
        200,
    )
    rules = RuleSet((rule,), "made", f"sha256:{hashlib.sha256(b'').hexdigest()}", "")
    trained = trained_agent(model, VOCABULARY, 9, rules=rules, novelty=novelty)
    with without_litert():
        return made_once("all fields", lambda folder: write_version(folder, trained)) / "1"


@pytest.fixture(scope="module")
def engine(folder):
    return SavedModelEngine(folder)


@pytest.fixture(scope="module")
def whole(engine):
    """An answer in which every field has a value that is not its default."""
    response = TriageResponse.FromString(engine.triage([STATES[0]])[0].SerializeToString())
    response.unknown_codes.append("x")
    response.conflicting_codes.append("e3")
    for tensor in ANSWER:
        if tensor.kind is Kind.FLAG:
            setattr(response, tensor.name, True)
    response.fired_rules[0].from_action = response.fired_rules[0].to_action = 1  # so that it says not all
    response.deferred, response.next = triage_pb2.DEFERRAL_REASON_NOVEL, triage_pb2.NEXT_STEP_ASK
    response.next_questions.add(code="e4", question="e4?", reason=1, expected_gain=0.25, worth_asking=True)
    response.explanation.effects.add(
        evidence={"code": "e1", "status": 1}, effect=0.5, best_triage_without=2, support=0.25
    )
    response.explanation.turning.add(evidence={"code": "e4", "status": 1}, best_triage=2, likely=0.5)
    assert {field.name for field, _ in response.ListFields()} == FIELDS
    return response


def names(*without):
    return {tensor.name for tensor in ANSWER if tensor.kind not in without}


def test_every_tensor_is_an_output_of_the_graph_and_of_the_phone(folder):
    version = load_version(folder)
    assert set(version.signature.structured_outputs) == names(Kind.CODES)
    assert set(version.model.signatures["serving_default"].structured_outputs) == names()
    assert set(LiteRtModel(convert(version, "none")).tensors["outputs"]) == names(Kind.CODES, Kind.LABEL) | {"next"}


def test_every_field_is_in_the_messages_of_the_graph_and_of_the_server(engine):
    serialized = np.array([state.SerializeToString() for state in STATES], object)
    by_graph = engine.predict("triage", {"evidence_states": serialized})["triage_responses"]
    for responses in (engine.triage(STATES), map(triage_pb2.TriageResponse.FromString, by_graph)):
        sent = {field.name for response in responses for field, _ in response.ListFields()}
        assert sent == FIELDS - BY_SERVER | {"model_version", "vocabulary_fingerprint"}


def test_every_field_is_in_json_and_in_its_description(whole):
    assert set(message_figures(whole)) == FIELDS
    assert set(message_figures(triage_pb2.TriageResponse(action=5, best_triage=1))) == FIELDS
    described = openapi.document([], ServeConfig())["components"]["schemas"]["Answer"]
    assert set(described["properties"]) == FIELDS
    reasons, null = described["properties"]["deferred"]["anyOf"]
    assert message_figures(whole)["deferred"] in reasons["enum"]
    assert null == {"type": "null"}  # not set in most answers
    assert set(described["required"]) == FIELDS - {"next_questions"}  # an interview has them beside its answer


def test_every_tensor_has_its_column_among_scored_answers(folder):
    scorer = Scorer(SavedModelEngine(folder), 0, allow_unknown_codes=True)
    cases = Cases(["line 1"], ["a"], [["e1", "x"]], [["e2"]], np.zeros(1, np.int32))
    columns = scorer.answer(cases.ids, scorer.encode(cases))
    for tensor in ANSWER:
        if tensor.column is not None:
            name = tensor.column or tensor.name
            assert {name, f"{name}_red"} & columns.keys(), tensor.name
    assert columns["unknown_codes"] == [["x"]]
    assert columns["fired_rules"] == [["r"]]


@pytest.mark.parametrize("field", sorted(FIELDS - {"vocabulary_fingerprint"}))
def test_every_field_changes_what_ask_prints(whole, field, monkeypatch, capsys):
    def printed(response):
        class Server:
            def triage(self, *_, **__):
                return response

        monkeypatch.setattr(channel, "open_client", lambda connection: contextlib.nullcontext(Server()))
        assert triage_cli.main(["ask", "--present", "e1"]) == 0
        return capsys.readouterr().out

    assert printed(without(whole, field)) != printed(whole)


# The console sends neither codes that the model does not know, nor a code twice.
@pytest.mark.parametrize(
    "field", sorted(FIELDS - {"vocabulary_fingerprint", "unknown_codes", "conflicting_codes", "q_values", "next"})
)
def test_every_field_changes_the_page_of_a_case(whole, field):
    evidence = {entry.code: entry for entry in VOCABULARY}
    model = ModelVersion(triage_service_pb2.GetModelInfoResponse(), {}, VOCABULARY, evidence, Search(VOCABULARY))
    case = Case((Statement("e1", PRESENT, False),))

    def page(response):
        asks = response.action == triage_pb2.TRIAGE_ACTION_ASK
        questions = [*response.next_questions] or [None]
        answer = Answer(model, response, asks, "e4" if questions[0] else "", questions[0])
        shown = view.case_page(case, answer, model)
        return dataclasses.replace(shown, json="")

    assert page(without(whole, field)) != page(whole)


def without(response, field):
    """Returns the response without a field; one of which every answer has a value gets another one."""
    other = TriageResponse.FromString(response.SerializeToString())
    other.ClearField(field)
    if field in ("action", "best_triage"):
        setattr(other, field, {"action": 5, "best_triage": 3}[field])
    return other
