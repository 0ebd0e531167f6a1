"""Hold: a run that this process holds, and until when it may believe so."""

from __future__ import annotations

import logging
import time
from typing import Any

from asynctask.run import Run
from asynctask.snapshot import Code, Snapshot, encode
from asynctask.stores.base import PROGRESS_INTERVAL
from asynctask.stores.redis.connection import Call
from asynctask.stores.redis.record import Names
from asynctask.stores.redis.scripts import RENEW

MARGIN = 0.05
"""By which part of the lease its holder stops believing in it before the server does."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """Return seconds by a clock that never jumps, and that goes on while the machine is suspended."""
    return time.clock_gettime(_CLOCK)


class Hold:
    """A run that this process holds.

    The deadline is counted from before the last confirmed renewal was *sent*, and is a little shorter than
    what the server counts from when it *came*. So the holder stops believing in its lease before anybody
    else may.

    Args:
        run: the run.
        names: of its record.
        seconds: how long a lease lasts.
        ttl: how long the record of a lost run is kept, in milliseconds.
        sent: when its claim was sent, by `clock`.
        lease: until when the server believes in the lease, in milliseconds by the server's clock.
    """

    def __init__(self, run: Run, names: Names, *, seconds: float, ttl: int, sent: float, lease: int) -> None:
        self.run = run
        self.lost: bool = False
        self.deadline: float = 0.0
        self.lease: int = lease
        self.bump: int = 0
        """What others changed in the record, as far as this process knows (see `scripts`)."""
        self._names = names
        self._seconds = seconds
        self._ttl = ttl
        self._published = 1
        self._publish_at = self._renew_at = 0.0
        self._confirm(sent)
        self._progress = 0, sent
        self._stuck = False

    def due(self, now: float, progress_deadline: float | None) -> Snapshot | None:
        """Return what to publish now, or None: at most four times a second, at least three times a lease.

        Args:
            now: by `clock`.
            progress_deadline: seconds without progress after which nothing is due any more; None for never.
        """
        snapshot = self.run.snapshot()
        if self.lost or now >= self.deadline or snapshot.status.terminal:
            return None  # too late, or settling is under way
        version, since = self._progress
        if snapshot.version != version:
            self._progress, self._stuck = (snapshot.version, now), False
        elif progress_deadline is not None and now - since > progress_deadline:
            if not self._stuck:
                self._stuck = True
                self._warn(f"has made no progress for {progress_deadline:g} s, so its lease is not renewed")
            return None
        progressed = snapshot.version != self._published and now >= self._publish_at
        return snapshot if progressed or now >= self._renew_at else None

    def renewal(self, snapshot: Snapshot) -> Call:
        """Return the call that publishes a snapshot and renews the lease."""
        names, run = self._names, self.run
        length = int(1000 * self._seconds)
        return Call(
            RENEW,
            names,
            (
                self._ttl,
                run.run_id,
                length,
                snapshot.version,
                encode(snapshot),
                self.lease,
                self.bump,
            ),
        )

    def renewed(self, snapshot: Snapshot, answer: int | list[Any], sent: float) -> tuple[bool, bool]:
        """Take the answer to a renewal in.

        Args:
            snapshot: what was published.
            answer: what the script gave.
            sent: when it was sent, by `clock`.

        Returns:
            Whether the run is held still, and whether somebody wants it cancelled.
        """
        if answer == 0:
            # A run that was settled meanwhile is no longer to be held, but not lost.
            return self.run.snapshot().status.terminal, False
        cancel = None
        if isinstance(answer, int):
            self.lease = answer
        else:
            self.lease, self.bump, cancel, forgotten = answer
            if forgotten:
                self._warn("was forgotten by the server; its record was written anew")
        self._confirm(sent)
        self._published = snapshot.version
        self._publish_at = sent + PROGRESS_INTERVAL
        return True, cancel is not None

    def lose(self, why: str) -> None:
        """Stop the run, which others may hold by now. In the event loop only."""
        if not self.lost:
            self.lost = True
            if not self.run.snapshot().status.terminal:
                self._warn(f"has lost its lease, since {why}; it is cancelled, and its outcome is refused")
                self.run.request_cancel(Code.WORKER_LOST)

    def _confirm(self, sent: float) -> None:
        self.deadline = sent + self._seconds * (1 - MARGIN)
        self._renew_at = sent + self._seconds / 3

    def _warn(self, text: str) -> None:
        self.run.log(logging.WARNING, "run %s of job %s %s", self.run.run_id, self.run.key, text)
