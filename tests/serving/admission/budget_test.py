"""Large requests: a few at a time, callers in turn, the rest refused with when to try again."""

import asyncio
import queue

import grpc
import pytest

from schemas.errors import InputError
from serving.admission import Admission
from serving.admission.budget import LARGE_BYTES, Budget, Cost, Pace
from serving.call import Call
from serving.errors import ExhaustedError
from serving.messages import state_message
from serving.security import LocalReloads
from tests.builders import channel_to, served
from triage.v1 import triage_service_pb2

KIB = 1024


def by(caller):
    return Call(caller=caller)


class Turns:
    """Requests that hold their turn until they are let go."""

    def __init__(self, budget):
        self.budget, self.began, self.tasks, self._gates = budget, [], {}, {}

    async def ask(self, name, caller, cost):
        self._gates[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._hold(name, by(caller), cost))
        await asyncio.sleep(0)

    async def let(self, name):
        self._gates[name].set()
        await self.tasks[name]
        await asyncio.sleep(0)

    async def _hold(self, name, call, cost):
        async with self.budget.turn(call, cost):
            self.began.append(name)
            await self._gates[name].wait()


def run(scenario):
    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_requests_beyond_the_turns_wait_and_callers_take_them_in_turn():
    async def scenario():
        turns = Turns(Budget(Cost(1000, 1000 * KIB), 1, Pace()))
        for name, caller in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b")):
            await turns.ask(name, caller, Cost(1, 20 * KIB))
        assert turns.began == ["a1"]
        for name in ("a1", "a2", "b1", "a3"):
            await turns.let(name)
        assert turns.began == ["a1", "a2", "b1", "a3"]
        assert turns.budget.shares.total == Cost(0, 0)

    run(scenario)


def test_a_caller_alone_holds_half_and_leaves_room_for_another():
    async def scenario():
        turns = Turns(Budget(Cost(1000, 100 * KIB), 1, Pace()))
        for name in ("a1", "a2"):
            await turns.ask(name, "a", Cost(1, 25 * KIB))
        with pytest.raises(ExhaustedError, match=f"{50 * KIB} bytes and 2 states"):
            async with turns.budget.turn(by("a"), Cost(1, 25 * KIB)):
                pass
        await turns.ask("b1", "b", Cost(1, 25 * KIB))
        for name in ("a1", "a2", "b1"):
            await turns.let(name)
        assert sorted(turns.began) == ["a1", "a2", "b1"]  # what was accepted had its turn

    run(scenario)


def test_a_request_above_the_limit_is_accepted_alone():
    async def scenario():
        budget = Budget(Cost(10, KIB), 1, Pace())
        async with budget.turn(by("a"), Cost(1024, 4096 * KIB)):
            with pytest.raises(ExhaustedError):
                async with budget.turn(by("b"), Cost(1, 1)):
                    pass

    run(scenario)


def test_a_caller_who_leaves_while_it_waits_gives_back_what_it_holds():
    async def scenario():
        turns = Turns(Budget(Cost(1000, 1000 * KIB), 1, Pace()))
        for name in ("a1", "a2", "a3"):
            await turns.ask(name, name, Cost(1, 20 * KIB))
        turns.tasks["a2"].cancel()
        await asyncio.sleep(0)
        assert turns.budget.shares.total == Cost(2, 40 * KIB)
        for name in ("a1", "a3"):
            await turns.let(name)
        assert turns.began == ["a1", "a3"]
        assert turns.budget.shares.total == Cost(0, 0)

    run(scenario)


def test_those_refused_later_are_told_to_come_later_and_wait_if_there_are_very_many():
    async def scenario():
        turns = Turns(Budget(Cost(1000, 10 * KIB), 1, Pace(lambda: 100.0)))
        await turns.ask("a1", "a", Cost(1, 10 * KIB))
        refusals = []
        for _ in range(100):
            with pytest.raises(ExhaustedError) as error:
                async with turns.budget.turn(by("b"), Cost(1, KIB)):
                    pass
            refusals.append(error.value)
        # A turn is guessed to take a quarter of a second: the first is behind one request, the last behind a hundred.
        assert (refusals[0].retry_seconds, refusals[-1].retry_seconds) == (1, 25)
        assert (refusals[0].hold_seconds, refusals[9].hold_seconds) == pytest.approx((0, 0))  # 10 at once
        assert refusals[-1].hold_seconds == pytest.approx(3.6)  # then 25 a second
        await turns.let("a1")

    run(scenario)


@pytest.mark.parametrize(("size", "held_back"), [(LARGE_BYTES, False), (LARGE_BYTES + 1, True)])
def test_the_refusal_of_faulty_requests_is_paced_if_they_are_large(size, held_back):
    async def scenario():
        admission, fault = Admission(LocalReloads(), 100), InputError("faulty")
        for _ in range(100):  # of which ten end at once
            admission.pace.hold_seconds()
        call = by("a")
        async with admission.turn(call, Cost(0, size)):
            pass
        refusal = asyncio.create_task(admission.hold_back(call, fault))
        await asyncio.sleep(0)
        assert refusal.done() is not held_back
        refusal.cancel()

    run(scenario)


def test_batches_beyond_the_budget_are_refused_while_small_calls_and_accepted_batches_are_answered(gated):
    large = state_message(["chest_pain"], max_questions=1)
    batch = triage_service_pb2.BatchTriageRequest(states=[large] * 100).SerializeToString()  # 100 states, 2 kB
    small = triage_service_pb2.TriageRequest(state=large).SerializeToString()
    ended = queue.SimpleQueue()
    with (
        served(gated.watcher(), grace_seconds=30, max_pending_states=400) as server,
        channel_to(server.address) as channel,
    ):
        ask = channel.unary_unary("/triage.v1.TriageService/BatchTriage")
        for _ in range(5):
            ask.future(batch, timeout=60).add_done_callback(ended.put)
        refused = [ended.get(timeout=30) for _ in range(3)]  # two are half of the budget
        assert {call.code() for call in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        answer = channel.unary_unary("/triage.v1.TriageService/Triage").future(small, timeout=60)
        gated.gate.set()
        assert answer.result(timeout=30)
        answered = [ended.get(timeout=30) for _ in range(2)]
        assert {call.code() for call in answered} == {grpc.StatusCode.OK}
        replies = [triage_service_pb2.BatchTriageResponse.FromString(call.result()) for call in answered]
        assert [len(reply.responses) for reply in replies] == [100, 100]
