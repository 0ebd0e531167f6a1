"""What a batch is given: its items, numbered as they are pulled, and its arguments, checked.

A source is shared by all workers of a batch. It is asked for one item when a worker has a hand free.
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable
from typing import Any, Generic, TypeAlias, TypeVar

import anyio

from asynctask.errors import ConfigurationError

T = TypeVar("T")
R = TypeVar("R")

Items: TypeAlias = Iterable[T] | AsyncIterable[T]


class SyncSource(Generic[T]):
    """Numbers the items of an iterable. Workers cannot overlap in it, for it never awaits."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items = enumerate(items)

    async def pull(self) -> tuple[int, T] | None:
        return next(self._items, None)

    async def aclose(self) -> None:
        pass


class AsyncSource(Generic[T]):
    """Numbers the items of an async iterable, one worker at a time: async generators refuse two at once."""

    def __init__(self, items: AsyncIterable[T]) -> None:
        self._items = aiter(items)
        self._lock = anyio.Lock(fast_acquire=True)
        self._count = 0
        self._over = False

    async def pull(self) -> tuple[int, T] | None:
        async with self._lock:
            if self._over:
                return None
            try:
                item = await anext(self._items)
            except BaseException as exc:
                self._over = True
                if isinstance(exc, StopAsyncIteration):
                    return None
                raise
            self._count += 1
            return self._count - 1, item

    async def aclose(self) -> None:
        # Generators alone: other things with an `aclose`, a stream for instance, are the caller's to close.
        if isinstance(self._items, AsyncGenerator):
            await self._items.aclose()


def source(items: Items[T]) -> SyncSource[T] | AsyncSource[T]:
    if isinstance(items, AsyncIterable):
        return AsyncSource(items)
    try:
        return SyncSource(items)
    except TypeError as exc:
        got = reprlib.repr(items)
        if inspect.iscoroutine(items):
            items.close()  # or Python warns that it was never awaited
            got, fix = f"the coroutine {items.__name__}(...)", "await it first"
        elif inspect.isasyncgenfunction(items) or inspect.isgeneratorfunction(items):
            fix = f"it is a generator function: call it, {items.__name__}()"
        else:
            fix = "pass a list, a generator or an async generator"
        raise ConfigurationError(f"items must be iterable, got {got}: {fix}") from exc


def checked_fn(fn: Callable[[T], Awaitable[R]]) -> Callable[[T], Awaitable[R]]:
    if callable(fn):
        return fn
    if inspect.iscoroutine(fn):
        fn.close()
        raise ConfigurationError(
            f"fn must be an async function of one item, got the coroutine {fn.__name__}(...): pass the "
            f"function itself, {fn.__name__}, and the items beside it"
        )
    raise ConfigurationError(f"fn must be an async function of one item, got {reprlib.repr(fn)}")


def checked_bound(max_at_once: int) -> int:
    if isinstance(max_at_once, bool) or not isinstance(max_at_once, int) or max_at_once < 1:
        raise ConfigurationError(f"max_at_once must be a whole number of at least 1, got {max_at_once!r}")
    return max_at_once


def not_async(fn: Callable[..., Any], returned: object) -> str:
    name = getattr(inspect.unwrap(fn), "__name__", reprlib.repr(fn))
    return (
        f"fn must be async: {name} returned {type(returned).__name__}, which cannot be awaited. Declare it "
        f"`async def {name}`, or, if it blocks, pass an async function that awaits "
        f"`anyio.to_thread.run_sync({name}, item)`"
    )
