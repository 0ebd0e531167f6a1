"""A timeout that blames the server only for its own silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

EXCUSED = 4.0
"""How many times its length a timeout may be put off since the loop was too busy to look for an answer."""

_LOOKS = 8  # how often the time that passes is compared with the time that should have passed


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
    step, left = seconds / _LOOKS, EXCUSED * seconds
    expected = loop.time() + step
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal expected, left, timer
        now, end = loop.time(), scope.when()
        if end is None or scope.expired():
            return
        late = min(now - expected, left)
        left -= late
        scope.reschedule(end + late)
        expected = now + step
        timer = loop.call_at(expected, look)

    timer = loop.call_at(expected, look)  # of two timers that are overdue, this one comes first
    try:
        async with asyncio.timeout_at(expected + seconds - step / 2) as scope:
            yield
    finally:
        timer.cancel()
