"""The store of several instances: records in Redis, one Lua script for each step of a run."""

from __future__ import annotations

import asyncio
import math
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import anyio
import msgspec

from asynctask.context import logger
from asynctask.errors import ConfigurationError, StoreUnavailableError
from asynctask.keys import Key
from asynctask.run import Run
from asynctask.snapshot import Code, Snapshot, Status, encode
from asynctask.stores.base import PROGRESS_INTERVAL, Claim, newest_first
from asynctask.stores.redis.connection import Server, refused
from asynctask.stores.redis.health import unavailable
from asynctask.stores.redis.hold import clock
from asynctask.stores.redis.lease import Keeper
from asynctask.stores.redis.record import Naming, Seen, picture
from asynctask.stores.redis.scripts import ANNOUNCE, CANCEL, CLAIM, LIST, READ, SETTLE

SETTLE_PATIENCE = 10.0
"""How long an outcome is kept for a server that is away, in seconds; about as long as a failover takes."""

_FIRST_LOOK = 0.05  # seconds until a waiting poller looks again the first time
_LISTED_AT_ONCE = 200


class RedisStore:
    """Keeps snapshots in Redis or Valkey, for any number of instances; asyncio only.

    The instance that started a run holds a lease on it and renews it from a thread of its own. Whoever
    finds a lease expired writes down that the run was lost, and only then can its key be claimed again.

    Args:
        url: `redis://`, `rediss://` (TLS) or `unix://`, with user and password percent-encoded.
        cluster: whether the URL names a node of a Redis Cluster.
        prefix: what the names of all keys begin with; applications that share a server take one each.
        ttl: how long to keep a finished run, in seconds.
        lease: how long after the last sign of life of its holder a run is lost, in seconds.
        progress_deadline: seconds without progress after which a run is given up though its process lives;
            None for never. With it, jobs must advance, or change their message, more often than that.
        max_connections: most connections of this process; in a cluster, to each node.
        timeout: seconds that a step may take in all before it fails as `StoreUnavailableError`.

    Raises:
        ConfigurationError: an argument is unfit.
    """

    def __init__(
        self,
        url: str,
        *,
        cluster: bool = False,
        prefix: str = "asynctask",
        ttl: float = 3600.0,
        lease: float = 15.0,
        progress_deadline: float | None = None,
        max_connections: int = 16,
        timeout: float = 3.0,
    ) -> None:
        _check_seconds("ttl", ttl)
        _check_seconds("lease", lease)
        _check_seconds("timeout", timeout)
        if progress_deadline is not None:
            _check_seconds("progress_deadline", progress_deadline)
        if timeout > lease / 2:
            raise ConfigurationError(
                f"timeout={timeout!r} must be at most half of lease={lease!r}, so that it can be renewed"
            )
        if type(max_connections) is not int or max_connections < 1:
            raise ConfigurationError(
                f"max_connections={max_connections!r} must be a whole number, at least 1"
            )
        self._naming = Naming(prefix)
        self._server = Server(url, cluster=cluster, max_connections=max_connections, timeout=timeout)
        self._lease = int(1000 * lease)
        self._ttl = int(1000 * ttl)
        self._keeper = Keeper(
            self._server,
            self._naming.cancels,
            lease=lease,
            ttl=self._ttl,
            progress_deadline=progress_deadline,
        )
        self._stack: AsyncExitStack | None = None

    def __repr__(self) -> str:
        return f"<RedisStore at {self._server.place}>"

    async def __aenter__(self) -> Self:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise ConfigurationError(
                "RedisStore works on asyncio only, as redis-py does; on trio use a MemoryStore"
            ) from None
        if self._stack is not None:
            raise ConfigurationError(
                "this store is already started: enter the lifespan of its Jobs only once"
            )
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._server.connected())
            self._keeper.start()
            stack.push_async_callback(self._keeper.stop)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            with anyio.CancelScope(shield=True):
                await stack.aclose()

    async def claim(self, run: Run) -> Claim:
        """Start `run`, or join the one that is RUNNING for its key (see `Store.claim`)."""
        names, sent, snapshot = self._naming.of(run.claim_key), clock(), run.snapshot()
        try:
            answer = await self._server.call(
                CLAIM, names, self._ttl, run.run_id, self._lease, encode(snapshot)
            )
        except BaseException as exc:
            if not refused(exc):
                # It may have run, or may still run: others would wait for a run that nobody executes.
                self._keeper.abandon(run.run_id, names)
            raise
        lease, lost = (answer, None) if isinstance(answer, int) else (answer[0], answer[-1])
        if not isinstance(lease, int):
            return Claim(self._picture(run.claim_key, lease), ours=False)
        if not lease or not self._keeper.add(run, names, sent=sent, lease=lease):
            self._keeper.abandon(run.run_id, names)
            raise unavailable("took too long")
        if lost is not None:
            _log_loss(run.claim_key, lost.decode())
        return Claim(snapshot, ours=True)

    async def read(self, key: Key) -> Snapshot | None:
        """Return the key's snapshot; one whose lease has run out is FAILED from then on."""
        answer = await self._server.call(READ, self._naming.of(key), self._ttl)
        return None if answer is None else self._picture(key, answer)

    def peek(self, key: Key) -> Snapshot | None:
        """Return None: what this process knows by itself may be ahead of what others see."""
        return None

    async def settle(self, run: Run) -> bool:
        """Write the run's outcome, if the run still holds its key; tries again while Redis is away.

        Raises:
            StoreUnavailableError: Redis was away until the lease ended, or `SETTLE_PATIENCE`; no longer
                than a step takes if the application is ending.
        """
        names, snapshot = self._naming.of(run.claim_key), run.snapshot()
        assert snapshot.status.terminal, "settle comes after Run.finish"
        hold = self._keeper.find(run.run_id)
        lease, bump = (0, 0) if hold is None else (hold.lease, hold.bump)
        ending = snapshot.error_code == Code.INTERRUPTED
        until = clock() + (self._server.timeout if ending else SETTLE_PATIENCE)
        arguments = (self._ttl, run.run_id, snapshot.version, encode(snapshot), lease, bump)
        pause = 0.05
        try:
            with anyio.CancelScope(shield=True):  # as `Store` demands; bounded by `until`
                while hold is None or not hold.lost:
                    try:
                        return bool(await self._server.call(SETTLE, names, *arguments) == 1)
                    except StoreUnavailableError:
                        if clock() + pause > until:
                            raise
                    await anyio.sleep(pause)
                    pause = min(2 * pause, 1.0)
            return False
        finally:
            self._keeper.drop(run.run_id)

    async def cancel(self, key: Key) -> Snapshot | None:
        """Ask the key's running run to stop. Its holder hears of it within a second."""
        seen, run_id = await self._server.call(CANCEL, self._naming.of(key), self._ttl)
        if run_id is not None:
            hold = self._keeper.find(run_id.decode())
            if hold is not None:
                hold.run.request_cancel()
            else:
                await self._announce(run_id)
        return None if seen is None else self._picture(key, seen)

    async def _announce(self, run_id: bytes) -> None:
        try:
            await self._server.call(ANNOUNCE, [self._naming.cancels], self._lease, run_id)
        except StoreUnavailableError:
            logger.debug("a cancellation was not announced; its holder sees it at the next renewal")

    async def changed(self, key: Key, seen: Snapshot, *, timeout: float, finished: bool) -> Snapshot | None:
        """Look until there is news (see `Store.changed`); at once when a run of this process ends."""
        until, pause = anyio.current_time() + timeout, _FIRST_LOOK
        while True:
            current = await self.read(key)
            over = current is None or current.run_id != seen.run_id or current.status is not Status.RUNNING
            left = until - anyio.current_time()
            if over or left <= 0 or not (finished or (current and current.same_version(seen))):
                return current
            hold = self._keeper.find(seen.run_id)
            with anyio.move_on_after(min(pause, left)):
                await (anyio.sleep_forever() if hold is None else hold.run.finished.wait())
            pause = min(1.5 * pause, PROGRESS_INTERVAL)

    async def list(self, tenant: str) -> list[Snapshot]:
        """Return the snapshots of a tenant's keys."""
        index = self._naming.index(tenant)
        members = [member.decode() for member in await self._server.members(index)]
        found: list[Snapshot] = []
        for start in range(0, len(members), _LISTED_AT_ONCE):
            part = members[start : start + _LISTED_AT_ONCE]
            names = [index, *(f"{index}:{member}" for member in part)]
            seen = await self._server.call(LIST, names, self._ttl)
            found.extend(self._picture(None, record) for record in seen)
        return newest_first(found)

    def _picture(self, key: Key | None, seen: Seen) -> Snapshot:
        try:
            snapshot = picture(seen)
        except msgspec.DecodeError as exc:
            raise self._server.health.failed(exc, away=False) from exc
        if not isinstance(seen, bytes) and seen[5]:
            _log_loss(key or Key(snapshot.job, snapshot.key, ""), str(snapshot.run_id))
        return snapshot


def _log_loss(key: Key, run_id: str) -> None:
    logger.warning("run %s of job %s was lost: its worker has not renewed its lease", run_id, key.path)


def _check_seconds(name: str, value: object) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0.01 <= value < math.inf:  # type: ignore[operator]
        raise ConfigurationError(f"{name}={value!r} must be a number of seconds, at least 0.01")
