"""Snapshots: the immutable pictures of a run that pollers see.

Rules of the state machine:

- A key is IDLE until a run is claimed for it, and again once its finished run has expired.
- RUNNING ends exactly once, as SUCCESS or FAILED; a terminal snapshot never changes.
- A new run of the same key starts from IDLE or from a terminal status, never from RUNNING.
- A cancelled, interrupted, lost or overdue run is FAILED; `error_code` says which.

This module is pure: no I/O and no clock of its own.
"""

from __future__ import annotations

import datetime
import enum
import functools
from typing import Any, Final

import msgspec


class Status(enum.StrEnum):
    """The four statuses of a key."""

    IDLE = "IDLE"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"

    @property
    def terminal(self) -> bool:
        """Whether a run with this status is over."""
        return self in TERMINAL


TERMINAL: Final = frozenset({Status.SUCCESS, Status.FAILED})

TRANSITIONS: Final = {
    Status.IDLE: frozenset({Status.RUNNING}),
    Status.RUNNING: TERMINAL,
    Status.SUCCESS: frozenset({Status.IDLE, Status.RUNNING}),
    Status.FAILED: frozenset({Status.IDLE, Status.RUNNING}),
}
"""From each status of a key, the statuses that may follow."""


class Code(enum.StrEnum):
    """Why a run FAILED, as `error_code`. A `JobError` may bring a code of its own."""

    ERROR = "error"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    TIMEOUT = "timeout"
    WORKER_LOST = "worker_lost"


MESSAGES: Final = {
    Code.CANCELLED: "The run was cancelled.",
    Code.INTERRUPTED: "The server shut down before the run finished.",
    Code.WORKER_LOST: "The worker that ran this job was lost.",
}
"""What `error_message` says of a run that was stopped from outside."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One consistent picture of a key's current run; camelCase on the wire.

    `version` grows with every visible change of a run, and nothing changes without it. Times are RFC 3339
    texts in UTC with milliseconds; they are for display, durations come from a monotonic clock.
    """

    job: str
    """The job's path as registered."""
    key: str
    """The path with its parameters filled in."""
    status: Status
    run_id: str | None = None
    """128 random bits in hexadecimal; None while IDLE."""
    version: int = 0
    started: bool | msgspec.UnsetType = msgspec.UNSET
    """In a trigger's answer: True if it started this run, False if it joined one. Absent elsewhere."""
    processed: int = 0
    total: int | None = None
    """How many items there are; None while that is not known."""
    percent: int | None = None
    """0 to 100, floored; None while `total` is. At most 99 before SUCCESS; never falls within a run."""
    succeeded: int = 0
    failed: int = 0
    message: str | None = None
    """What the job says it is doing."""
    result: Any = None
    """At SUCCESS, the summary the job returned, made JSON-safe and bounded in bytes."""
    error_message: str | None = None
    error_code: str | None = None
    error_id: str | None = None
    """Stands beside the traceback in the log."""
    cancel_requested: bool = False
    started_at: str | None = None
    updated_at: str | None = None
    finished_at: str | None = None
    duration_ms: int | None = None
    """From start to finish; None before."""
    poll_after_ms: int | None = None
    """When looking again is worth while, in milliseconds; None unless RUNNING."""

    @property
    def etag(self) -> str:
        """The entity tag (RFC 9110, section 8.8.3), quotes included."""
        return f'"{self.run_id or "idle"}.{self.version}"'

    def joined(self) -> Snapshot:
        """Return this picture as the answer to a trigger that joined the run."""
        return msgspec.structs.replace(self, started=False)

    def same_version(self, other: Snapshot) -> bool:
        """Whether both are the same picture of the same run."""
        return self.run_id == other.run_id and self.version == other.version


def idle(job: str, key: str) -> Snapshot:
    """Return the snapshot of a key that has no run; it is made on demand and never stored."""
    return Snapshot(job=job, key=key, status=Status.IDLE)


encode: Final = msgspec.json.Encoder().encode
"""Encode a snapshot (or any of its values) as JSON bytes."""

decode: Final = msgspec.json.Decoder(Snapshot).decode
"""Decode a snapshot from the bytes that `encode` gave."""


def timestamp(seconds: float) -> str:
    """Format seconds since the epoch as RFC 3339 in UTC with milliseconds."""
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    return f"{_whole_second(whole)}.{milliseconds:03d}Z"


@functools.lru_cache(maxsize=16)
def _whole_second(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")


def percent(status: Status, processed: int, total: int | None, floor: int = 0) -> int | None:
    """Return the percentage to show, or None where it is not known.

    Args:
        status: 100 is for SUCCESS alone.
        processed: items done; may exceed `total` where the job miscounted.
        total: items there are.
        floor: the percentage shown before, which the new one must not fall below.
    """
    if total is None:
        return None
    if status is Status.SUCCESS:
        return 100
    if total <= 0:
        return floor or None
    return max(floor, min(99, processed * 100 // total))


def poll_after_ms(elapsed: float, processed: int, total: int | None) -> int:
    """Say after how many milliseconds looking again is worth while (issue: within 250 ms and 5 s).

    A tenth of what remains at the rate seen so far, so that a bar moves about ten more times; sooner when
    the end is nearer than that. Without a rate, longer the longer the run has taken.

    Args:
        elapsed: since the run's start, in seconds, at its latest change.
        processed: items done by then.
        total: items there are, if known.
    """
    if total and processed > 0 and elapsed > 0:
        remaining = max(0.0, (total - processed) * elapsed / processed)
        seconds = min(max(remaining / 10, 0.5), remaining)
        return int(1000 * min(max(seconds, 0.25), 5.0))
    return int(1000 * min(max(elapsed / 20, 1.0), 5.0))
