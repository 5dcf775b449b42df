"""The signals that end a server in order."""

import contextlib
import queue
import signal

_LOOK_SECONDS = 0.5


class EndSignals:
    """Waits for SIGTERM or SIGINT. A second one ends the process at once, as if nobody had caught it."""

    def __init__(self) -> None:
        # An Event would be no good: a handler that interrupts its wait() in the wrong place blocks for ever in set().
        self._came: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._catch)

    def _catch(self, number: int, frame: object) -> None:
        for caught in (signal.SIGTERM, signal.SIGINT):
            signal.signal(caught, signal.SIG_DFL)
        self._came.put(number)

    def wait(self) -> int:
        """Returns the number of the signal that came; to be called in the main thread.

        The system may hand a signal to any thread, but Python handles it in this one, which it does not wake for it.
        """
        while True:
            with contextlib.suppress(queue.Empty):
                return self._came.get(timeout=_LOOK_SECONDS)
