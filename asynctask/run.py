"""Run: one execution of a job, as its body, the runner and the store hold it."""

from __future__ import annotations

import logging
import math
import secrets
import threading
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sized
from time import monotonic
from types import MappingProxyType
from typing import Any, Literal, TypeVar, overload

import anyio

from asynctask.batch import Outcome, map_concurrently
from asynctask.blocking import watched
from asynctask.condition import History
from asynctask.context import log
from asynctask.errors import JobError
from asynctask.keys import Key
from asynctask.messages import describe
from asynctask.progress import MAX_COUNT, Progress
from asynctask.snapshot import TRANSITIONS, Code, Snapshot, Status, percent, poll_after_ms

T = TypeVar("T")
R = TypeVar("R")

MAX_REASONS = 5
"""How many reasons of failed items a summary names."""

_NO_PARAMS: Mapping[str, str] = MappingProxyType({})


class Run(Progress):
    """What a job's body holds: who it runs for, its progress, and whether it should stop.

    Attributes:
        job: the job's path as registered.
        key: the path with its parameters filled in.
        run_id: 128 random bits in hexadecimal.
        tenant: whom the run belongs to.
        payload: what the trigger brought, validated to the job's parameter.
        params: the path parameters.

    The body uses `advance`, `total`, `message`, `cancel_requested` and `map`; the rest is for authors of
    stores and runners.
    """

    __slots__ = (
        "_cancel_code",
        "_latest",
        "_lock",
        "_noted",
        "_reasons",
        "_scope",
        "_shown",
        "_terminal",
        "claim_key",
        "expose_errors",
        "finished",
        "history",
        "job",
        "key",
        "params",
        "payload",
        "run_id",
        "tenant",
    )

    def __init__(
        self,
        claim_key: Key,
        *,
        payload: Any = None,
        params: Mapping[str, str] | None = None,
        history: History | None = None,
        expose_errors: bool = True,
    ) -> None:
        super().__init__()
        self.claim_key: Key = claim_key
        self.job: str = claim_key.job
        self.key: str = claim_key.path
        self.tenant: str = claim_key.tenant
        self.run_id: str = secrets.token_hex(16)
        self.payload: Any = payload
        self.params: Mapping[str, str] = MappingProxyType(dict(params)) if params else _NO_PARAMS
        self.history: History | None = history
        self.expose_errors: bool = expose_errors
        self.finished: anyio.Event = anyio.Event()
        """Set once the run is over and the store knows it."""

        self._reasons: list[str] = []
        self._noted: BaseException | None = None
        self._cancel_code: Code | None = None
        self._scope: anyio.CancelScope | None = None
        self._latest: Snapshot | None = None
        self._shown = 0  # the highest percentage that a picture had
        self._terminal: Snapshot | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Run {self.run_id} of {self.key!r} for tenant {self.tenant!r}: {self.snapshot().status}>"

    # -- for the job's body ------------------------------------------------------------------------------

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody asked the run to stop. The body is cancelled anyway, at its next await."""
        return self._cancel_code is not None

    @overload
    async def map(
        self,
        fn: Callable[[T], Awaitable[R]],
        items: Iterable[T] | AsyncIterable[T],
        *,
        max_at_once: int = 20,
        on_error: Literal["raise"] = "raise",
    ) -> list[R]: ...
    @overload
    async def map(
        self,
        fn: Callable[[T], Awaitable[R]],
        items: Iterable[T] | AsyncIterable[T],
        *,
        max_at_once: int = 20,
        on_error: Literal["collect"],
    ) -> list[Outcome[R]]: ...
    async def map(
        self,
        fn: Callable[[T], Awaitable[R]],
        items: Iterable[T] | AsyncIterable[T],
        *,
        max_at_once: int = 20,
        on_error: Literal["raise", "collect"] = "raise",
    ) -> list[R] | list[Outcome[R]]:
        """Call `fn` on every item, a bounded number at once, and count progress along the way.

        Items with a length are added to `total` as long as the body has not set it itself.

        Args:
            fn: an async function of one item.
            items: any iterable or async iterable; pulled only as slots free up.
            max_at_once: how many calls may be under way at the same time.
            on_error: `"raise"` cancels the rest at the first error and raises it as itself; `"collect"`
                goes on, counts failures in the progress and the first few reasons in the summary.

        Returns:
            The results in the order of the items, or with `"collect"` an `Outcome` for each.
        """
        if self._own_total and isinstance(items, Sized):
            self._set_total((self._total or 0) + len(items))

        return await map_concurrently(
            watched(fn, self) if callable(fn) else fn,  # what is no function is refused under its own name
            items,
            max_at_once=max_at_once,
            on_progress=self._advance_by,
            on_error=on_error,
            on_latency=self.history.record_call if self.history else None,
            on_failure=self._note_item,
        )

    def _advance_by(self, n: int, failed: int) -> None:
        self.advance(n, failed=failed)

    def _note_item(self, exc: BaseException) -> None:
        self.note_error(exc)
        if len(self._reasons) < MAX_REASONS:
            reason = self.explain(exc)
            if reason not in self._reasons:
                self._reasons.append(reason)

    # -- for stores and runners --------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the current picture; the same object until something changes. Safe in any thread."""
        if self._terminal is not None:
            return self._terminal
        with self._lock:
            latest = self._latest
            if latest is None or latest.version != self._version:
                latest = self._latest = self._picture(self._version, Status.RUNNING)
            return self._terminal or latest

    def finish(
        self,
        status: Literal[Status.SUCCESS, Status.FAILED],
        *,
        result: Any = None,
        error_message: str | None = None,
        error_code: str | None = None,
        error_id: str | None = None,
    ) -> Snapshot:
        """Freeze the run in a terminal snapshot. The first call counts; later ones return its snapshot."""
        assert status in TRANSITIONS[Status.RUNNING]
        with self._lock:
            if self._terminal is None:
                self._changed_at = monotonic()
                self._version += 1
                self._next_mark = math.inf
                self._noted = self._scope = None  # whose traceback and task lead back to the run
                self._terminal = self._picture(
                    self._version,
                    status,
                    result=result,
                    error_message=error_message,
                    error_code=None if error_code is None else str(error_code),  # a plain text, no enum
                    error_id=error_id,
                    duration_ms=int(1000 * (self._changed_at - self._started_at)),
                )
            return self._terminal

    def request_cancel(self, code: Code = Code.CANCELLED) -> None:
        """Cancel the body at its next await; the run ends as FAILED with this code. The first call counts."""
        if self._cancel_code is None and self._terminal is None:
            self._cancel_code = code
            self._touch()
            if self._scope is not None:
                self._scope.cancel()

    @property
    def cancel_code(self) -> Code | None:
        """Why the run was asked to stop, if it was."""
        return self._cancel_code

    def bind(self, scope: anyio.CancelScope) -> None:
        """Tell which cancel scope encloses the body, so that `request_cancel` can reach it."""
        self._scope = scope
        if self._cancel_code is not None:
            scope.cancel()

    def note_error(self, exc: BaseException) -> None:
        """Count an exception in the job's history; once, also when an item's error becomes the run's."""
        if self.history is not None and exc is not self._noted:
            self._noted = exc
            self.history.record_error(exc)

    def explain(self, exc: BaseException) -> str:
        """Say what may be shown of an exception: its text, or if errors are hidden, a `JobError`'s only."""
        shown = self.expose_errors or isinstance(exc, JobError)
        return describe(exc) if shown else type(exc).__name__

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why items of `map(…, on_error="collect")` failed: the first few different reasons."""
        return tuple(self._reasons)

    # -- within ------------------------------------------------------------------------------------------

    def _passed_quarter(self) -> None:
        self.log(
            logging.INFO,
            "job %s at %d of %s (%d failed)",
            self.key,
            self._processed,
            self._total,
            self._failed,
        )

    def log(self, level: int, message: str, *args: object, exc_info: BaseException | None = None) -> None:
        """Log with the run's fields; never raises."""
        log(self, level, message, *args, exc_info=exc_info)

    def _picture(self, version: int, status: Status, **ending: Any) -> Snapshot:
        processed, total, changed_at = min(self._processed, MAX_COUNT), self._total, self._changed_at
        failed = min(self._failed, processed)
        shown = percent(status, processed, total, self._shown)
        self._shown = shown or self._shown
        running = status is Status.RUNNING
        started_text = self._started_text
        # Formatting a time costs more than all the rest of a snapshot.
        changed_text = started_text if changed_at == self._started_at else self._display(changed_at)
        return Snapshot(
            job=self.job,
            key=self.key,
            status=status,
            run_id=self.run_id,
            version=version,
            processed=processed,
            total=total,
            percent=shown,
            succeeded=processed - failed,
            failed=failed,
            message=self._message,
            cancel_requested=self.cancel_requested,
            started_at=started_text,
            updated_at=changed_text,
            finished_at=None if running else changed_text,
            poll_after_ms=poll_after_ms(changed_at - self._started_at, processed, total) if running else None,
            **ending,
        )
