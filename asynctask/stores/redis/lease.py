"""The lease: by what the holders of runs prove that they live.

A thread of its own renews the leases of all runs of the process, in one pipeline, together with their
progress. It does not depend on the event loop, so a job that blocks the loop keeps its lease. It renews
every third of the lease, so two renewals may fail before one is lost.

The event loop, where the jobs live, checks the deadlines by itself, also while the thread waits for a
server that does not answer, and cancels what can no longer be believed in.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import anyio.to_thread

from asynctask.context import logger
from asynctask.errors import StoreUnavailableError
from asynctask.run import Run
from asynctask.stores.base import PROGRESS_INTERVAL
from asynctask.stores.redis.connection import Call, Server
from asynctask.stores.redis.hold import Hold, clock
from asynctask.stores.redis.record import Names
from asynctask.stores.redis.scripts import ABANDON, READ_CANCELS

CHUNK = 1000
"""Renewals in one pipeline, so that many are answered in time."""
MAX_ORPHANS = 100
"""How many runs of unknown fate are given up early; the others are lost when their lease ends."""


class Keeper:
    """Keeps the leases of a process.

    Args:
        server: where the records are.
        cancels: the name of the announcements of cancellations.
        lease: how long a lease lasts, in seconds.
        ttl: how long the record of a lost run is kept, in milliseconds.
        progress_deadline: seconds without progress after which a lease is no longer renewed; None for never.
    """

    def __init__(
        self, server: Server, cancels: str, *, lease: float, ttl: int, progress_deadline: float | None
    ) -> None:
        self._server = server
        self._cancels = cancels
        self._lease = lease
        self._ttl = ttl
        self._progress_deadline = progress_deadline
        self._tick = min(PROGRESS_INTERVAL, lease / 8)
        self._holds: dict[str, Hold] = {}
        self._orphans: dict[str, tuple[Names, float]] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None

    # -- in the event loop -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._loop = asyncio.get_running_loop()
        self._stopping.clear()
        self._wake.clear()
        self._thread = threading.Thread(target=self._work, name="asynctask leases", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Stop the thread. What is still held is found lost when its lease ends."""
        self._stopping.set()
        self._wake.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        thread, self._thread = self._thread, None
        if thread is not None:
            await anyio.to_thread.run_sync(thread.join, self._lease)
        with self._lock:
            self._holds.clear()
            self._orphans.clear()

    def add(self, run: Run, names: Names, *, sent: float, lease: int) -> bool:
        """Hold a run from now on; False if its claim took longer than its lease.

        Args:
            run: the run.
            names: of its record.
            sent: when its claim was sent, by `clock`.
            lease: until when the server believes in it, in milliseconds by the server's clock.
        """
        hold = Hold(run, names, seconds=self._lease, ttl=self._ttl, sent=sent, lease=lease)
        if hold.deadline <= clock():
            return False
        with self._lock:
            self._holds[run.run_id] = hold
        if not self._wake.is_set():
            self._wake.set()
        if self._timer is None:
            self._watch()
        return True

    def find(self, run_id: str | None) -> Hold | None:
        """Return what is held of a run, if it is this process that holds it."""
        return None if run_id is None else self._holds.get(run_id)

    def drop(self, run_id: str) -> None:
        """Hold a run no longer."""
        with self._lock:
            self._holds.pop(run_id, None)

    def abandon(self, run_id: str, names: Names) -> None:
        """Give up a run that may have been claimed without our knowing, once the server can be told."""
        with self._lock:
            if len(self._orphans) < MAX_ORPHANS:
                self._orphans[run_id] = names, clock() + self._lease
        self._wake.set()

    def _watch(self) -> None:
        """Cancel what can no longer be believed in; calls itself when the next lease could end."""
        self._timer = None
        now, holds = clock(), self._held()
        for hold in holds:
            if now >= hold.deadline:
                hold.lose("it could not be renewed in time")
        ends = [hold.deadline for hold in holds if not hold.lost]
        if ends and self._loop is not None and not self._stopping.is_set():
            self._timer = self._loop.call_later(max(0.0, min(ends) - clock()) + 0.001, self._watch)

    # -- in the thread -----------------------------------------------------------------------------------

    def _work(self) -> None:
        client: Any = None
        while not self._stopping.is_set():
            if self._holds or self._orphans:
                self._stopping.wait(self._tick)
            else:
                self._wake.wait()
                self._wake.clear()
                continue
            try:
                if client is None:
                    client = self._server.connect_blocking(min(self._server.timeout, self._lease / 3))
                self._beat(client)
            except StoreUnavailableError:
                pass  # it was logged; the deadlines do the rest
            except Exception as exc:  # the thread has to outlive whatever comes
                self._server.health.failed(exc, away=False)
        if client is not None:
            client.close()

    def _beat(self, client: Any) -> None:
        """Send what is due, and learn which runs were cancelled."""
        now = clock()
        due = [(h, s) for h in self._held() if (s := h.due(now, self._progress_deadline)) is not None]
        with self._lock:
            orphans = list(self._orphans.items())
        rest = [Call(READ_CANCELS, [self._cancels], [])]
        rest += [Call(ABANDON, names, [self._ttl, run_id]) for run_id, (names, _) in orphans]
        for start in range(0, max(1, len(due)), CHUNK):
            part, sent = due[start : start + CHUNK], clock()
            calls = [*rest, *(hold.renewal(snapshot) for hold, snapshot in part)]
            answers = self._server.pipeline(client, calls)
            for (hold, snapshot), answer in zip(part, answers[len(rest) :], strict=True):
                if not isinstance(answer, Exception):
                    held, cancel = hold.renewed(snapshot, answer, sent)
                    if not held:
                        self._tell(hold.lose, "others found it expired, or hold its key now")
                    elif cancel:
                        self._tell(hold.run.request_cancel)
            if rest:
                self._learn(answers[: len(rest)], [run_id for run_id, _ in orphans])
                rest = []

    def _learn(self, answers: Sequence[Any], orphans: Sequence[str]) -> None:
        cancelled, *abandoned = answers
        for run_id in cancelled if isinstance(cancelled, list) else ():
            if (hold := self.find(run_id.decode())) is not None:
                self._tell(hold.run.request_cancel)
        with self._lock:
            for run_id, done in zip(orphans, abandoned, strict=True):
                if done == 1 or clock() > self._orphans[run_id][1]:
                    del self._orphans[run_id]

    def _tell(self, what: Callable[..., None], *arguments: object) -> None:
        """Have the event loop do something, without waiting for it: it may be blocked."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(what, *arguments)
        except RuntimeError:
            logger.debug("the event loop ended before its leases")

    def _held(self) -> list[Hold]:
        with self._lock:
            return list(self._holds.values())
