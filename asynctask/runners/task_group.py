"""The runner of one process: children of one anyio task group, for as long as the application lives."""

from __future__ import annotations

from threading import get_ident
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup

from asynctask.errors import ConfigurationError, NotStartedError, ShuttingDownError
from asynctask.run import Run
from asynctask.runners.base import Execute
from asynctask.snapshot import Code

RETRY_AFTER = 5
"""What a refused client is told to wait, in seconds: about as long as a restart takes."""


class TaskGroupRunner:
    """Runs jobs as children of a task group, on asyncio or trio.

    Children are started with `start_soon`, which copies the caller's context; the caller's cancel scope does
    not reach them.
    """

    def __init__(self) -> None:
        self._group: TaskGroup | None = None
        self._runs: dict[str, Run] = {}
        self._idle: anyio.Event | None = None
        self._closing = False
        self._thread = 0

    async def __aenter__(self) -> Self:
        if self._group is not None:
            raise ConfigurationError(
                "this runner is already started: enter the lifespan of its Jobs only once"
            )
        self._closing = False
        self._thread = get_ident()
        group = anyio.create_task_group()
        await group.__aenter__()
        self._group = group
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        assert self._group is not None
        self._closing = True
        try:
            self._interrupt()
            # The children never raise, so an exception from the `async with` block needs no group around it.
            await self._group.__aexit__(None, None, None)
        finally:
            self._group = None

    @property
    def runs(self) -> list[Run]:
        """The runs under way."""
        return list(self._runs.values())

    def check(self) -> None:
        """Raise unless runs can be accepted now."""
        if self._closing:
            raise ShuttingDownError(
                "the server is shutting down and starts no new runs", retry_after=RETRY_AFTER
            )
        if self._group is None:
            raise NotStartedError(
                "jobs cannot run: their lifespan was not entered. Pass lifespan=jobs.lifespan to the "
                "outermost application (that of a mounted one is not run); tests use `with TestClient(app)`",
                retry_after=RETRY_AFTER,
            )
        if get_ident() != self._thread:
            raise NotStartedError(
                "jobs cannot be started from the event loop of another thread; in a function of that thread, "
                "call anyio.from_thread.run(jobs.trigger, path)"
            )

    def start(self, run: Run, execute: Execute) -> None:
        """Start a child task for the run."""
        self.check()
        assert self._group is not None
        self._runs[run.run_id] = run
        try:
            self._group.start_soon(self._host, run, execute, name=f"asynctask {run.job} {run.run_id}")
        except BaseException:
            del self._runs[run.run_id]
            raise

    async def drain(self, grace: float) -> None:
        """Refuse new runs, give those under way `grace` seconds, then interrupt the rest."""
        self._closing = True
        if self._runs and grace > 0:
            self._idle = anyio.Event()
            with anyio.move_on_after(grace):
                await self._idle.wait()
        self._interrupt()

    async def _host(self, run: Run, execute: Execute) -> None:
        try:
            await execute(run)
        finally:
            del self._runs[run.run_id]
            if not self._runs and self._idle is not None:
                self._idle.set()

    def _interrupt(self) -> None:
        for run in list(self._runs.values()):
            run.request_cancel(Code.INTERRUPTED)
