"""Jobs: the registry and the verbs, wired to a store and a runner."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from time import perf_counter
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import msgspec

from asynctask.admission import Admission
from asynctask.condition import Assessment, Condition
from asynctask.context import log_fields
from asynctask.errors import AsyncTaskError, ConfigurationError
from asynctask.job import Job
from asynctask.keys import Key, check_part
from asynctask.registry import Registry
from asynctask.run import Run
from asynctask.runners.base import Runner
from asynctask.runners.execute import execute
from asynctask.runners.task_group import TaskGroupRunner
from asynctask.snapshot import Code, Snapshot, Status, idle
from asynctask.stores.base import Store
from asynctask.stores.memory import MemoryStore

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])


class Jobs:
    """The jobs of an application.

    Args:
        store: where snapshots live; a `MemoryStore` by default.
        runner: where jobs run; a task group of this process by default.
        max_running: most runs under way in this process; beyond it a trigger is refused (503).
        max_running_per_tenant: most runs of one tenant under way in this process (429); None for no limit.
        shutdown_grace: how long runs may go on when the application ends, in seconds; then they are
            cancelled and FAILED as `interrupted`.
        expose_errors: whether visitors read the messages of exceptions other than `JobError`. If not, they
            read an error id that stands beside the traceback in the log.

    Raises:
        ConfigurationError: an option is unfit.
    """

    def __init__(
        self,
        *,
        store: Store | None = None,
        runner: Runner | None = None,
        max_running: int = 1000,
        max_running_per_tenant: int | None = None,
        shutdown_grace: float = 5.0,
        expose_errors: bool = True,
    ) -> None:
        number = isinstance(shutdown_grace, int | float) and not isinstance(shutdown_grace, bool)
        if not number or not 0 <= shutdown_grace < math.inf:
            raise ConfigurationError(f"shutdown_grace={shutdown_grace!r} must be a number of seconds from 0")
        self.store: Store = MemoryStore() if store is None else store
        self.runner: Runner = TaskGroupRunner() if runner is None else runner
        self._admission = Admission(max_running, max_running_per_tenant)
        self._grace = shutdown_grace
        self._expose_errors = expose_errors
        self.registry: Registry = Registry()
        self._stack: AsyncExitStack | None = None

    # -- registering -------------------------------------------------------------------------------------

    def job(self, path: str, *, timeout: float | None = None, cancelable: bool = False) -> Callable[[F], F]:
        """Register an async function as the job under `path`; the function itself is returned unchanged.

        Its first parameter is the `Run`; an optional second one takes the payload, validated to its
        annotation.

        Args:
            path: where it is triggered, relative to the mount: segments of letters, digits, `.`, `_`, `~`,
                `-`, or a `{name}`, which becomes a path parameter and part of the key.
            timeout: longest run, in seconds; then it is cancelled and FAILED as `timeout`.
            cancelable: whether visitors may cancel a run.

        Raises:
            ConfigurationError: the path or the function is unfit, or two jobs share a route.
        """

        def register(fn: F) -> F:
            self.registry.add(Job(path, fn, timeout=timeout, cancelable=cancelable))
            return fn

        return register

    # -- the lifespan ------------------------------------------------------------------------------------

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Be the lifespan of a Starlette or FastAPI application: `Starlette(lifespan=jobs.lifespan)`.

        An application that has one of its own enters `async with jobs:` there.
        """
        async with self:
            yield

    async def __aenter__(self) -> Self:
        if self._stack is not None:
            raise ConfigurationError(
                "these Jobs are already started: enter their lifespan only once at a time"
            )
        async with AsyncExitStack() as stack:
            stack.enter_context(log_fields())
            await stack.enter_async_context(self.store)
            await stack.enter_async_context(self.runner)
            stack.push_async_exit(self._drain)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        assert self._stack is not None
        try:
            return await self._stack.__aexit__(exc_type, exc, tb)
        finally:
            self._stack = None

    async def _drain(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        # After an error there is no point in waiting: what holds the application together is gone.
        await self.runner.drain(self._grace if exc is None else 0)

    # -- the verbs ---------------------------------------------------------------------------------------

    async def trigger(
        self, path: str, *, tenant: str = "", payload: Any = None, params: Mapping[str, str] | None = None
    ) -> Snapshot:
        """Start the job, or join its run that is RUNNING for this key. Does no business work.

        Args:
            path: the job's path as registered.
            tenant: whom the run belongs to.
            payload: what the job is given; ignored when a run is joined, but validated all the same.
            params: a text for each path parameter.

        Returns:
            The snapshot, with `started` True for a start and False for a join.

        Raises:
            UnknownJobError: nothing is registered under `path`.
            InvalidKeyError: tenant or parameters cannot form a key.
            InvalidPayloadError: the payload does not fit the job's parameter.
            TenantLimitError: the tenant has too many runs under way.
            UnavailableError: not started, shutting down, no room, or the store is out of reach.
        """
        began = perf_counter()
        job, key = self._find(path, tenant, params)
        argument = job.convert(payload)
        self.runner.check()
        if (current := self.store.peek(key)) is not None:
            return current.joined()
        run = Run(
            key, payload=argument, params=params, history=job.history, expose_errors=self._expose_errors
        )
        try:
            self._admission.take(key.tenant)
        except AsyncTaskError:
            # Full, but joining takes no place; it may be the claim under way that took the last one.
            await self._admission.answered(key)
            current = await self.store.read(key)
            if current is None or current.status is not Status.RUNNING:
                raise
            return current.joined()
        snapshot, ours = await self._claim_and_start(run)
        job.history.record_trigger(perf_counter() - began)
        return msgspec.structs.replace(snapshot, started=ours)

    async def _claim_and_start(self, run: Run) -> tuple[Snapshot, bool]:
        taken = True
        self._admission.begin_claim(run.claim_key)
        try:
            snapshot, ours = await self.store.claim(run)
            if ours:
                try:
                    self.runner.start(run, self._execute)
                    taken = False  # the run gives its place back when it ends
                except BaseException:
                    run.finish(
                        Status.FAILED, error_message="The run was not started.", error_code=Code.INTERRUPTED
                    )
                    await self.store.settle(run)
                    run.finished.set()
                    raise
            return snapshot, ours
        finally:
            self._admission.end_claim(run.claim_key)
            if taken:
                self._admission.give_back(run.tenant)

    async def _execute(self, run: Run) -> None:
        try:
            await execute(run, self.registry.find(run.job), self.store.settle)
        finally:
            self._admission.give_back(run.tenant)

    async def status(
        self, path: str, *, tenant: str = "", params: Mapping[str, str] | None = None
    ) -> Snapshot:
        """Return the key's snapshot; IDLE when it never ran or has expired.

        Raises:
            UnknownJobError, InvalidKeyError, StoreUnavailableError: see `trigger`.
        """
        _, key = self._find(path, tenant, params)
        return await self.store.read(key) or idle(key.job, key.path)

    async def wait(
        self,
        path: str,
        *,
        tenant: str = "",
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Snapshot:
        """Wait until the key's run is over and return its snapshot; IDLE at once when there is none.

        Giving up does not stop the run.

        Args:
            path: the job's path as registered.
            tenant: whom the run belongs to.
            params: a text for each path parameter.
            timeout: longest wait, in seconds, after which the snapshot may still be RUNNING; None for ever.
        """
        seen = await self.status(path, tenant=tenant, params=params)
        return await self.wait_beyond(seen, tenant=tenant, params=params, timeout=timeout, finished=True)

    async def wait_beyond(
        self,
        seen: Snapshot,
        *,
        tenant: str = "",
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
        finished: bool = False,
    ) -> Snapshot:
        """Wait until the picture is no longer the one `seen`, or with `finished` until that run is over.

        Args:
            seen: a snapshot of this key.
            tenant: whom the run belongs to.
            params: a text for each path parameter.
            timeout: longest wait, in seconds; None for ever.
            finished: whether progress is no reason to return.
        """
        _, key = self._find(seen.job, tenant, params)
        snapshot = seen
        deadline = math.inf if timeout is None else anyio.current_time() + timeout
        while snapshot.status is Status.RUNNING and snapshot.run_id == seen.run_id:
            if not finished and not snapshot.same_version(seen):
                break
            left = deadline - anyio.current_time()
            if left <= 0:
                break
            found = await self.store.changed(key, snapshot, timeout=left, finished=finished)
            snapshot = found or idle(key.job, key.path)
        return snapshot

    async def cancel(
        self, path: str, *, tenant: str = "", params: Mapping[str, str] | None = None
    ) -> Snapshot:
        """Ask the key's run to stop; it ends as FAILED, code `cancelled`. Without one, nothing happens.

        Raises:
            NotCancelableError: the job was not registered with `cancelable=True`.
            UnknownJobError, InvalidKeyError, StoreUnavailableError: see `trigger`.
        """
        job, key = self._find(path, tenant, params)
        job.check_cancelable()
        return await self.store.cancel(key) or idle(key.job, key.path)

    async def runs(self, *, tenant: str = "") -> list[Snapshot]:
        """Return a tenant's snapshots, RUNNING ones first, then the newest; raises like `status`."""
        return await self.store.list(check_part("the tenant", tenant))

    def assess(self, path: str) -> Assessment:
        """Say from what the job's runs measured whether it is warranted to be one (`condition`).

        Raises:
            UnknownJobError: nothing is registered under `path`.
        """
        return Condition().assess(history=self.registry.find(path).history)

    def _find(self, path: str, tenant: str, params: Mapping[str, str] | None) -> tuple[Job, Key]:
        job = self.registry.find(path)
        return job, job.key(tenant, params)
