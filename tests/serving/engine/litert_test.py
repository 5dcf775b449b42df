"""LiteRT runs the file of a version in several threads, or reports a faulty file."""

import contextlib
import hashlib
import itertools
import json
import logging
import math
import os
import queue
import re
import shutil
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import safety_rules
from schemas.answer import ANSWER, Kind
from schemas.errors import InputError
from schemas.model_directory import read_version
from schemas.parity import decided_clearly
from serving.engine import litert
from serving.engine.litert import (
    MOST_STATES,
    InterpreterPool,
    LiteRtEngine,
)
from serving.engine.saved_model import SavedModelEngine, SavedModelWithLiteRt
from serving.engine.served_models import LocalModels
from serving.engine.state_tensors import Wish
from serving.errors import EngineError
from serving.messages import state_message
from tests.builders import random_network, symptoms, trained_agent, write_version
from trainer.graph.mixture import Mixture
from trainer.graph.novelty import Novelty
from triage.v1 import triage_pb2
from triage_client import TriageClient, evidence_state
from triage_runtime.litert import LiteRtModel


@pytest.fixture(scope="module")
def content(model_base_path):
    return (model_base_path / "3" / "assets.extra" / "state.tflite").read_bytes()


@pytest.fixture
def version(model_base_path, tmp_path):
    return shutil.copytree(model_base_path / "3", tmp_path / "3")


def test_interpreters_are_made_when_needed_and_no_more_than_allowed(content, monkeypatch):
    made = []

    class Counted:
        asks = False

        def __init__(self, content):
            made.append(len(made))

    monkeypatch.setattr(litert, "LiteRtModel", Counted)
    model = InterpreterPool(content, interpreters=2)
    assert made == [0]
    for _ in range(2):
        with model.lent(), model.lent(), pytest.raises(queue.Empty), model.lent(wait=False):
            pass
    assert made == [0, 1]


def test_an_interpreter_that_failed_is_not_used_again(content, hand_set):
    model = InterpreterPool(content, interpreters=1)
    with pytest.raises(InputError, match="LiteRT"), model.lent() as first:
        first.run(np.zeros([1, 7], np.float32), np.zeros(1, np.int32))  # of another width
    with model.lent() as second:
        (answer,) = second.run(np.float32([[1, 0, 0]]), np.zeros(1, np.int32))["q_values"]
    assert second is not first
    np.testing.assert_allclose(answer, hand_set.chest_pain_q, atol=1e-6)


FILE = "assets.extra/state.tflite"
TOLERANCE = 1e-5


def assert_same(responses, expected):
    """Compares the answers of LiteRT and the SavedModel; rounding may decide ties of Q-values."""
    assert len(responses) == len(expected)
    for response, message in zip(responses, expected, strict=True):
        actual, wanted = ([q.value for q in answer.q_values] for answer in (response, message))
        np.testing.assert_allclose(actual, wanted, atol=TOLERANCE, rtol=0)
        numbers = [tensor.name for tensor in ANSWER if tensor.kind is Kind.NUMBER]
        apart = [name for name in numbers if getattr(response, name) != getattr(message, name)]
        for name in apart:  # a novelty is one of 200 percentiles
            assert getattr(response, name) == pytest.approx(getattr(message, name), abs=0.0051)
        rounded = ["q_values", *numbers, *(tensor.name for tensor in ANSWER if tensor.threshold_of in apart)]
        if not decided_clearly({"q_values": np.array([wanted])}, TOLERANCE)[0]:
            rounded += ["action", "best_triage", "fired_rules"]  # a rule names the decisions before and after it
        for answer in (response, message):
            for name in rounded:
                answer.ClearField(name)
        assert response == message


def by_graph(engine, states):
    """Returns the answers of the signature `triage`, which looks up codes in the graph."""
    serialized = np.array([state.SerializeToString() for state in states], object)
    answers = engine.predict("triage", {"evidence_states": serialized})["triage_responses"]
    return list(map(triage_pb2.TriageResponse.FromString, answers))


