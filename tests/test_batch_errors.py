"""map_concurrently when calls, inputs and observers fail."""

from __future__ import annotations

import asyncio
import traceback
from typing import TYPE_CHECKING, Any, Literal

import anyio
import pytest
from anyio.lowlevel import checkpoint

from asynctask.batch import KEPT_TRACEBACKS, map_concurrently
from tests.batch_support import Gauge, agen, double

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.mark.anyio
async def test_the_first_error_cancels_the_rest_and_comes_out_as_itself() -> None:
    """No ExceptionGroup, the very same object, its traceback down to the line that raised, nobody left."""
    error = LookupError("no such product")
    gauge = Gauge()
    cancelled = []

    async def look_up(index: int) -> None:
        with gauge:
            if index == 3:
                raise error
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                cancelled.append(index)
                raise

    with pytest.raises(LookupError) as caught:
        await map_concurrently(look_up, range(100), max_at_once=5)
    assert caught.value is error
    assert error.__context__ is None
    assert "look_up" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert (gauge.calls, gauge.now) == (5, 0)
    assert sorted(cancelled) == [0, 1, 2, 4]


@pytest.mark.anyio
async def test_an_error_while_the_rest_is_cancelled_does_not_replace_the_first() -> None:
    """A call that fails in its clean-up is not the reason why the batch ended."""

    async def call(index: int) -> None:
        if index == 0:
            await checkpoint()
            raise LookupError("first")
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("second")

    with pytest.raises(LookupError, match="first"):
        await map_concurrently(call, range(3))


@pytest.mark.anyio
async def test_an_exception_group_of_the_call_stays_what_it_is() -> None:
    """A group that a call raises is neither unwrapped nor wrapped again."""
    group = ExceptionGroup("two", [ValueError(1), LookupError(2)])

    async def call(index: int) -> None:
        raise group

    with pytest.raises(ExceptionGroup) as caught:
        await map_concurrently(call, [1])
    assert caught.value is group


@pytest.mark.anyio
@pytest.mark.parametrize("on_error", ["raise", "collect"])
@pytest.mark.parametrize("kind", ["generator", "async generator"])
@pytest.mark.parametrize("good", [0, 3, 30])
async def test_what_the_input_raises_ends_the_batch_as_itself(
    on_error: Literal["raise", "collect"], kind: str, good: int
) -> None:
    """An iterator that fails, at once or later, is no outcome of an item: it ends both kinds of batch."""
    error = OSError("the cursor is gone")
    gauge = Gauge()

    def items() -> Iterator[int]:
        yield from range(good)
        raise error

    async def async_items() -> AsyncIterator[int]:
        for item in items():
            yield item

    async def call(index: int) -> None:
        with gauge:
            await checkpoint()

    source = items() if kind == "generator" else async_items()
    with pytest.raises(OSError) as caught:
        await map_concurrently(call, source, max_at_once=5, on_error=on_error)
    assert caught.value is error
    assert gauge.now == 0


@pytest.mark.anyio
@pytest.mark.parametrize("on_error", ["raise", "collect"])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_what_is_no_exception_ends_the_batch_and_not_the_event_loop(
    on_error: Literal["raise", "collect"], error: BaseException
) -> None:
    """`exit()` in one call is raised where the batch was awaited; the loop and everybody else go on."""

    async def call(index: int) -> None:
        await checkpoint()
        if index == 2:
            raise error

    with pytest.raises(type(error)) as caught:
        await map_concurrently(call, range(10), max_at_once=3, on_error=on_error)
    assert caught.value is error
    await checkpoint()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_stray_cancelled_error_is_a_failure_like_others() -> None:
    """A CancelledError that nobody asked for, as from a future somebody cancelled, does not get lost."""

    async def call(index: int) -> int:
        await checkpoint()
        if index == 1:
            raise asyncio.CancelledError("stray")
        return index

    outcomes = await map_concurrently(call, range(3), on_error="collect")
    assert [outcome.ok for outcome in outcomes] == [True, False, True]
    assert isinstance(outcomes[1].error, asyncio.CancelledError)
    with pytest.raises(asyncio.CancelledError, match="stray"):
        await map_concurrently(call, range(3))


@pytest.mark.anyio
async def test_a_stop_iteration_in_a_call_ends_nothing_quietly() -> None:
    """StopIteration and StopAsyncIteration are errors of the call, not the end of the input."""

    def stops(index: int) -> Any:
        raise StopIteration(index)

    async def stops_async(index: int) -> None:
        raise StopAsyncIteration(index)

    outcomes = await map_concurrently(stops, [1, 2], on_error="collect")
    assert [type(outcome.error) for outcome in outcomes] == [StopIteration, StopIteration]
    outcomes = await map_concurrently(stops_async, agen([1, 2]), on_error="collect")
    assert [type(outcome.error) for outcome in outcomes] == [StopAsyncIteration, StopAsyncIteration]
    with pytest.raises(StopAsyncIteration):
        await map_concurrently(stops_async, [1])
    with pytest.raises(RuntimeError):  # what Python makes of it in any coroutine (PEP 479)
        await map_concurrently(stops, [1])


@pytest.mark.anyio
@pytest.mark.parametrize("observer", ["on_progress", "on_latency", "on_failure"])
async def test_an_observer_that_fails_ends_the_batch(observer: str) -> None:
    """A broken callback is a mistake in the program, not a failed item."""

    def broken(*args: object) -> None:
        raise ZeroDivisionError

    async def fails(index: int) -> None:
        raise LookupError

    observers: dict[str, Any] = {observer: broken}
    with pytest.raises(ZeroDivisionError):
        await map_concurrently(fails, range(5), on_error="collect", **observers)


@pytest.mark.anyio
async def test_of_many_failures_only_the_first_keep_their_tracebacks() -> None:
    """A traceback holds every frame of its call: a hundred thousand of them would fill the memory."""

    async def call(index: int) -> None:
        try:
            raise OSError(index)
        except OSError as exc:
            raise LookupError(index) from exc

    outcomes = await map_concurrently(call, range(50), on_error="collect", max_at_once=1)
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    assert len(errors) == 50
    for error in errors:
        kept = error.args[0] < KEPT_TRACEBACKS
        assert error.__cause__ is not None
        assert (error.__traceback__ is not None) is kept
        assert (error.__cause__.__traceback__ is not None) is kept


@pytest.mark.anyio
async def test_an_input_that_fails_to_close_does_not_hide_the_error() -> None:
    """The first error comes out; where there is none before it, the failing clean-up is the first."""

    async def items() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            raise OSError("cannot close the cursor")

    async def fails(index: int) -> None:
        raise LookupError(index)

    with pytest.raises(LookupError):
        await map_concurrently(fails, items(), max_at_once=1)
    with pytest.raises(OSError, match="cannot close the cursor"):
        await map_concurrently(double, items(), max_at_once=1)


@pytest.mark.anyio
async def test_a_group_of_errors_loses_the_tracebacks_of_its_leaves_too() -> None:
    """What a stripped failure leads to holds no frames either."""

    async def call(index: int) -> None:
        try:
            raise ValueError(index)
        except ValueError as exc:
            leaf = exc
        raise ExceptionGroup("several", [leaf])

    outcomes = await map_concurrently(call, range(KEPT_TRACEBACKS + 1), on_error="collect", max_at_once=1)
    first, last = outcomes[0].error, outcomes[-1].error
    assert isinstance(first, ExceptionGroup)
    assert first.exceptions[0].__traceback__ is not None
    assert isinstance(last, ExceptionGroup)
    assert last.exceptions[0].__traceback__ is None
