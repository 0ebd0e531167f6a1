"""The usual mistakes in calling map_concurrently are explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest

from asynctask.batch import map_concurrently
from asynctask.errors import ConfigurationError
from tests.batch_support import agen, double

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.anyio
@pytest.mark.parametrize("bad", [0, -1, True, False, 2.5, float("nan"), "20", None])
async def test_a_bound_that_cannot_work_is_refused(bad: Any) -> None:
    """Zero slots would wait for ever, and half a slot is nothing: the message says what is wanted."""
    with pytest.raises(ConfigurationError, match=r"max_at_once must be a whole number of at least 1, got"):
        await map_concurrently(double, [1], max_at_once=bad)


@pytest.mark.anyio
async def test_an_unknown_on_error_is_refused() -> None:
    """A typo must not choose one of the two behaviours quietly."""
    with pytest.raises(ConfigurationError, match='on_error must be "raise" or "collect", not \'ignore\''):
        await map_concurrently(double, [1], on_error="ignore")  # type: ignore[call-overload]


def blocking(n: int) -> int:
    """Not async, as a person's first try may be."""
    return n


@pytest.mark.anyio
@pytest.mark.parametrize("on_error", ["raise", "collect"])
@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (
            blocking,
            r"fn must be async: blocking returned str.*`async def blocking`.*anyio.to_thread.run_sync",
        ),
        (print, r"fn must be async: print returned NoneType, which cannot be awaited"),
        (agen, r"fn must be async: agen returned async_generator, which cannot be awaited"),
        (5, r"fn must be an async function of one item, got 5"),
        (None, r"fn must be an async function of one item, got None"),
    ],
)
async def test_a_function_that_cannot_work_is_explained(
    fn: Any, message: str, on_error: Literal["raise", "collect"]
) -> None:
    """The usual mistakes with `fn` are named with their fix, in both modes: no item is to blame."""
    with pytest.raises(ConfigurationError, match=message):
        await map_concurrently(fn, ["item"], on_error=on_error)


@pytest.mark.anyio
async def test_a_coroutine_instead_of_a_function_is_explained() -> None:
    """`map_concurrently(double(1), …)`: the message says what to pass, and nothing stays un-awaited."""
    fn: Any = double(1)
    with pytest.raises(
        ConfigurationError, match=r"got the coroutine double\(\.\.\.\): pass the function itself"
    ):
        await map_concurrently(fn, [1])


async def load() -> list[int]:
    """A coroutine function that somebody forgot to await."""
    return []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: 5, r"items must be iterable, got 5: pass a list, a generator or an async generator"),
        (lambda: None, r"items must be iterable, got None"),
        (load, r"items must be iterable, got the coroutine load\(\.\.\.\): await it first"),
        (lambda: agen, r"it is a generator function: call it, agen\(\)"),
    ],
)
async def test_input_that_is_none_is_explained(make: Callable[[], Any], message: str) -> None:
    """The usual mistakes with `items` are named with their fix."""
    with pytest.raises(ConfigurationError, match=message):
        await map_concurrently(double, make())
