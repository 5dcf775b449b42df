"""Shows how far a pipeline is, whichever runner has it: by the files that its workers have finished."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

_SHORTEST, _SHARE = 0.5, 0.1  # seconds between two looks, and the part of the time that they may take


@contextlib.contextmanager
def watching(look: Callable[[], None]) -> Iterator[None]:
    """Calls `look` again and again in a thread while the block runs, and once more when it has ended without an error.

    Between two calls are half a second or, where the files are slow to list, nine times as long as the last one took.

    Args:
        look: shows what is done. Where it raises OSError, as a store does that cannot be reached for a moment, the
            next call may do better.
    """
    ended = threading.Event()

    def take_a_look() -> None:
        with contextlib.suppress(OSError):
            look()

    def watch() -> None:
        pause = _SHORTEST
        while not ended.wait(pause):
            began = time.monotonic()
            take_a_look()
            pause = pause_after(time.monotonic() - began)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    take_a_look()


def pause_after(seconds: float) -> float:
    """Returns how long to wait after a look that took so long, in seconds."""
    return max(_SHORTEST, seconds * (1 / _SHARE - 1))
