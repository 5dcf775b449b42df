"""Waits for events, with a limit that even a busy machine does not reach."""

import time

LONGEST_SECONDS = 120.0


def until(met):
    """Returns once `met()` is true, with what it returns; fails after `LONGEST_SECONDS`."""
    end = time.monotonic() + LONGEST_SECONDS
    while not (outcome := met()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)
    return outcome
