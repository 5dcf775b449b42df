"""Calls that arrive at the end are held back and then refused."""

import asyncio

import pytest

from serving.admission.drain import Drain
from serving.errors import UnavailableError


def test_calls_are_held_back_until_none_arrive_and_then_refused():
    async def scenario():
        drain = Drain()
        beginning = asyncio.create_task(drain.begin())
        await asyncio.sleep(0)
        assert drain.begun
        held = asyncio.create_task(drain.hold_back())
        await beginning
        assert not held.done()
        drain.refuse()
        with pytest.raises(UnavailableError, match="the server is shutting down: call another one, or this one later"):
            await held
        with pytest.raises(UnavailableError):
            await drain.hold_back()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_callers_who_never_stop_do_not_keep_the_server_from_ending():
    async def scenario():
        drain = Drain()
        beginning, held = asyncio.create_task(drain.begin()), []
        while not beginning.done():
            held.append(asyncio.create_task(drain.hold_back()))
            await asyncio.sleep(0.01)  # the test would time out if `begin` waited for the last of them
        drain.refuse()
        for call in held:
            with pytest.raises(UnavailableError):
                await call

    asyncio.run(asyncio.wait_for(scenario(), 30))
