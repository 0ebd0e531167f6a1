"""The runner protocol: where a job's coroutine runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Protocol, Self

from asynctask.run import Run

Execute = Callable[[Run], Awaitable[None]]
"""Carries a claimed run to its end; see `asynctask.runners.execute`."""


class Runner(Protocol):
    """Gets claimed runs executed.

    A runner is an async context manager that lives as long as the application. It promises only that
    `execute` is called for each run it accepted; the store keeps status, progress and the fence.
    """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> bool | None: ...

    def check(self) -> None:
        """Raise `NotStartedError` or `ShuttingDownError` when no run can be accepted now."""
        ...

    def start(self, run: Run, execute: Execute) -> None:
        """Accept a run and return at once; raises like `check` if it cannot."""
        ...

    async def drain(self, grace: float) -> None:
        """Accept no more runs, wait up to `grace` seconds for those under way, then interrupt the rest."""
        ...
