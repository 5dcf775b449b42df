"""Batching: an engine that stands still while the calls gather, so that each batch is known beforehand."""

import asyncio
import gc
import threading
import time
import weakref

import pytest

from serving import call as calls
from serving.admission.event_loop import EventLoop
from serving.engine.batching import BatchingParameters, Queue
from serving.engine.engine import Engine
from serving.engine.state_tensors import NO_WISH, Wish
from serving.errors import DeadlineError, ExhaustedError, UnavailableError
from serving.messages import state_message
from tests.waiting import LONGEST_SECONDS, until
from triage.v1 import triage_pb2

LOOP = "batching"


class GatedEngine(Engine):
    """Answers each state with its number of questions as the version, one run for each `let` of the test.

    By its own account each run takes a second for the model.
    """

    info = vocabulary = None
    brief = False

    def __init__(self, brief=False):
        self.brief = brief
        self.runs = []  # the numbers of questions of each run
        self.threads = []  # the name of the thread of each run
        self.wishes = []
        self.remaining = []  # seconds until the deadline of each run
        self.fault = None  # raised by a run that holds a state with 13 questions
        self._entered = threading.Semaphore(0)
        self._gate = threading.Semaphore(0)

    def triage(self, states, wishes=()):
        numbers = [state.questions_asked for state in states]
        self.runs.append(numbers)
        self.threads.append(threading.current_thread().name)
        self.wishes.append(list(wishes))
        self.remaining.append(calls.current().request.remaining_seconds())
        calls.current().add(calls.MODEL, 1.0, 2.0)
        self._entered.release()
        self._gate.acquire()
        if self.fault is not None and 13 in numbers:
            raise self.fault
        return [triage_pb2.TriageResponse(model_version=str(number)) for number in numbers]

    def entered(self):
        assert self._entered.acquire(timeout=LONGEST_SECONDS)

    def let(self, runs=1):
        for _ in range(runs):
            self._gate.release()


@pytest.fixture(scope="module", autouse=True)
def loop():
    """The event loop on which requests wait."""
    Batched.loop = EventLoop(LOOP)
    yield Batched.loop
    Batched.loop.close()


FEVER = state_message(["fever"])


class Batched:
    """A batched engine that can be asked from any thread."""

    loop = None

    def __init__(self, front):
        self.front = front

    @property
    def waiting(self):
        return self.front.waiting

    @property
    def gathering(self):
        return self.front.gathering

    def triage(self, states, timeout=None, wish=NO_WISH):
        async def answer():
            calls.enter(calls.Call(calls.Request(deadline=None if timeout is None else time.monotonic() + timeout)))
            return await self.front.answer(states, wish)

        return self.loop.run(answer())


class Call(threading.Thread):
    """A call in a new thread, with one state per number of questions."""

    def __init__(self, engine, *numbers, timeout=None, wish=NO_WISH):
        super().__init__(daemon=True)
        self._engine, self._timeout, self._wish = engine, timeout, wish
        self._states = [state_message(["fever"], questions_asked=number) for number in numbers]
        self.outcome = None
        self.start()

    def run(self):
        try:
            responses = self._engine.triage(self._states, self._timeout, self._wish)
            self.outcome = [response.model_version for response in responses]
        except Exception as error:
            self.outcome = error

    def result(self):
        self.join(timeout=LONGEST_SECONDS)
        return self.outcome


def batched(engine, **settings):
    return Batched(Queue(engine, BatchingParameters(**{"batch_timeout_micros": 0, **settings})))


def gathered(engine, front, *calls):
    """Starts one call that runs, and then the others behind it in their order; returns all of them."""
    first = Call(front, 0)
    engine.entered()
    started = [first]
    for numbers in calls:
        before = front.waiting
        started.append(Call(front, *numbers))
        until(lambda before=before, numbers=numbers: front.waiting == before + len(numbers))
    return started


def test_a_batch_holds_no_more_than_its_largest_size_and_keeps_the_order():
    engine = GatedEngine()
    calls = gathered(engine, batched(engine, max_batch_size=3), [1, 2], [3], [4])
    engine.let(3)
    assert [call.result() for call in calls] == [["0"], ["1", "2"], ["3"], ["4"]]
    assert engine.runs == [[0], [1, 2, 3], [4]]


def test_calls_for_questions_share_a_run_each_with_its_wish_and_no_other_call_waits_for_them():
    engine = GatedEngine()
    front, (_, for_questions) = Batched(engine), engine.queues
    one, three = Wish(1), Wish(3, ["fever"])
    calls = [Call(front, 0, wish=one)]
    engine.entered()
    calls.append(Call(front, 1, wish=one))
    until(lambda: for_questions.waiting == 1)
    calls.append(Call(front, 2, 3, wish=three))
    until(lambda: for_questions.waiting == 3)
    calls.append(Call(front, 4))
    engine.entered()  # before the run for questions has ended
    engine.let(3)
    assert [call.result() for call in calls] == [["0"], ["1"], ["2", "3"], ["4"]]
    assert engine.runs == [[0], [4], [1, 2, 3]]
    assert engine.wishes == [[one], [NO_WISH], [one, three, three]]


