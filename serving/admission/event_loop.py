"""The event loop that answers calls, in a thread of its own, and worker threads for what would block it."""

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
from serving.process import notify

_Result = TypeVar("_Result")

_TURN_SECONDS = 0.0005
_NICE_STEP = 10  # leaves about a tenth of a busy processor
_BEAT_SECONDS = 1.0


def take_short_turns() -> None:
    """Makes threads release Python's interpreter after half a millisecond if others wait for it.

    A call needs several turns. By default each would wait 5 ms while another thread loads a version.
    """
    sys.setswitchinterval(_TURN_SECONDS)


def step_back() -> None:
    """Lowers the priority of the calling thread: loading a version can wait, and calls cannot.

    Only Linux has priorities of threads; elsewhere this does nothing.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICE_STEP)


class EventLoop:
    """Runs coroutines in one thread, until `close`.

    It tells systemd every second that it runs, so that WatchdogSec restarts a service whose loop is blocked.
    """

    def __init__(self, name: str):
        self.loop = _new_loop()
        self.loop.set_exception_handler(_log)
        self._next_beat = time.monotonic() + _BEAT_SECONDS
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def late_seconds(self) -> float:
        """For how long the loop has not run what was due; any thread may ask."""
        return max(0.0, time.monotonic() - self._next_beat)

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Returns or raises what a coroutine does; call this from other threads only."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def close(self) -> None:
        """Cancels all tasks and stops the loop; does nothing the second time."""
        if self._thread.is_alive():
            self.run(_cancel_others())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self._beat()
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def _beat(self) -> None:
        self._next_beat = time.monotonic() + _BEAT_SECONDS
        self.loop.call_later(_BEAT_SECONDS, self._beat)
        notify("WATCHDOG=1")


class Workers:
    """Threads for work that would block the event loop for too long."""

    def __init__(self, threads: int):
        self._pool = concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="worker")

    async def run(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Returns or raises what a function does in one of the threads, in the context of the current call.

        If the caller goes away, a function that still waits for a thread is not run; a running one is not interrupted.
        """
        context, submitted = contextvars.copy_context(), time.perf_counter()
        # The future must not hold the error: asyncio would log an error that nobody retrieves, with its evidence, and
        # the traceback of a retrieved one refers to the future, a cycle that only garbage collection would free.
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
        """Ends the threads when they have finished their work."""
        self._pool.shutdown(wait=False)


def _new_loop() -> asyncio.AbstractEventLoop:
    """Returns a uvloop, which takes a tenth less processor time per call than asyncio's own loop."""
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


def _log(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs the error of a callback, but not that gRPC, which wakes all loops of a process, has nothing for this one."""
    if not (isinstance(context.get("exception"), BlockingIOError) and "_handle_events" in str(context.get("handle"))):
        loop.default_exception_handler(context)


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
