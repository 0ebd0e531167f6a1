"""Spreading requests over small connection pools. Knows no client: a pool is anything with `aclose`.

The rules:

- A pool never gets more requests than it has connections, so nothing queues inside it.
- A pool goes on after a request that ran to the end of its response. After any other end, above all a
  cancellation, it *retires*: it gets no new requests and closes when the last of those it has is over.
- A pool counts with all its connections against the total until it is closed, retired or not.
- A request that finds all connections taken waits; those who came first are served first.
"""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable


class Closable(Protocol):
    """What a pool wraps."""

    async def aclose(self) -> None:
        """Close all connections."""


P = TypeVar("P", bound=Closable)


class Pool(Generic[P]):
    """One small pool, and what the spreading needs to know of it.

    Attributes:
        transport: what sends the requests.
        size: how many connections it may have, and so how many requests it gets at a time.
        load: how many requests it has.
        origin: where its latest request went; it probably has an open connection to there.
        retired: whether it gets no further requests.
        used_at: when its latest request ended, by the clock.
    """

    __slots__ = ("load", "origin", "retired", "size", "transport", "used_at")

    def __init__(self, transport: P, size: int) -> None:
        self.transport: P = transport
        self.size: int = size
        self.load: int = 0
        self.origin: object = None
        self.retired: bool = False
        self.used_at: float = 0.0


class _Waiter(Generic[P]):
    """A request that waits for its turn; `ready` without a pool means that all was closed."""

    __slots__ = ("origin", "pool", "ready")

    def __init__(self, origin: object) -> None:
        self.origin = origin
        self.pool: Pool[P] | None = None
        self.ready = anyio.Event()


class Pools(Generic[P]):
    """The pools of one transport.

    Args:
        make: makes what a pool of that many connections wraps.
        total: the largest number of connections at any time.
        size: connections a pool.
        max_idle: how many pools may be kept without a request.
        expiry: seconds after which a pool without a request is closed; None means never.
        clock: where seconds come from.
    """

    def __init__(
        self,
        make: Callable[[int], P],
        *,
        total: int,
        size: int,
        max_idle: int,
        expiry: float | None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._make = make
        self._total = total
        self._size = size
        self._max_idle = max_idle
        self._expiry = expiry
        self._clock = clock
        self._pools: set[Pool[P]] = set()
        self._held = 0
        # Pools with room, the one used last at the end: the fewer connections take turns, the fewer go stale.
        self._free: dict[Pool[P], None] = {}
        self._waiting: deque[_Waiter[P]] = deque()

    def __len__(self) -> int:
        """The number of pools that are not closed."""
        return len(self._pools)

    async def acquire(self, origin: object, timeout: float | None) -> Pool[P]:
        """Give a request its place in a pool; `release` takes it back.

        Args:
            origin: where the request goes.
            timeout: seconds to wait for a place; None waits for ever.

        Raises:
            TimeoutError: no place became free in time.
            anyio.ClosedResourceError: the pools were closed meanwhile.
        """
        return self._take(origin) or await self._wait(origin, timeout)

    async def release(self, pool: Pool[P], *, whole: bool) -> None:
        """Take a request's place back, once for each `acquire`.

        Args:
            pool: what `acquire` gave.
            whole: whether the request ran to its end and left its connection as it should.
        """
        pool.load -= 1
        pool.used_at = self._clock()
        if not whole:
            self._retire(pool)
        if pool.retired:
            if pool.load == 0:
                await self._close(pool)
            return
        self._free.pop(pool, None)
        self._free[pool] = None
        self._serve_waiting()
        await self._close_stale()

    async def aclose(self) -> None:
        """Close all connections, those of requests under way too, and turn away the requests that wait."""
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            waiter.ready.set()
        failed: Exception | None = None
        for pool in list(self._pools):
            self._retire(pool)
            try:
                await self._close(pool)
            except Exception as exc:  # the others are to be closed all the same
                failed = exc
        if failed is not None:
            raise failed

    def _take(self, origin: object) -> Pool[P] | None:
        """Find the least loaded pool, of this origin if there is one, and count the request in; or None."""
        best: Pool[P] | None = None
        for pool in reversed(self._free):
            if pool.load == 0 and pool.origin == origin:
                best = pool
                break
            if best is None or pool.load <= best.load:
                best = pool
        else:
            # A pool that is not there yet has no load either, and costs no other origin its connection.
            size = min(self._size, self._total - self._held)
            if size > 0:
                best = Pool(self._make(size), size)
                self._pools.add(best)
                self._held += size
                self._free[best] = None
        if best is not None:
            best.load += 1
            best.origin = origin
            if best.load == best.size:
                del self._free[best]
        return best

    async def _wait(self, origin: object, timeout: float | None) -> Pool[P]:
        waiter: _Waiter[P] = _Waiter(origin)
        self._waiting.append(waiter)
        try:
            with anyio.move_on_after(timeout):
                await waiter.ready.wait()
        except BaseException:
            # Perhaps it was given a place in the very moment in which it was cancelled.
            if waiter.pool is not None:
                await self.release(waiter.pool, whole=True)
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
            raise
        if waiter.pool is not None:
            return waiter.pool
        if waiter.ready.is_set():
            raise anyio.ClosedResourceError
        self._waiting.remove(waiter)
        raise TimeoutError

    def _serve_waiting(self) -> None:
        while self._waiting:
            pool = self._take(self._waiting[0].origin)
            if pool is None:
                return
            waiter = self._waiting.popleft()
            waiter.pool = pool
            waiter.ready.set()

    async def _close_stale(self) -> None:
        """Close pools that are one too many to be kept idle, or that were not used for too long."""
        while self._free:
            oldest = next(iter(self._free))
            expired = self._expiry is not None and self._clock() - oldest.used_at > self._expiry
            if oldest.load or not (expired or len(self._free) > self._max_idle):
                return
            self._retire(oldest)
            await self._close(oldest)

    def _retire(self, pool: Pool[P]) -> None:
        pool.retired = True
        self._free.pop(pool, None)

    async def _close(self, pool: Pool[P]) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await pool.transport.aclose()
        finally:
            if pool in self._pools:
                self._pools.remove(pool)
                self._held -= pool.size
            self._serve_waiting()
