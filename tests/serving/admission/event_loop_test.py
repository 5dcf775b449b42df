"""The event loop's thread, and the worker threads."""

import asyncio
import contextvars
import os
import sys
import threading

import pytest

from serving.admission.event_loop import Workers, step_back


@pytest.fixture
def workers():
    workers = Workers(1)
    yield workers
    workers.close()


def test_wake_ups_of_grpc_that_another_loop_has_taken_are_not_logged(loop, caplog):
    def _handle_events(error):
        raise error

    async def turn():
        for error in (BlockingIOError("nothing to read"), ValueError("a fault of ours")):
            asyncio.get_running_loop().call_soon(_handle_events, error)
        await asyncio.sleep(0)

    loop.run(turn())
    assert [record.exc_info[1].args for record in caplog.records] == [("a fault of ours",)]


def test_work_cancelled_before_its_turn_is_not_done(loop, workers):
    gate, done = threading.Event(), []

    async def ask():
        first = asyncio.create_task(workers.run(gate.wait, 60))
        second = asyncio.create_task(workers.run(done.append, "second"))
        third = asyncio.create_task(workers.run(done.append, "third"))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second])
        gate.set()
        await asyncio.gather(first, third)

    contextvars.copy_context().run(loop.run, ask())
    assert done == ["third"]


@pytest.mark.skipif(sys.platform != "linux", reason="priorities of threads")
def test_a_thread_that_steps_back_leaves_the_others_where_they_are():
    def priority():
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def work():
        step_back()
        priorities.append(priority())

    priorities, before = [], priority()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert priorities == [min(before + 10, 19)]
    assert priority() == before
