"""The signals that end a server in order."""

import queue
import signal


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
        """Returns the number of the signal that came."""
        return self._came.get()
