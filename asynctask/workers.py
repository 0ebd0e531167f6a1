"""The workers behind a batch.

A fixed number of workers shares one source, so that a million items are never more than `max_at_once`
coroutines, and an item is pulled only when a worker is free for it. A worker lets no exception out: it
leaves it with the batch and stops the others. So what reaches the caller is the error itself and not an
ExceptionGroup, and a SystemExit in one call does not end the event loop.
"""

from __future__ import annotations

import inspect
import math
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from asynctask.errors import ConfigurationError
from asynctask.items import checked_bound, checked_fn, not_async, source

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from asynctask.items import Items

T = TypeVar("T")
R = TypeVar("R")

_NOT_CALLED = object()


class Batch(Generic[T, R]):
    """One batch under way: where items come from, where outcomes go, and what stopped it."""

    def __init__(
        self,
        fn: Callable[[T], Awaitable[R]],
        items: Items[T],
        max_at_once: int,
        on_progress: Callable[[int, int], object] | None,
        on_latency: Callable[[float], object] | None,
        on_failure: Callable[[BaseException], object] | None,
    ) -> None:
        self._fn = checked_fn(fn)
        self._source = source(items)
        self.max_at_once: int = checked_bound(max_at_once)
        self._on_progress = on_progress
        self._on_latency = on_latency
        self._on_failure = on_failure
        self._newest = -1
        self._error: BaseException | None = None

    async def run(self, deliver: Callable[[int, T, R | None, BaseException | None], Awaitable[None]]) -> None:
        """Work through all items, or until something stops the batch; raises nothing but a cancellation.

        Args:
            deliver: takes index, item, value and error of each call that is over; the worker waits for it.
        """
        self._deliver = deliver
        try:
            async with anyio.create_task_group() as self._group:
                try:
                    for _ in range(self.max_at_once):
                        pulled = await self._source.pull()
                        if pulled is None:
                            break
                        self._group.start_soon(self._work, *pulled)
                except BaseException as exc:
                    self._stop(exc)
        finally:
            try:
                await self._source.aclose()
            except BaseException as exc:
                self._stop(exc)

    def raise_error(self) -> None:
        """Raise what stopped the batch, once."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # or the traceback and this frame would hold each other

    async def _work(self, index: int, item: T) -> None:
        try:
            while True:
                self._newest = index
                value, error = await self._call(item)
                await self._deliver(index, item, value, error)
                if self._newest == index:
                    # No other call began meanwhile, so perhaps this one never let go of the event loop.
                    await checkpoint()
                pulled = await self._source.pull()
                if pulled is None:
                    return
                index, item = pulled
        except BaseException as exc:
            self._stop(exc)

    async def _call(self, item: T) -> tuple[R | None, BaseException | None]:
        call: Any = _NOT_CALLED
        value: R | None = None
        error: BaseException | None = None
        started = perf_counter()
        try:
            call = self._fn(item)
            value = await call
        except BaseException as exc:
            if call is not _NOT_CALLED and not inspect.isawaitable(call):
                raise ConfigurationError(not_async(self._fn, call)) from None
            if not isinstance(exc, Exception) and not _is_stray(exc):
                raise
            error = exc
        if self._on_latency is not None:
            self._on_latency(perf_counter() - started)
        if error is not None and self._on_failure is not None:
            self._on_failure(error)
        if self._on_progress is not None:
            self._on_progress(1, 0 if error is None else 1)
        return value, error

    def _stop(self, exc: BaseException) -> None:
        """Keep the first error and cancel the rest; let our own cancellation pass."""
        if isinstance(exc, anyio.get_cancelled_exc_class()) and not _is_stray(exc):
            raise exc
        if self._error is None:
            self._error = exc
        self._group.cancel_scope.cancel()


def _is_stray(exc: BaseException) -> bool:
    """Whether `exc` is a cancellation that nobody around us asked for, as from an awaited future."""
    if not isinstance(exc, anyio.get_cancelled_exc_class()):
        return False
    return anyio.current_effective_deadline() != -math.inf