def test_a_call_above_the_largest_batch_runs_in_parts_that_leave_room_for_others():
    engine = GatedEngine()
    front = batched(engine, max_batch_size=4)
    first = Call(front, 0)
    engine.entered()
    large = Call(front, 1, 2, 3, 4, 5)
    until(lambda: front.waiting == 2)  # the first half of a batch
    small = Call(front, 9)
    until(lambda: front.waiting == 3)
    engine.let(4)
    assert [call.result() for call in (first, large, small)] == [["0"], ["1", "2", "3", "4", "5"], ["9"]]
    assert engine.runs == [[0], [1, 2, 9], [3, 4], [5]]


def test_a_call_with_much_evidence_runs_in_parts():
    engine = GatedEngine()
    codes = [f"e{number}" for number in range(600)]  # three states of 600 pieces have fewer than 2,048, four have more
    states = [state_message(codes, questions_asked=number) for number in range(4)]
    engine.let(2)
    responses = batched(engine).triage(states)
    assert [response.model_version for response in responses] == ["0", "1", "2", "3"]
    assert engine.runs == [[0, 1, 2], [3]]


def test_a_full_queue_refuses_at_once():
    engine = GatedEngine()
    front = batched(engine, max_batch_size=2, max_enqueued_batches=1)
    calls = gathered(engine, front, [1], [2])
    with pytest.raises(ExhaustedError, match="2 evidence states"):
        front.triage([FEVER])
    engine.let(2)
    assert [call.result() for call in calls] == [["0"], ["1"], ["2"]]


def test_a_failure_affects_only_the_request_that_causes_it():
    engine = GatedEngine()
    engine.fault = ValueError("thirteen")
    calls = gathered(engine, batched(engine), [1], [13], [2])
    engine.let(5)
    outcomes = [call.result() for call in calls]
    assert outcomes[:2] + outcomes[3:] == [["0"], ["1"], ["2"]]
    assert outcomes[2] is engine.fault
    assert engine.runs[1] == [1, 13, 2]
    assert sorted(engine.runs[2:]) == [[1], [2], [13]]  # each by itself, once


def test_an_engine_that_is_away_is_not_asked_again_for_each_request():
    engine = GatedEngine()
    engine.fault = UnavailableError("away")
    calls = gathered(engine, batched(engine), [1], [13], [2])
    engine.let(2)
    assert [str(call.result()) for call in calls[1:]] == ["away"] * 3
    assert len({id(call.result()) for call in calls[1:]}) == 3  # one exception raised by several threads grows a stack
    assert len(engine.runs) == 2


def test_a_request_whose_deadline_passed_while_it_waited_is_left_out():
    engine = GatedEngine()
    front = batched(engine)
    first = Call(front, 0)
    engine.entered()
    late = Call(front, 1, timeout=0.0)
    until(lambda: front.waiting == 1)
    in_time = Call(front, 2, timeout=1000.0)
    until(lambda: front.waiting == 2)
    engine.let(2)
    assert first.result() == ["0"]
    assert isinstance(late.result(), DeadlineError)
    assert in_time.result() == ["2"]
    assert engine.runs == [[0], [2]]
    assert engine.remaining[0] is None
    assert 900 < engine.remaining[1] <= 1000


def test_a_batch_gets_the_longest_of_its_deadlines():
    engine = GatedEngine()
    front = batched(engine)
    calls = [Call(front, 0)]
    engine.entered()
    for waiting, timeout in enumerate((100.0, 1000.0), 1):
        calls.append(Call(front, 1, timeout=timeout))
        until(lambda waiting=waiting: front.waiting == waiting)
    engine.let(2)
    assert [call.result() for call in calls] == [["0"], ["1"], ["1"]]
    assert 900 < engine.remaining[1] <= 1000


def test_a_batch_waits_for_as_many_callers_as_there_were_before():
    engine = GatedEngine()
    front = batched(engine, batch_timeout_micros=2_000_000_000)
    calls = gathered(engine, front, [1], [2])
    engine.let()  # three were in progress, so the next batch waits for a third
    until(lambda: front.gathering)
    assert engine.runs == [[0]]
    calls.append(Call(front, 3))
    engine.let()
    assert [call.result() for call in calls] == [["0"], ["1"], ["2"], ["3"]]
    assert engine.runs == [[0], [1, 2, 3]]


def test_a_batch_does_not_wait_longer_than_the_parameters_say():
    engine = GatedEngine()
    front = batched(engine, batch_timeout_micros=1000)
    calls = gathered(engine, front, [1], [2])
    engine.let(2)
    assert [call.result() for call in calls] == [["0"], ["1"], ["2"]]
    alone = Call(front, 3)  # two others came before, and do not come again
    engine.let()
    assert alone.result() == ["3"]


def test_a_single_caller_does_not_wait():
    engine = GatedEngine()
    front = batched(engine, batch_timeout_micros=2_000_000_000)
    engine.let(3)
    for number in range(3):
        assert Call(front, number).result() == [str(number)]


