"""Job: a registered coroutine function with its options, validated when made."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from asynctask.condition import History
from asynctask.errors import ConfigurationError, NotCancelableError
from asynctask.keys import Key, make_key, parameters
from asynctask.payload import converter, no_payload
from asynctask.snapshot import Snapshot

if TYPE_CHECKING:
    from asynctask.run import Run


class Job:
    """A definition: what to run under which path.

    Args:
        path: where the job is triggered, relative to the mount, e.g. `imports/{file_id}/refresh`.
        fn: an async function of a `Run` and, optionally, the payload.
        timeout: longest run, in seconds; None for no limit.
        cancelable: whether visitors may cancel a run.

    Raises:
        ConfigurationError: any of these is unfit; the message says what to change.
    """

    __slots__ = ("_convert", "cancelable", "fn", "history", "names", "path", "takes_payload", "timeout")

    def __init__(
        self,
        path: str,
        fn: Callable[..., Awaitable[Any]],
        *,
        timeout: float | None = None,
        cancelable: bool = False,
    ) -> None:
        self.path: str = path
        self.names: tuple[str, ...] = parameters(path)
        self.fn: Callable[..., Awaitable[Any]] = fn
        self.timeout: float | None = _check_timeout(path, timeout)
        self.cancelable: bool = _check_flag(path, cancelable)
        self.takes_payload: bool = _check_function(path, fn)
        self._convert = converter(path, fn) if self.takes_payload else no_payload(path)
        self.history: History = History()

    def __repr__(self) -> str:
        return f"<Job {self.path!r}: {getattr(self.fn, '__qualname__', self.fn)}>"

    def key(self, tenant: str, params: Mapping[str, str] | None) -> Key:
        """Return the key of this job for a tenant and path parameters; raises `InvalidKeyError`."""
        return make_key(self.path, self.names, params, tenant)

    def convert(self, payload: Any) -> Any:
        """Validate a payload to the job's parameter; raises `InvalidPayloadError`, which says where."""
        return self._convert(payload)

    def call(self, run: Run) -> Awaitable[Any]:
        """Call the function for a run; the coroutine that it returns is not started yet."""
        return self.fn(run, run.payload) if self.takes_payload else self.fn(run)

    def record(self, snapshot: Snapshot) -> str | None:
        """Keep what a finished run measured; return, once, what to log of a job too quick to be one."""
        self.history.record_run(
            (snapshot.duration_ms or 0) / 1000, snapshot.processed, snapshot.error_code or "success"
        )
        return self.history.quick_notice(self.path)

    def check_cancelable(self) -> None:
        """Raise `NotCancelableError` unless visitors may cancel this job."""
        if not self.cancelable:
            raise NotCancelableError(
                f"job {self.path!r} cannot be cancelled; register it with cancelable=True"
            )


def _check_timeout(path: str, timeout: object) -> float | None:
    if timeout is None:
        return None
    fit = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not fit or not math.isfinite(timeout) or timeout <= 0:  # type: ignore[operator,arg-type]
        raise ConfigurationError(
            f"job {path!r}: timeout={timeout!r} must be a positive number of seconds, or None for no limit"
        )
    return float(timeout)  # type: ignore[arg-type]


def _check_flag(path: str, cancelable: object) -> bool:
    if not isinstance(cancelable, bool):
        raise ConfigurationError(f"job {path!r}: cancelable={cancelable!r} must be True or False")
    return cancelable


def _check_function(path: str, fn: Callable[..., Any]) -> bool:
    """Check that `fn` is async and takes a run, and return whether it takes a payload."""
    called = fn if inspect.isroutine(fn) or not callable(fn) else getattr(fn, "__call__", fn)  # noqa: B004
    inner = called.func if hasattr(called, "func") else called
    if inspect.isasyncgenfunction(inner):
        raise ConfigurationError(
            f"job {path!r}: {fn!r} is an async generator; a job returns once, so drop the yield"
        )
    if not (inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(fn)):
        raise ConfigurationError(
            f"job {path!r}: {fn!r} is not async; write `async def`, and call blocking code in it "
            "with anyio.to_thread.run_sync"
        )
    accepted = [
        p
        for p in inspect.signature(fn).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    others = [
        p.name
        for p in inspect.signature(fn).parameters.values()
        if p.kind is p.KEYWORD_ONLY and p.default is p.empty
    ]
    required = [p for p in accepted if p.default is p.empty]
    if not 1 <= len(accepted) or len(required) > 2 or len(accepted) > 2 or others:
        raise ConfigurationError(
            f"job {path!r}: {fn!r} must take the run and, optionally, a payload: (run) or (run, payload)"
        )
    return len(accepted) == 2
