"""Requests that are arriving: a few are read at a time, and many slow ones are thinned out fairly."""

import asyncio
import contextlib

import grpc
import pytest

from serving import call as calls
from serving.admission import arrivals
from serving.admission.arrivals import (
    LARGE_ARRIVAL_BYTES,
    MOST_AMONG_LARGE,
    MOST_NEW,
    MOST_SLOW,
    Arrivals,
)
from serving.admission.idle_timeout import IdleTimeout
from serving.errors import ExhaustedError


class Stream:
    """A call whose message arrives when the test says so."""

    def __init__(self, caller="somebody"):
        self.call = calls.Call(calls.Request("/test.Service/Method"))
        self.call.caller = caller
        self.messages, self.status = asyncio.Queue(), None

    async def read(self):
        message = await self.messages.get()
        if isinstance(message, Exception):
            raise message
        return message

    async def abort(self, code, details, metadata=()):
        self.status = code
        self.messages.put_nowait(grpc.aio.AbortError())
        raise grpc.aio.AbortError


def reading(reader, stream):
    async def read():
        calls.enter(stream.call)
        return await reader.read(stream)

    return asyncio.create_task(read())


async def begun(reader, streams):
    tasks = [reading(reader, stream) for stream in streams]
    await asyncio.sleep(0)
    return tasks


@pytest.fixture(autouse=True)
def _no_moment_passes(monkeypatch):
    """However long a busy machine takes, no moment passes by itself, and no large request is forgotten."""
    for name in ("MOMENT_SECONDS", "_WAIT_SECONDS", "_MEMORY_SECONDS"):
        monkeypatch.setattr(arrivals, name, 6000.0)


def run(scenario):
    asyncio.run(asyncio.wait_for(scenario(), 30))


async def ended(tasks):
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, grpc.aio.BaseError):
            await task


def test_a_few_are_read_at_a_time():
    async def scenario():
        reader, streams = Arrivals(IdleTimeout(20.0)), [Stream() for _ in range(MOST_NEW + 2)]
        tasks = await begun(reader, streams)
        for stream in streams:
            stream.messages.put_nowait(b"there")
        assert await tasks[0] == b"there"
        assert not tasks[-2].done()
        assert await asyncio.gather(*tasks) == [b"there"] * len(tasks)

    run(scenario)


def test_while_large_ones_arrive_fewer_are_read_and_callers_of_small_ones_come_first():
    async def scenario():
        reader = Arrivals(IdleTimeout(20.0))
        for caller, size in (("large", LARGE_ARRIVAL_BYTES + 1), ("larger", LARGE_ARRIVAL_BYTES + 2), ("small", 10)):
            stream = Stream(caller)
            stream.messages.put_nowait(bytes(size))
            await reading(reader, stream)
        reads = [Stream("reads") for _ in range(MOST_AMONG_LARGE)]
        first = await begun(reader, reads)
        waiting = [Stream(caller) for caller in ("small", "new", "larger", "large")]
        tasks, order = await begun(reader, waiting), []
        for task, stream in zip(tasks, waiting, strict=True):
            task.add_done_callback(lambda _, caller=stream.call.caller: order.append(caller))
            stream.messages.put_nowait(b"there")
        reads[0].messages.put_nowait(b"there")  # one place becomes free, which they take in turn
        await asyncio.gather(*tasks)
        assert order == ["small", "new", "large", "larger"]  # "new" may be anybody; the last two sent much
        await ended(first)

    run(scenario)


async def all_slow(reader, streams):
    tasks = await begun(reader, streams)
    for _ in range(20):  # those that are let in begin to be read, and those that are refused end
        await asyncio.sleep(0)
    return tasks


def test_slow_ones_make_room_for_others_and_the_greediest_callers_are_refused_if_there_are_many(monkeypatch):
    monkeypatch.setattr(arrivals, "MOMENT_SECONDS", 0.0)

    async def scenario():
        reader = Arrivals(IdleTimeout(20.0))
        greedy = [Stream("greedy") for _ in range(MOST_NEW)]
        tasks = await all_slow(reader, greedy)
        others = [Stream(f"caller {number}") for number in range(MOST_NEW)]
        tasks += await all_slow(reader, others)
        assert [stream.status for stream in (*greedy, *others)] == [None] * MOST_SLOW
        more = [Stream(f"another {number}") for number in range(4)]
        tasks += await all_slow(reader, more)
        assert [stream.status for stream in greedy] == [None] * 4 + [grpc.StatusCode.RESOURCE_EXHAUSTED] * 4
        assert {stream.status for stream in (*others, *more)} == {None}
        assert {stream.call.reason for stream in greedy[4:]} == {"OVERLOADED"}
        await ended(tasks)

    run(scenario)


def test_of_slow_ones_that_came_before_none_is_refused_for_one_of_another_caller(monkeypatch):
    monkeypatch.setattr(arrivals, "MOMENT_SECONDS", 0.0)

    async def scenario():
        reader, streams = Arrivals(IdleTimeout(20.0)), [Stream(f"caller {number}") for number in range(MOST_SLOW + 1)]
        tasks = [task for stream in streams for task in await all_slow(reader, [stream])]
        assert [stream.status for stream in streams] == [None] * MOST_SLOW + [grpc.StatusCode.RESOURCE_EXHAUSTED]
        await ended(tasks)

    run(scenario)


def test_a_caller_who_waits_too_long_to_be_read_is_refused(monkeypatch):
    monkeypatch.setattr(arrivals, "_WAIT_SECONDS", 0.01)

    async def scenario():
        reader = Arrivals(IdleTimeout(20.0))
        tasks = await begun(reader, [Stream() for _ in range(MOST_NEW)])
        with pytest.raises(ExhaustedError, match="arriving at once"):
            await reading(reader, Stream())
        await ended(tasks)
        late = Stream()
        late.messages.put_nowait(b"there")
        assert await reading(reader, late) == b"there"

    run(scenario)


def test_a_caller_who_leaves_while_waiting_to_be_read_takes_no_turn():
    async def scenario():
        reader, streams = Arrivals(IdleTimeout(20.0)), [Stream() for _ in range(MOST_NEW + 2)]
        tasks = await begun(reader, streams)
        tasks[-2].cancel()
        await asyncio.sleep(0)
        streams[0].messages.put_nowait(b"there")
        streams[-1].messages.put_nowait(b"there")
        assert await tasks[-1] == b"there"
        await ended(tasks)

    run(scenario)