RULES = """
[sure]
reason = "Sure."
urgency = "Red"
all.present = ["a", "b"]
none.present = ["c"]
[either]
reason = "Or."
urgency = "Yellow"
stop_asking = false
any.present = ["d"]
any.absent = ["e"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A version of random weights, with all that a version may have."""
    vocabulary, generator = symptoms(*"abcdefghij", "fièvre", "o'clock"), np.random.default_rng(5)
    prior, literals = (
        generator.normal(size=size).astype(np.float16).astype(np.float32) for size in ([4], [2 * len(vocabulary), 5])
    )
    present = generator.uniform(0.02, 0.4, [4, len(vocabulary)]).astype(np.float32)
    truths = generator.uniform(0.05, 0.95, [4, 8]).astype(np.float32)
    trained = trained_agent(
        random_network(len(vocabulary), (16, 8), spread=0.3), vocabulary, 5,
        rules=safety_rules.parse(RULES, "rules.toml", vocabulary),
        novelty=Novelty(prior, literals, np.sort(generator.normal(size=[4, 200])).astype(np.float32), 200),
        questions=Mixture(np.full(4, np.log(1 / 4), np.float32), present, truths, present),
    )  # fmt: skip
    return write_version(tmp_path_factory.mktemp("models"), trained)


@pytest.fixture(scope="module")
def whole(folder):
    """That version, run by its SavedModel with LiteRT."""
    return SavedModelWithLiteRt(folder)


@pytest.fixture(scope="module")
def alone(folder):
    """That version, run by LiteRT alone."""
    return LiteRtEngine(folder)


CODES = st.lists(st.sampled_from([*"abcdeabcde", "fièvre", "o'clock", "gout", "code", ""]), max_size=8)
NUMBERS = st.sampled_from([0, 1, 4, 5, 6, 2**31 - 1])
EVIDENCE_STATES = st.builds(
    state_message,
    CODES,
    CODES,
    NUMBERS,
    no_more_evidence=st.booleans(),
    max_questions=st.one_of(NUMBERS, st.just(-1)),
)


@given(states=st.lists(EVIDENCE_STATES, min_size=1, max_size=9))
def test_any_evidence_gets_the_answer_of_the_graph(whole, alone, states):
    assert whole.litert is not None
    for served in (whole, alone):
        assert_same(served.triage(states), by_graph(whole, states))


@pytest.fixture
def watched(whole, monkeypatch):
    """An engine, and the sizes of the batches that LiteRT answers."""
    sizes, run = [], LiteRtModel.run

    def noting(model, states, questions_asked):
        sizes.append(len(states))
        return run(model, states, questions_asked)

    monkeypatch.setattr(LiteRtModel, "run", noting)
    return whole, sizes


def test_litert_answers_small_batches_and_the_saved_model_larger_ones(watched):
    engine, sizes = watched
    states = [state_message(["a"], ["b"], number) for number in range(MOST_STATES + 1)]
    for number in (1, 3, MOST_STATES, MOST_STATES + 1):
        assert_same(engine.triage(states[:number]), by_graph(engine, states[:number]))
    assert sizes == [1, 3, MOST_STATES]
    assert engine.triage([]) == []


def test_litert_answers_one_call_after_the_other_on_the_loop(serving, monkeypatch):
    threads, run = [], LiteRtModel.run

    def noting(model, states, questions_asked):
        threads.append(threading.current_thread().name)
        return run(model, states, questions_asked)

    monkeypatch.setattr(LiteRtModel, "run", noting)
    with serving() as server, TriageClient(server.address, timeout_seconds=30.0) as client:
        for _ in range(3):
            client.triage(evidence_state(["fever"]))
    assert threads == ["calls"] * 3


def test_a_network_whose_weights_take_long_to_read_is_not_brief(litert_engine, monkeypatch):
    assert litert_engine.brief
    monkeypatch.setattr(litert, "BRIEF_BYTES", 100)
    assert not litert_engine.brief
    monkeypatch.undo()
    monkeypatch.setattr(litert_engine, "litert", None)
    assert not litert_engine.brief


def test_a_run_is_not_brief_while_an_interpreter_is_in_use(litert_engine):
    with litert_engine.litert.lent():
        assert not litert_engine.brief
    assert litert_engine.brief


def test_where_litert_fails_the_saved_model_answers_from_then_on(whole, monkeypatch, caplog):
    states = [state_message(["a"], ["b"])]
    monkeypatch.setattr(whole, "litert", whole.litert)  # and so back again, after the test
    monkeypatch.setattr(LiteRtModel, "run", lambda *_: raising(InputError("no memory")))
    assert_same(whole.triage(states), by_graph(whole, states))
    assert whole.litert is None
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert re.fullmatch("version 1: LiteRT .*: no memory", record.getMessage())


def questions_of(engine, states, number, *not_to_ask):
    return [list(each.next_questions) for each in engine.triage(states, [Wish(number, not_to_ask)] * len(states))]


