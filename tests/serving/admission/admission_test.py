"""Which calls are admitted: as many as there are places, and none once the server ends; health is reported still."""

import asyncio

import pytest

from serving.admission.admission import ConcurrencyLimit, Drain
from serving.errors import ExhaustedError, UnavailableError


def test_a_quarter_more_is_kept_for_callers_who_have_no_place():
    places = ConcurrencyLimit(4)
    for _ in range(4):
        places.take("greedy")
    with pytest.raises(ExhaustedError):
        places.take("greedy")
    places.take("modest")
    with pytest.raises(ExhaustedError):
        places.take("another")
    places.leave("modest")
    places.take("another")


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
        with pytest.raises(UnavailableError, match="shutting down"):
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
