"""The event loop that answers calls, in a thread of its own, and the threads that do what would hold it up."""

import asyncio
import concurrent.futures
import contextvars
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from serving.call import QUEUE, current

_Result = TypeVar("_Result")

_TURN_SECONDS = 0.0005
_STEP = 10  # of the system's nice values: a tenth of the processor, where others want all of it


def take_short_turns() -> None:
    """Has threads of this process keep Python's interpreter for half a millisecond at most while others wait for it.

    A call needs several turns, and by default each waits for 5 ms where a thread loads a version meanwhile.
    """
    sys.setswitchinterval(_TURN_SECONDS)


def step_back() -> None:
    """Has the system prefer other threads to the one that calls this, as loading a version can wait and calls cannot.

    Only Linux knows priorities of threads; elsewhere nothing happens.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _STEP)


class EventLoop:
    """Runs coroutines in one thread, until `close`.

    Args:
        name: that of the thread.

    Attributes:
        loop: asyncio's.
    """

    def __init__(self, name: str):
        self.loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Returns or raises what a coroutine does; not to be called in the loop's own thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def close(self) -> None:
        """Cancels what is still running, and ends; does nothing the second time."""
        if self._thread.is_alive():
            self.run(_cancel_others())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()


class Workers:
    """Threads for work that takes longer than the event loop should stand still.

    Args:
        threads: how many there are.
    """

    def __init__(self, threads: int):
        self._pool = concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="worker")

    async def run(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Returns or raises what a function does in one of the threads, on behalf of the current call.

        What waits for a thread when the caller goes away is not begun. What has begun is not interrupted.
        """
        context, submitted = contextvars.copy_context(), time.perf_counter()
        # An error is not the future's: asyncio would log one that nobody fetches any more, with its evidence, and the
        # stack of one that is fetched holds the future, so that both would stay until the next garbage collection.
        errors: list[Exception] = []

        def work() -> _Result | None:
            current().add(QUEUE, submitted, time.perf_counter())
            try:
                return function(*arguments)
            except Exception as error:
                errors.append(error)
                return None

        result = await asyncio.get_running_loop().run_in_executor(self._pool, context.run, work)
        if errors:
            raise errors.pop()
        return cast(_Result, result)

    def close(self) -> None:
        """Lets the threads end when they have done what they were given."""
        self._pool.shutdown(wait=False)


def _new_loop() -> asyncio.AbstractEventLoop:
    """Returns a loop of uvloop, which takes a tenth less processor time for a call than asyncio's own."""
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
