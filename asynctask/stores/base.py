"""The store protocol: where snapshots live.

Every store passes the same contract tests (`tests/stores/test_contract.py`).
"""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple, Protocol, Self

from asynctask.keys import Key
from asynctask.run import Run
from asynctask.snapshot import Snapshot


class Claim(NamedTuple):
    """The answer to a claim."""

    snapshot: Snapshot
    """The run that holds the key now."""
    ours: bool
    """Whether that is the run which was offered, so that it must be executed."""


class Store(Protocol):
    """Holds at most one RUNNING run for each key, and finished ones for a while.

    A store is an async context manager that lives as long as the application. Its methods raise
    `StoreUnavailableError` when it cannot be reached, and then have started nothing. `claim` and `settle`
    run to their end also when their caller is cancelled: a store that does I/O in them shields it. A claim
    without a start would block the key, a missing settle leave it RUNNING.
    """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> bool | None: ...

    async def claim(self, run: Run) -> Claim:
        """Atomically start `run` or join the run that is RUNNING for its key.

        Idempotent by run id: repeating a claim whose answer was lost gives the same answer. From a claim
        that is ours until `settle`, the store shows the run's progress and may call `run.request_cancel`.
        """
        ...

    async def read(self, key: Key) -> Snapshot | None:
        """Return the key's current snapshot, or None where there is none; allocates nothing."""
        ...

    def peek(self, key: Key) -> Snapshot | None:
        """Return the key's RUNNING snapshot if it is known without I/O, else None. Makes joining cheap."""
        ...

    async def settle(self, run: Run) -> bool:
        """Replace the run by its terminal snapshot, and say whether that counted.

        Fenced: it counts only if the key is still held by this very run. `run.finish` was called before.
        """
        ...

    async def cancel(self, key: Key) -> Snapshot | None:
        """Ask the key's RUNNING run to stop, wherever it executes; return the key's snapshot after that."""
        ...

    async def changed(self, key: Key, seen: Snapshot, *, timeout: float, finished: bool) -> Snapshot | None:
        """Wait until the key's picture is no longer the one that was `seen`, and return it.

        Args:
            key: whose picture.
            seen: the snapshot that the caller knows.
            timeout: seconds after which the current picture is returned, changed or not.
            finished: True to wait for the end of that run only, False for any new version. A new version
                may be noticed up to `PROGRESS_INTERVAL` late, an end at once or as fast as the store can.
        """
        ...

    async def list(self, tenant: str) -> list[Snapshot]:
        """Return the snapshots of all keys of a tenant, RUNNING ones first, then the newest."""
        ...


PROGRESS_INTERVAL = 0.25
"""How often a waiting poller looks for progress, in seconds: four times a second at most."""


def newest_first(snapshots: list[Snapshot]) -> list[Snapshot]:
    """Sort as `Store.list` promises."""
    snapshots.sort(key=lambda s: s.started_at or "", reverse=True)
    snapshots.sort(key=lambda s: s.status.terminal)
    return snapshots