def test_each_call_has_the_stages_of_its_run_and_one_of_them_counts_it(loop):
    engine, seen = GatedEngine(), []
    front = batched(engine).front
    engine.let(2)

    async def ask(states):
        calls.enter(calls.Call())
        await front.answer([FEVER] * states)
        seen.append(calls.current())

    async def ask_all():
        await asyncio.gather(ask(1), ask(2), ask(3))  # the first goes at once, the others gather meanwhile

    loop.run(ask_all())
    assert [call.runs for call in seen] == [[1], [5], []]
    for call in seen:
        (queue, begin, end), *others = call.stages
        assert queue == calls.QUEUE
        assert call.request.arrived <= begin <= end
        assert others == [(calls.MODEL, 1.0, 2.0)]


class AwayEngine(Engine):
    """An engine that is unavailable until `away` is unset."""

    info = vocabulary = None
    brief = False
    away = True

    def triage(self, states, wishes=()):
        if self.away:
            raise UnavailableError("away")
        return [triage_pb2.TriageResponse() for _ in states]


@pytest.mark.parametrize(("brief", "states", "on_the_loop"), [(True, 1, True), (True, 2, False), (False, 1, False)])
def test_only_a_brief_run_for_one_state_is_done_on_the_loop(loop, brief, states, on_the_loop):
    engine = GatedEngine(brief)
    engine.let()
    assert len(loop.run(batched(engine).front.answer([FEVER] * states))) == states
    assert [thread == LOOP for thread in engine.threads] == [on_the_loop]


def test_calls_that_arrive_together_share_a_run_in_a_thread_and_one_after_the_other_run_on_the_loop(loop):
    engine = GatedEngine(brief=True)
    front = batched(engine).front

    async def together():
        await asyncio.gather(*[front.answer([FEVER]) for _ in range(2)])

    engine.let(3)
    loop.run(together())
    for _ in range(2):
        loop.run(front.answer([FEVER]))
    assert list(map(len, engine.runs)) == [2, 1, 1]
    # After a run of two the next one waits for both; after a run of one nobody else is expected.
    assert [thread == LOOP for thread in engine.threads] == [False, False, True]


def test_a_lone_call_waits_for_the_run_that_a_caller_left_behind(loop):
    engine = GatedEngine()
    front = batched(engine).front
    left = asyncio.run_coroutine_threadsafe(front.answer([FEVER]), loop.loop)
    engine.entered()
    left.cancel()
    engine.brief = True
    lone = asyncio.run_coroutine_threadsafe(front.answer([FEVER]), loop.loop)
    until(lambda: front.waiting == 1)
    engine.let(2)
    assert len(lone.result(LONGEST_SECONDS)) == 1
    assert LOOP not in engine.threads


async def waiting_for_its_turn(front):
    """Returns a lone call that runs on the event loop in its next turn."""
    task = asyncio.ensure_future(front.answer([FEVER]))
    await asyncio.sleep(0)
    return task


def test_a_lone_call_that_is_given_up_before_it_runs_holds_nobody_up(loop):
    engine = GatedEngine(brief=True)
    front = batched(engine).front

    async def give_up():
        (await waiting_for_its_turn(front)).cancel()

    engine.let()
    loop.run(give_up())
    assert len(loop.run(front.answer([FEVER]))) == 1
    assert len(engine.runs) == 1


def test_a_run_that_is_no_longer_brief_in_its_turn_is_done_in_a_thread(loop):
    engine = GatedEngine(brief=True)
    front = batched(engine).front

    async def ask():
        task = await waiting_for_its_turn(front)
        engine.brief = False
        return await task

    engine.let()
    assert len(loop.run(ask())) == 1
    assert LOOP not in engine.threads


@pytest.mark.parametrize("on_the_loop", [False, True])
def test_only_the_caller_refers_to_an_error(loop, on_the_loop):
    engine = AwayEngine()
    engine.brief = on_the_loop
    front = Queue(engine, BatchingParameters())

    async def ask():
        try:
            await front.answer([FEVER])
        except UnavailableError as error:
            return weakref.ref(error)

    gc.collect()
    gc.disable()  # or a cycle would not show
    try:
        gone = loop.run(ask())
        until(lambda: gone() is None)
    finally:
        gc.enable()
    engine.away = False
    assert len(loop.run(front.answer([FEVER]))) == 1


def test_a_request_that_is_given_up_is_left_out_of_the_run(loop):
    engine = GatedEngine()
    front = batched(engine)
    first = Call(front, 0)
    engine.entered()
    given_up = asyncio.run_coroutine_threadsafe(
        front.front.answer([state_message(["fever"], questions_asked=1)]), loop.loop
    )
    until(lambda: front.waiting == 1)
    second = Call(front, 2)
    until(lambda: front.waiting == 2)
    given_up.cancel()
    loop.run(asyncio.sleep(0))
    engine.let(2)
    assert [first.result(), second.result()] == [["0"], ["2"]]
    assert engine.runs == [[0], [2]]
    assert front.waiting == 0
