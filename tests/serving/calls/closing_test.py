"""Calls that arrive at the end are held back and then refused."""

import asyncio

import pytest

from serving.calls.closing import Closing
from serving.errors import UnavailableError


def test_calls_are_held_back_until_none_arrive_and_then_refused():
    async def scenario():
        closing = Closing()
        beginning = asyncio.create_task(closing.begin())
        await asyncio.sleep(0)
        assert closing.begun
        held = asyncio.create_task(closing.hold_back())
        await beginning
        assert not held.done()
        closing.refuse()
        with pytest.raises(UnavailableError, match="the server is shutting down: call another one, or this one later"):
            await held
        with pytest.raises(UnavailableError):
            await closing.hold_back()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_callers_who_never_stop_do_not_keep_the_server_from_ending():
    async def scenario():
        closing = Closing()
        beginning, held = asyncio.create_task(closing.begin()), []
        while not beginning.done():
            held.append(asyncio.create_task(closing.hold_back()))
            await asyncio.sleep(0.01)  # the test would time out if `begin` waited for the last of them
        closing.refuse()
        for call in held:
            with pytest.raises(UnavailableError):
                await call

    asyncio.run(asyncio.wait_for(scenario(), 30))
