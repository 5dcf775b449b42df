"""Cuts clients off that went silent: whose machine is gone, or that do not send what they began to send.

gRPC gives a call a thread when its headers come, before its request does. So a few callers that send headers and
nothing more could keep all threads.
"""

import concurrent.futures
import threading
from collections.abc import Iterable
from typing import Any

from serving.capacity import Workers

# gRPC's own names, of the release that setup.py pins.
_AWAITS_REQUEST = "receive_message"
_UNARY_REQUEST = "unary_request"
_LONGEST = 2**30 - 1  # milliseconds, twice which gRPC takes


def options(seconds: float) -> list[tuple[str, int]]:
    """Returns gRPC's options for a server that gives up a connection on which nothing comes for so long."""
    half = min(max(1, int(seconds * 500)), _LONGEST)
    return [
        # After half of the time the client is asked whether it is there, and has as long to answer. Its kernel cannot.
        ("grpc.keepalive_time_ms", half),
        ("grpc.keepalive_timeout_ms", half),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),  # otherwise a connection without calls is asked twice only
        ("grpc.http2.ping_timeout_ms", half),
        ("grpc.server_handshake_timeout_ms", 2 * half),
    ]


class Watch:
    """Ends unary calls whose request does not come, between `start` and `stop`; their callers get CANCELLED.

    Args:
        seconds: how long a call may hold a thread without its request, less up to a half.
        pools: the threads.
    """

    def __init__(self, seconds: float, pools: Iterable[Workers]):
        self._seconds = seconds
        self._pools = tuple(pools)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="silence", daemon=True)

    def start(self) -> None:
        """Begins to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Ends; does nothing where it has not begun."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        seen: set[concurrent.futures.Future[Any]] = set()
        while not self._ended.wait(self._seconds / 2):
            silent = {future: call for pool in self._pools for future, call in _silent(pool)}
            for future in seen & silent.keys():
                silent[future].cancel()
            seen = silent.keys() - seen


def _silent(pool: Workers) -> Iterable[tuple["concurrent.futures.Future[Any]", Any]]:
    """Yields the calls that hold a thread and wait for their only request."""
    for future, (_, event, state, _, request, *_) in pool.under_way.items():
        if request.__name__ == _UNARY_REQUEST and _AWAITS_REQUEST in state.due:
            yield future, event.call
