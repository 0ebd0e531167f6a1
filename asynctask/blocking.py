"""Naming the job that blocks the event loop.

Each step of a watched coroutine, from one suspension to the next, is timed. A step that takes longer than
`THRESHOLD` kept every other task of the process waiting; the warning names the job and where it stood.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator
from time import perf_counter
from typing import Any, Generic, TypeVar

from asynctask.context import RunFields, log

THRESHOLD = 0.25
"""Longest step that passes without a warning, in seconds."""

T = TypeVar("T")
R = TypeVar("R")


class Watched(Generic[T]):
    """An awaitable that runs a coroutine and warns of steps that block the event loop.

    Args:
        coroutine: what to run.
        run: the run to name in the warning.
    """

    __slots__ = ("_coroutine", "_run")

    def __init__(self, coroutine: Coroutine[Any, Any, T], run: RunFields) -> None:
        self._coroutine = coroutine
        self._run = run

    def __await__(self) -> Generator[Any, Any, T]:
        coroutine = self._coroutine
        resume: Any = coroutine.send
        value: Any = None
        while True:
            began = perf_counter()
            try:
                request = resume(value)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            finally:
                blocked = perf_counter() - began
                if blocked > THRESHOLD:
                    self._warn(blocked)
            try:
                value = yield request
                resume = coroutine.send
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as exc:
                value = exc
                resume = coroutine.throw

    def _warn(self, blocked: float) -> None:
        frame = getattr(self._coroutine, "cr_frame", None)
        place = f", in the step that ended at {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
        log(
            self._run,
            logging.WARNING,
            "job %s blocked the event loop for %.2f s%s: every request waited meanwhile; "
            "await it, or move it to anyio.to_thread.run_sync (run %s)",
            self._run.job,
            blocked,
            place,
            self._run.run_id,
        )


def watched(fn: Callable[[T], Awaitable[R]], run: RunFields) -> Callable[[T], Awaitable[R]]:
    """Return `fn` under its own name, with each of its coroutines watched."""

    @functools.wraps(fn)
    def call(item: T) -> Awaitable[R]:
        made = fn(item)
        return Watched(made, run) if inspect.iscoroutine(made) else made

    return call
