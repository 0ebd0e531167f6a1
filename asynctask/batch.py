"""Call an async function on many items, a bounded number at once. Knows nothing of HTTP, jobs or runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

import anyio
import msgspec

from asynctask.errors import ConfigurationError
from asynctask.workers import Batch

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from anyio.streams.memory import MemoryObjectReceiveStream

    from asynctask.items import Items

T = TypeVar("T")
R = TypeVar("R")

KEPT_TRACEBACKS = 10
"""So many failures of a collected batch keep their traceback. Each holds every frame of the call with its
variables, some 10 KB for an HTTP request: 100,000 failures would hold a gigabyte."""


class Outcome(msgspec.Struct, Generic[R], frozen=True):
    """What became of one item: a value, or the error that the call raised.

    Attributes:
        index: the item's place in the input, from 0.
        item: the item itself.
        value: what the call returned; None when it failed.
        error: what the call raised; None when it succeeded.
    """

    index: int
    item: Any
    value: R | None = None
    error: BaseException | None = None

    @property
    def ok(self) -> bool:
        """Whether the call returned."""
        return self.error is None


@overload
async def map_concurrently(
    fn: Callable[[T], Awaitable[R]],
    items: Items[T],
    *,
    max_at_once: int = 20,
    on_progress: Callable[[int, int], object] | None = None,
    on_error: Literal["raise"] = "raise",
    on_latency: Callable[[float], object] | None = None,
    on_failure: Callable[[BaseException], object] | None = None,
) -> list[R]: ...
@overload
async def map_concurrently(
    fn: Callable[[T], Awaitable[R]],
    items: Items[T],
    *,
    max_at_once: int = 20,
    on_progress: Callable[[int, int], object] | None = None,
    on_error: Literal["collect"],
    on_latency: Callable[[float], object] | None = None,
    on_failure: Callable[[BaseException], object] | None = None,
) -> list[Outcome[R]]: ...
@overload
async def map_concurrently(
    fn: Callable[[T], Awaitable[R]],
    items: Items[T],
    *,
    max_at_once: int = 20,
    on_progress: Callable[[int, int], object] | None = None,
    on_error: Literal["raise", "collect"],
    on_latency: Callable[[float], object] | None = None,
    on_failure: Callable[[BaseException], object] | None = None,
) -> list[R] | list[Outcome[R]]: ...
async def map_concurrently(
    fn: Callable[[T], Awaitable[R]],
    items: Items[T],
    *,
    max_at_once: int = 20,
    on_progress: Callable[[int, int], object] | None = None,
    on_error: Literal["raise", "collect"] = "raise",
    on_latency: Callable[[float], object] | None = None,
    on_failure: Callable[[BaseException], object] | None = None,
) -> list[R] | list[Outcome[R]]:
    """Call `fn` on every item, at most `max_at_once` calls at a time, and wait for all of them.

    Args:
        fn: an async function of one item.
        items: any iterable or async iterable, pulled only as slots free up. An async generator is closed
            when the batch ends before it does.
        max_at_once: how many calls may be under way at the same time.
        on_progress: called as `on_progress(1, failed)` for each call that is over, `failed` being 0 or 1.
        on_error: `"raise"` cancels the other calls at the first error and raises it as itself;
            `"collect"` goes on to the end. What is not an `Exception` (SystemExit, KeyboardInterrupt), and
            what the iterable or an observer raises, ends the batch either way.
        on_latency: called with the seconds that each call took.
        on_failure: called with what each failed call raised.

    Returns:
        The results in the order of the items; with `"collect"` an `Outcome` for each item, the first
        10 failures with their tracebacks.

    Raises:
        ConfigurationError: an argument that cannot work, or an `fn` that is not async.
    """
    if on_error not in ("raise", "collect"):
        raise ConfigurationError(f'on_error must be "raise" or "collect", not {on_error!r}')
    collect = on_error == "collect"
    results: list[Any] = []
    tracebacks = KEPT_TRACEBACKS

    async def place(index: int, item: T, value: R | None, error: BaseException | None) -> None:
        nonlocal tracebacks
        if error is not None:
            if not collect:
                raise error
            tracebacks -= 1
            if tracebacks < 0:
                _strip(error)
        # Items are pulled in order, so a result that comes early finds the places before it taken or empty.
        while len(results) <= index:
            results.append(None)
        results[index] = Outcome(index, item, value, error) if collect else value

    batch = Batch(fn, items, max_at_once, on_progress, on_latency, on_failure)
    await batch.run(place)
    batch.raise_error()
    return results


def stream_concurrently(
    fn: Callable[[T], Awaitable[R]],
    items: Items[T],
    *,
    max_at_once: int = 20,
    on_progress: Callable[[int, int], object] | None = None,
    on_latency: Callable[[float], object] | None = None,
    on_failure: Callable[[BaseException], object] | None = None,
) -> AbstractAsyncContextManager[AsyncIterator[Outcome[R]]]:
    """Call `fn` on every item as `map_concurrently` does, and hand out each outcome as soon as it is there.

        async with stream_concurrently(fetch, urls, max_at_once=100) as outcomes:
            async for outcome in outcomes:
                ...

    Memory stays bounded: when `max_at_once` outcomes wait to be taken, no further items are pulled. Leaving
    the block cancels what is under way.
    It is a context manager rather than an async generator, because a generator that is left half-way would
    leave its task group open until somebody collects it (PEP 789).

    Args:
        fn, items, max_at_once, on_progress, on_latency, on_failure: as for `map_concurrently`.

    Returns:
        An async context manager; its value is an async iterator of outcomes in the order they finish.

    Raises:
        ConfigurationError: an argument that cannot work. What the iterable raises comes out of the
            iteration, as itself; what the block raises comes out of the block, as itself.
    """
    batch = Batch(fn, items, max_at_once, on_progress, on_latency, on_failure)

    @asynccontextmanager
    async def streaming() -> AsyncIterator[AsyncIterator[Outcome[R]]]:
        send, receive = anyio.create_memory_object_stream[Outcome[R]](batch.max_at_once)

        async def hand_out(index: int, item: T, value: R | None, error: BaseException | None) -> None:
            outcome = Outcome(index, item, value, error)
            try:
                send.send_nowait(outcome)
            except anyio.WouldBlock:
                await send.send(outcome)

        async def produce() -> None:
            with send:
                await batch.run(hand_out)

        raised: BaseException | None = None
        with send, receive:
            async with anyio.create_task_group() as group:
                group.start_soon(produce)
                try:
                    yield _Outcomes(receive, batch)
                except BaseException as exc:
                    raised = exc  # the task group would wrap it into an ExceptionGroup
                group.cancel_scope.cancel()
        if raised is not None:
            try:
                raise raised
            finally:
                del raised  # or the traceback and this frame would hold each other
        batch.raise_error()

    return streaming()


class _Outcomes(AsyncIterator[Outcome[R]]):
    """What a stream hands out; after the last outcome, what stopped the batch."""

    def __init__(self, outcomes: MemoryObjectReceiveStream[Outcome[R]], batch: Batch[Any, R]) -> None:
        self._outcomes = outcomes
        self._batch = batch

    async def __anext__(self) -> Outcome[R]:
        try:
            try:
                return self._outcomes.receive_nowait()
            except anyio.WouldBlock:
                return await self._outcomes.receive()
        except anyio.EndOfStream:
            self._batch.raise_error()
            raise StopAsyncIteration from None


def _strip(error: BaseException) -> None:
    """Drop the tracebacks of an error and of all that led to it."""
    todo: list[BaseException | None] = [error]
    seen: set[int] = set()
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = None
        todo += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            todo += one.exceptions