def test_litert_chooses_the_questions_of_a_few_states_and_the_saved_model_those_of_more(whole, monkeypatch):
    asked = []
    states, ask = [state_message(["a"], ["b"]), state_message(["c"])], LiteRtModel.ask

    def noting(model, states, not_to_ask):
        asked.append(len(states))
        return ask(model, states, not_to_ask)

    monkeypatch.setattr(LiteRtModel, "ask", noting)
    few = questions_of(whole, states, 3, "d")
    together = questions_of(whole, states * 3, 3, "d")[:2]
    assert asked == [1, 1]  # the file asks about one state at a time
    assert [[question.code for question in each] for each in few] == [
        [question.code for question in each] for each in together
    ]
    assert all(len(each) == 3 for each in few)
    for each, other in zip(itertools.chain(*few), itertools.chain(*together), strict=True):
        assert each.expected_gain == pytest.approx(other.expected_gain, abs=1e-5)
    with whole.litert.lent(), contextlib.ExitStack() as others:
        for _ in range(1, min(os.cpu_count(), 8)):
            others.enter_context(whole.litert.lent())
        assert [question.code for question in questions_of(whole, states[:1], 3, "d")[0]] == [
            question.code for question in together[0]
        ]


def test_a_loaded_version_has_chosen_questions_by_litert_and_by_the_saved_model(folder, monkeypatch):
    """Either takes longest the first time: the SavedModel of the demo's agent a second."""
    asked, choose, ask = [], SavedModelEngine.choose_questions, LiteRtModel.ask
    monkeypatch.setattr(
        SavedModelEngine, "choose_questions", lambda self, inputs: asked.append("graph") or choose(self, inputs)
    )
    monkeypatch.setattr(LiteRtModel, "ask", lambda self, *inputs: asked.append("litert") or ask(self, *inputs))
    LocalModels().load(folder)
    assert asked == ["litert", "graph"]


def replace_file(version, content):
    """Puts another file there, as if it had been exported so."""
    (version / FILE).write_bytes(content)
    path = version / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["litert"]["sha256"] = hashlib.sha256(content).hexdigest()
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("file", "complaint"),
    [
        # Chest pain in a smoker: Blue has 0.1 in the one and, as Red has in the other, 0.75.
        ("contrary", "q_values .*0.65"),
        ("wide", "cannot run"),
        ("damaged", "SHA-256"),
        ("gone", "cannot read"),
    ],
)
def test_a_file_that_is_not_the_saved_models_is_not_used(
    version, contrary_version, folder, hand_set, caplog, file, complaint
):
    if file == "contrary":
        replace_file(version, (contrary_version / FILE).read_bytes())
    elif file == "wide":
        replace_file(version, (folder / FILE).read_bytes())
    elif file == "damaged":
        (version / FILE).write_bytes((version / FILE).read_bytes()[:-100])
    else:
        (version / FILE).unlink()
    engine = SavedModelWithLiteRt(version)
    assert engine.litert is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert re.search(complaint, record.getMessage())
    (response,) = engine.triage([state_message(["chest_pain"])])
    assert [q.value for q in response.q_values] == pytest.approx(hand_set.chest_pain_q, abs=1e-6)


def test_where_litert_alone_fails_the_engine_has_failed_and_the_next_call_is_answered(version, monkeypatch, caplog):
    engine = LiteRtEngine(version)
    with monkeypatch.context() as patch:
        patch.setattr(LiteRtModel, "run", lambda *_: raising(InputError("no memory")))
        with pytest.raises(EngineError, match="LiteRT failed"):
            engine.triage([state_message(["fever"])])
    assert caplog.messages[-1] == "version 3: no memory"
    assert len(engine.triage([state_message(["fever"])])) == 1


def raising(error):
    raise error


def test_a_file_whose_weights_are_no_numbers_is_not_served_alone(version, content):
    weight, nan = (np.float32(value).tobytes() for value in (math.log(3), math.nan))
    assert weight in content
    replace_file(version, content.replace(weight, nan))
    with pytest.raises(InputError, match=r"state\.tflite: .*not finite"):
        LiteRtEngine(version)


def test_a_file_without_questions_is_served_without_them(version, caplog):
    manifest = json.loads((version / "manifest.json").read_text()) | {"questions": {"most": 3, "cost": 0.0}}
    (version / "manifest.json").write_text(json.dumps(manifest))
    assert read_version(version)[0].questions
    assert not LiteRtEngine(version).info.questions
    [message] = caplog.messages
    assert re.match("version 3: .*questions", message)
