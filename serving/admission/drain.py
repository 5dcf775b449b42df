"""The end of a server: calls that still arrive are refused with UNAVAILABLE, so that their callers try again elsewhere.

gRPC ends calls that arrive while it shuts down with CANCELLED, which tells nobody to try again. So new calls are held
back until none arrive; then gRPC shuts down, which tells all clients to connect elsewhere; then they are refused.
"""

import asyncio
import time
from typing import NoReturn

from serving.errors import UnavailableError

_MESSAGE = "the server is shutting down: call another one, or this one later"
_QUIET_SECONDS = 0.05
_LONGEST_SECONDS = 0.5


class Drain:
    """Holds back and refuses calls; for use on one event loop.

    Attributes:
        begun: whether to `hold_back` new calls.
    """

    def __init__(self) -> None:
        self.begun = False
        self._came_late = True
        self._refusing = asyncio.Event()

    async def begin(self) -> None:
        """Returns when no more calls arrive, after half a second at most."""
        self.begun, end = True, time.monotonic() + _LONGEST_SECONDS
        while self._came_late and time.monotonic() < end:
            self._came_late = False
            await asyncio.sleep(_QUIET_SECONDS)

    def refuse(self) -> None:
        """Ends the calls that are held back, and lets none wait from now on."""
        self._refusing.set()

    async def hold_back(self) -> NoReturn:
        """Raises UnavailableError when it is time to."""
        self._came_late = True
        await self._refusing.wait()
        raise UnavailableError(_MESSAGE)
