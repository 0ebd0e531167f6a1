"""What the tests of the batch share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyio.lowlevel import checkpoint
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable


BACKENDS = ["asyncio", "trio"]


async def double(n: int) -> int:
    """A call that really awaits."""
    await checkpoint()
    return 2 * n


async def at_once(n: int) -> int:
    """A call that never lets go of the event loop."""
    return 2 * n


async def agen(items: Iterable[Any]) -> AsyncIterator[Any]:
    """The items as an async generator that really awaits."""
    for item in items:
        await checkpoint()
        yield item


class Gauge:
    """Counts the calls under way, and the highest number of them."""

    def __init__(self) -> None:
        self.now = self.peak = self.calls = 0

    def __enter__(self) -> None:
        self.calls += 1
        self.now += 1
        self.peak = max(self.peak, self.now)

    def __exit__(self, *args: object) -> None:
        self.now -= 1


SOURCES: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "generator": lambda items: (item for item in items),
    "async generator": agen,
}
plans = st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=40)
"""For each item: how many times its call awaits, and whether it then fails."""
