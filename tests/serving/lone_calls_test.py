"""A single call is answered on the event loop if that blocks no other call, and in a thread otherwise."""

import asyncio
import threading

import pytest

from serving import call as calls
from serving.admission.event_loop import EventLoop
from serving.engine.batching import BatchingParameters, Queue
from serving.engine.engine import Engine
from serving.messages import state_message
from tests.waiting import until
from triage.v1 import triage_pb2
from triage_client import TriageClient, evidence_state
from triage_runtime.litert import LiteRtModel

LOOP = "lone-calls"
FEVER = state_message(["fever"])
SLOW = state_message(["slow"])


@pytest.fixture(scope="module")
def loop():
    loop = EventLoop(LOOP)
    yield loop
    loop.close()


class BriefEngine(Engine):
    """Records the threads that it runs in; a slow state waits for `gate`."""

    info = vocabulary = None
    brief_states = 0

    def __init__(self, brief_states):
        self.brief_states = brief_states
        self.threads, self.gate, self.entered = [], threading.Event(), threading.Event()

    def triage(self, states, wishes=()):
        self.threads.append(threading.current_thread().name)
        calls.current().add(calls.MODEL, 1.0, 2.0)
        if SLOW in states:
            self.entered.set()
            assert self.gate.wait(30)
        return [triage_pb2.TriageResponse(action=1, best_triage=1, model_version="1") for _ in states]


def batched(engine):
    return Queue(engine, BatchingParameters(batch_timeout_micros=0))


@pytest.mark.parametrize(
    ("brief_states", "states", "alone", "on_the_loop"),
    [(1, 1, True, True), (1, 1, False, False), (1, 2, True, False), (2, 2, True, True), (0, 1, True, False)],
)
def test_only_a_brief_run_for_a_lone_call_is_done_on_the_loop(loop, brief_states, states, alone, on_the_loop):
    engine = BriefEngine(brief_states)
    assert len(loop.run(batched(engine).answer([FEVER] * states, alone=alone))) == states
    (thread,) = engine.threads
    assert (thread == LOOP) is on_the_loop


def test_a_lone_call_waits_for_the_run_that_a_caller_left_behind(loop):
    engine = BriefEngine(1)
    front = batched(engine)
    left = asyncio.run_coroutine_threadsafe(front.answer([SLOW]), loop.loop)
    assert engine.entered.wait(30)
    left.cancel()
    lone = asyncio.run_coroutine_threadsafe(front.answer([FEVER], alone=True), loop.loop)
    until(lambda: front.waiting == 1)
    engine.gate.set()
    assert len(lone.result(30)) == 1
    assert LOOP not in engine.threads


def test_litert_answers_a_lone_call_on_the_loop_and_beside_an_interview_in_a_thread(serving, monkeypatch):
    threads, run = [], LiteRtModel.run

    def noting(model, states, questions_asked):
        threads.append(threading.current_thread().name)
        return run(model, states, questions_asked)

    monkeypatch.setattr(LiteRtModel, "run", noting)
    with serving() as server, TriageClient(server.address, timeout_seconds=30.0) as client:
        client.triage(evidence_state(["fever"]))
        assert threads == ["calls"]
        with client.interview() as interview:
            interview.present("fever")
            client.triage(evidence_state(["fever"]))
    assert threads[1] == "calls"
    assert threads[2].startswith("model")


def test_a_network_whose_weights_take_long_to_read_is_not_brief(litert_engine, monkeypatch):
    assert litert_engine.brief_states == 1
    monkeypatch.setattr("serving.engine.litert.BRIEF_BYTES", 100)
    assert litert_engine.brief_states == 0
    monkeypatch.undo()
    monkeypatch.setattr(litert_engine, "litert", None)
    assert litert_engine.brief_states == 0
