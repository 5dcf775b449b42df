"""Waits for events, with a limit that even a busy machine does not reach."""

import time

LONGEST_SECONDS = 120.0


def until(met, seconds=LONGEST_SECONDS):
    """Returns once `met()` is true, with what it returns; fails after `seconds`."""
    end = time.monotonic() + seconds
    while not (outcome := met()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)
    return outcome
