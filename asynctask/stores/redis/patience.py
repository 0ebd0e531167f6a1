"""A timeout that blames the server only for its own silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

EXCUSED = 4.0
"""How many times its length a timeout may be put off since the loop was too busy to look for an answer."""

_LATE = 0.1  # a timer that is later than this part of its time means a busy loop
_TICK = 0.002  # seconds; a little more than the resolution of the loop's clock


@asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[None]:
    """Give up after a while, not counting the time in which the event loop was too busy to see an answer.

    With hundreds of requests at once, one turn of the loop can take longer than a server may. The answers
    are there then, but a timer that fires in the same turn would throw them away.

    Args:
        seconds: how long to wait.

    Raises:
        TimeoutError: it took longer.
    """
    loop = asyncio.get_running_loop()
    left, due = EXCUSED * seconds, loop.time() + seconds
    probe: asyncio.TimerHandle

    def excuse() -> None:
        nonlocal left, due, probe
        late = min(loop.time() - due, left)
        if late > _LATE * seconds:
            left -= late
            due = loop.time() + late
            scope.reschedule(due + _TICK)
            probe = loop.call_at(due, excuse)

    probe = loop.call_at(due, excuse)
    try:
        async with asyncio.timeout_at(due + _TICK) as scope:  # a tick later, so that the excuse comes first
            yield
    finally:
        probe.cancel()
