"""The store of one process: a dict of running runs and a bounded cache of finished snapshots.

Running runs are kept out of the cache, since an LRU cache evicts whatever was not looked at. Everything
between two awaits is atomic on one event loop; claim and settle hold no await at all.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Self

import anyio
from cachetools import Cache, TTLCache

from asynctask.context import logger
from asynctask.errors import ConfigurationError
from asynctask.keys import Key
from asynctask.run import Run
from asynctask.snapshot import Snapshot
from asynctask.stores.base import PROGRESS_INTERVAL, Claim, newest_first


class _Finished(TTLCache[Key, Snapshot]):
    """Finished snapshots; counts what leaves, and why."""

    evicted = 0
    expired = 0

    def expire(self, time: float | None = None) -> list[tuple[Key, Snapshot]]:
        gone = super().expire(time)
        self.expired += len(gone)
        return gone

    def popitem(self) -> tuple[Key, Snapshot]:
        self.evicted += 1
        return super().popitem()

    def scan(self) -> list[tuple[Key, Snapshot]]:
        """Return all, without making any of them the most recently read."""
        return [(key, Cache.__getitem__(self, key)) for key in self]


class MemoryStore:
    """Keeps snapshots in this process.

    Running runs are never evicted; their number is bounded by the admission limits of `Jobs`. Finished ones
    expire `ttl` seconds after their finish, and the least recently read goes first when there are more than
    `cap`.

    Args:
        cap: how many finished snapshots to keep, at least 1.
        ttl: how long to keep each, in seconds.
        timer: the clock, in seconds; a monotonic one, so that setting the wall clock changes nothing.

    Raises:
        ConfigurationError: `cap` or `ttl` is not positive, or not a number.
    """

    def __init__(
        self, *, cap: int = 10_000, ttl: float = 3600.0, timer: Callable[[], float] = monotonic
    ) -> None:
        if type(cap) is not int or cap < 1:
            raise ConfigurationError(f"cap={cap!r} must be a whole number of snapshots, at least 1")
        # The comparison is also false for NaN, with which the cache would store what nobody can read.
        if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl:
            raise ConfigurationError(f"ttl={ttl!r} must be a positive number of seconds")
        self._running: dict[Key, Run] = {}
        self._finished = _Finished(cap, ttl, timer)

    async def __aenter__(self) -> Self:
        workers = _worker_count(sys.argv, os.environ)
        if workers > 1:
            logger.warning(
                "MemoryStore is in use in one of %d worker processes: each has runs of its own, so a "
                "poll that reaches another worker shows IDLE, and the same job can run in each. Use one "
                "worker, or Jobs(store=RedisStore(…))",
                workers,
            )
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        return None

    @property
    def running(self) -> int:
        """How many runs are RUNNING."""
        return len(self._running)

    @property
    def kept(self) -> int:
        """How many finished snapshots are kept."""
        self._finished.expire()
        return len(self._finished)

    @property
    def evicted(self) -> int:
        """How many finished snapshots left early because there were more than `cap`."""
        return self._finished.evicted

    @property
    def expired(self) -> int:
        """How many finished snapshots left after `ttl`."""
        self._finished.expire()
        return self._finished.expired

    async def claim(self, run: Run) -> Claim:
        """Start `run`, or join the one that is RUNNING for its key."""
        holder = self._running.setdefault(run.claim_key, run)
        return Claim(holder.snapshot(), holder is run)

    async def read(self, key: Key) -> Snapshot | None:
        """Return the key's snapshot: the running one first, else the finished one, else None."""
        return self._read(key)

    def peek(self, key: Key) -> Snapshot | None:
        """Return the key's RUNNING snapshot, if there is one."""
        run = self._running.get(key)
        return None if run is None else run.snapshot()

    async def settle(self, run: Run) -> bool:
        """Keep the run's terminal snapshot, if the run still holds its key."""
        key = run.claim_key
        if self._running.get(key) is not run:
            return False
        snapshot = run.snapshot()
        assert snapshot.status.terminal, "settle comes after Run.finish"
        self._finished[key] = snapshot  # from now on its TTL counts, and it is the most recent one
        del self._running[key]
        return True

    async def cancel(self, key: Key) -> Snapshot | None:
        """Ask the key's running run to stop."""
        if (run := self._running.get(key)) is not None:
            run.request_cancel()
        return self._read(key)

    async def changed(self, key: Key, seen: Snapshot, *, timeout: float, finished: bool) -> Snapshot | None:
        """Wait for a new version, or for the end of the run (see `Store.changed`)."""
        run = self._running.get(key)
        if run is None or run.run_id != seen.run_id:
            return self._read(key)
        if finished and timeout == math.inf:
            await run.finished.wait()
            return run.snapshot()
        with anyio.move_on_after(timeout):
            if finished:
                await run.finished.wait()
            while not run.finished.is_set() and run.snapshot().same_version(seen):
                with anyio.move_on_after(PROGRESS_INTERVAL):
                    await run.finished.wait()
        return run.snapshot()

    async def list(self, tenant: str) -> list[Snapshot]:
        """Return the snapshots of a tenant's keys."""
        self._finished.expire()
        found = {key: run.snapshot() for key, run in self._running.items() if key.tenant == tenant}
        for key, snapshot in self._finished.scan():
            if key.tenant == tenant:
                found.setdefault(key, snapshot)
        return newest_first([*found.values()])

    def _read(self, key: Key) -> Snapshot | None:
        if (run := self._running.get(key)) is not None:
            return run.snapshot()
        # `get` alone would leave expired entries in memory: only writing and this purge them.
        self._finished.expire()
        return self._finished.get(key)


def _worker_count(argv: list[str], environ: os._Environ[str] | dict[str, str]) -> int:
    """Read how many worker processes the server was asked for, from its command line or environment.

    uvicorn, gunicorn, hypercorn, granian and `fastapi run` all spell it `--workers N` or `WEB_CONCURRENCY`;
    `-w N` is gunicorn's and hypercorn's short form.
    """
    line = " ".join(argv[1:])
    match = re.search(r"(?:^|\s)(?:--workers[ =]|-w[ =]?)(\d+)(?:\s|$)", line)
    number = match[1] if match else environ.get("WEB_CONCURRENCY", "")
    return int(number) if number.isdecimal() and len(number) < 6 else 1
