"""stream_concurrently: outcomes as they finish, in bounded memory, and nothing left when it is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from asynctask.batch import stream_concurrently
from asynctask.errors import ConfigurationError
from tests.batch_support import BACKENDS, SOURCES, Gauge, at_once, double, plans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.mark.parametrize("backend", BACKENDS)
@given(
    plan=plans,
    max_at_once=st.integers(1, 12),
    source=st.sampled_from(sorted(SOURCES)),
    reader=st.integers(0, 2),
)
@settings(max_examples=60, deadline=None)
def test_every_item_has_its_outcome_exactly_once(
    backend: str, plan: list[tuple[int, bool]], max_at_once: int, source: str, reader: int
) -> None:
    """Whatever the calls await, and however slow the reader is: each outcome once, the bound kept."""
    gauge = Gauge()
    progress: list[tuple[int, int]] = []

    async def call(index: int) -> int:
        with gauge:
            for _ in range(plan[index][0]):
                await checkpoint()
            if plan[index][1]:
                raise LookupError(index)
            return index

    async def main() -> list[tuple[int, bool]]:
        items = SOURCES[source](list(range(len(plan))))
        found = []
        async with stream_concurrently(
            call, items, max_at_once=max_at_once, on_progress=lambda n, failed: progress.append((n, failed))
        ) as outcomes:
            async for outcome in outcomes:
                assert outcome.item == outcome.index
                found.append((outcome.index, outcome.ok))
                for _ in range(reader):
                    await checkpoint()
        return found

    found = anyio.run(main, backend=backend)
    assert sorted(found) == [(index, not fails) for index, (_, fails) in enumerate(plan)]
    assert gauge.peak <= max_at_once
    assert sorted(progress) == sorted((1, int(fails)) for _, fails in plan)


@pytest.mark.anyio
async def test_outcomes_come_as_they_finish() -> None:
    """The quick ones are not held back by a slow one before them."""
    release = anyio.Event()

    async def call(index: int) -> int:
        if index == 0:
            await release.wait()
        return index

    order = []
    async with stream_concurrently(call, range(4), max_at_once=2) as outcomes:
        async for outcome in outcomes:
            order.append(outcome.index)
            if len(order) == 3:
                release.set()
    assert order == [1, 2, 3, 0]


@pytest.mark.anyio
@pytest.mark.parametrize("call", [double, at_once])
async def test_a_reader_that_takes_nothing_stops_the_input(call: Callable[[int], Any]) -> None:
    """Memory is bounded: what waits to be read keeps further items from being pulled."""
    pulled = 0

    def items() -> Iterator[int]:
        nonlocal pulled
        for index in range(10_000):
            pulled = index + 1
            yield index

    read = 0
    async with stream_concurrently(call, items(), max_at_once=5) as outcomes:
        async for _ in outcomes:
            read += 1
            for _ in range(50):
                await checkpoint()
            assert pulled <= read + 2 * 5
            if read == 20:
                break


@pytest.mark.anyio
async def test_leaving_the_block_cancels_what_is_under_way() -> None:
    """After a `break` no call is left and no further item is pulled."""
    gauge = Gauge()

    async def call(index: int) -> None:
        with gauge:
            if index:
                await anyio.sleep_forever()

    before = len(anyio.get_running_tasks())
    async with stream_concurrently(call, range(100), max_at_once=5) as outcomes:
        async for outcome in outcomes:
            assert outcome.index == 0
            break
    assert gauge.now == 0
    assert gauge.calls <= 6
    assert len(anyio.get_running_tasks()) == before


@pytest.mark.anyio
async def test_what_the_block_raises_comes_out_as_itself() -> None:
    """The task group inside wraps nothing into an ExceptionGroup, and the calls are cancelled."""
    gauge = Gauge()
    error = ValueError("enough")

    async def call(index: int) -> None:
        with gauge:
            if index:
                await anyio.sleep_forever()

    with pytest.raises(ValueError) as caught:
        async with stream_concurrently(call, range(100), max_at_once=5) as outcomes:
            async for _ in outcomes:
                raise error
    assert caught.value is error
    assert gauge.now == 0


@pytest.mark.anyio
@pytest.mark.parametrize("error", [OSError("the cursor is gone"), SystemExit(1)])
async def test_what_the_input_raises_comes_out_of_the_iteration(error: BaseException) -> None:
    """It is raised where the next outcome was asked for, as itself, once."""

    def items() -> Iterator[int]:
        yield 1
        raise error

    asked = False
    async with stream_concurrently(double, items(), max_at_once=3) as outcomes:
        with pytest.raises(type(error)) as caught:
            async for _ in outcomes:
                pass
        asked = True
    assert caught.value is error
    assert asked


@pytest.mark.anyio
async def test_an_error_that_nobody_asked_for_comes_out_of_the_block() -> None:
    """Where the block ends without reading on, what stopped the batch is still not lost."""

    async def call(index: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        async with stream_concurrently(call, [1]):
            for _ in range(20):
                await checkpoint()


@pytest.mark.anyio
async def test_mistakes_are_told_before_the_block_is_entered() -> None:
    """The arguments are checked by the call, and a stream that is never entered leaves nothing open."""
    with pytest.raises(ConfigurationError, match="max_at_once"):
        stream_concurrently(double, [1], max_at_once=0)
    with pytest.raises(ConfigurationError, match="items must be iterable"):
        stream_concurrently(double, 5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="fn must be"):
        stream_concurrently(5, [1])  # type: ignore[arg-type]
    stream_concurrently(double, [1])


@pytest.mark.anyio
async def test_a_function_that_is_not_async_is_explained() -> None:
    """A function that returns no awaitable ends the stream: it is no failure of an item."""
    fn: Any = len
    with pytest.raises(ConfigurationError, match="fn must be async: len returned int"):
        async with stream_concurrently(fn, ["a"]) as outcomes:
            async for _ in outcomes:
                pass
