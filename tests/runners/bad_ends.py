"""Bodies that end badly, and how their runs must end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Never

import anyio

from asynctask import JobError, Run, Status


class Unspeakable(Exception):
    """Its text raises."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


class Untouchable(BaseExceptionGroup[ValueError]):
    """A group that raises when it is looked into."""

    @property
    def exceptions(self) -> Never:
        raise SystemExit


class Quota(JobError):
    """A JobError that never called the constructor of its base."""

    def __init__(self) -> None:
        pass

    def __str__(self) -> str:
        return "over quota"


class Unprintable:
    """Neither text nor anything that can be one."""

    def __str__(self) -> str:
        raise ValueError


def raising(error: BaseException | type[BaseException]) -> Callable[[Run], Awaitable[None]]:
    """A body that raises after its first await."""

    async def body(run: Run) -> None:
        await anyio.sleep(0)
        raise error

    return body


async def not_awaited(run: Run) -> None:
    """Raises before its first await."""
    raise ValueError("at once")


async def opens_a_scope(run: Run) -> str:
    """Enters a cancel scope and never leaves it."""
    anyio.CancelScope().__enter__()
    await anyio.sleep(0)
    return "done"


async def opens_a_scope_and_raises(run: Run) -> None:
    """The same, and the error must not be hidden by what follows from the scope."""
    anyio.CancelScope().__enter__()
    raise ValueError("bad row")


async def cancels_a_scope_it_left_open(run: Run) -> str:
    """The same, with a cancellation that is under way."""
    scope = anyio.CancelScope()
    scope.__enter__()
    scope.cancel()
    return "done"


async def opens_a_task_group(run: Run) -> str:
    """Enters a task group, with a task in it, and never leaves it."""
    group = anyio.create_task_group()
    await group.__aenter__()
    group.start_soon(anyio.sleep_forever)
    return "done"


BROKEN_OFF: list[AsyncGenerator[int, None]] = []


async def limited() -> AsyncGenerator[int, None]:
    """An async generator as libraries have them: with a time limit around its yield."""
    with anyio.move_on_after(60):
        yield 1
        yield 2


async def breaks_off_a_generator(run: Run) -> str:
    """PEP 789: `break` leaves the generator suspended within its scope."""
    numbers = limited()
    BROKEN_OFF.append(numbers)
    async for _ in numbers:
        break
    return "done"


async def cancels_its_task(run: Run) -> str:
    """Cancels the task that it runs in, by asyncio's own means, and returns before that arrives."""
    asyncio.current_task().cancel()  # type: ignore[union-attr]
    return "done"


async def cancels_its_task_often(run: Run) -> str:
    """Again and again, swallowing each."""
    for _ in range(3):
        asyncio.current_task().cancel()  # type: ignore[union-attr]
        with suppress(BaseException):
            await anyio.sleep(0)
    return "done"


ASYNCIO_ONLY = {"its task", "its task, often", "stray, awaited"}


async def stray_awaited(run: Run) -> None:
    """Awaits something that somebody else cancelled."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


Case = tuple[Callable[[Run], Awaitable[Any]], Status, str | None, str]


BAD_ENDS: dict[str, Case] = {
    # name: body, status, error message (None for any), error code or result
    "at once": (not_awaited, Status.FAILED, "at once", "error"),
    "exception": (raising(ValueError("bad row")), Status.FAILED, "bad row", "error"),
    "no text": (raising(ValueError), Status.FAILED, "ValueError", "error"),
    "text raises": (raising(Unspeakable()), Status.FAILED, "Unspeakable", "error"),
    "exit()": (raising(SystemExit(3)), Status.FAILED, "3", "error"),
    "Ctrl-C": (raising(KeyboardInterrupt), Status.FAILED, "KeyboardInterrupt", "error"),
    "GeneratorExit": (raising(GeneratorExit), Status.FAILED, "GeneratorExit", "error"),
    "StopIteration": (raising(StopIteration), Status.FAILED, None, "error"),
    "StopAsyncIteration": (raising(StopAsyncIteration), Status.FAILED, "StopAsyncIteration", "error"),
    "stray": (raising(asyncio.CancelledError), Status.FAILED, "CancelledError", "error"),
    "stray, awaited": (stray_awaited, Status.FAILED, "CancelledError", "error"),
    "group": (
        raising(BaseExceptionGroup("x", [SystemExit(3), ValueError("bad row")])),
        *(Status.FAILED, "2 errors: SystemExit: 3; ValueError: bad row", "error"),
    ),
    "group that raises": (raising(Untouchable("x", [ValueError()])), Status.FAILED, None, "error"),
    "JobError": (raising(JobError("no credit", code="credit")), Status.FAILED, "no credit", "credit"),
    "JobError without base": (raising(Quota()), Status.FAILED, "over quota", "error"),
    "JobError in a group": (
        raising(ExceptionGroup("x", [ExceptionGroup("y", [JobError("no credit", code="credit")])])),
        *(Status.FAILED, "no credit", "credit"),
    ),
    "code that raises": (
        raising(JobError("no credit", code=Unprintable())),  # type: ignore[arg-type]
        *(Status.FAILED, "no credit", "error"),
    ),
    "scope": (opens_a_scope, Status.SUCCESS, None, "done"),
    "scope and error": (opens_a_scope_and_raises, Status.FAILED, "bad row", "error"),
    "cancelled scope": (cancels_a_scope_it_left_open, Status.SUCCESS, None, "done"),
    "task group": (opens_a_task_group, Status.SUCCESS, None, "done"),
    "generator": (breaks_off_a_generator, Status.SUCCESS, None, "done"),
    "its task": (cancels_its_task, Status.SUCCESS, None, "done"),
    "its task, often": (cancels_its_task_often, Status.SUCCESS, None, "done"),
}
