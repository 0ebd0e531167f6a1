"""What a job measured of itself: a bounded record, and the figures read from it.

Public home: `asynctask.condition`, which turns these figures into a verdict.

A `History` only takes down what it is told. It reads no clock and does no I/O, and its memory is bounded by
the two numbers it is made with, however long the process lives: the last `window` runs, the last `calls`
remote calls, four counters. Everything may be recorded from any thread.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from asynctask.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

QUICK_RUNS: Final = 20
QUICK_SECONDS: Final = 1.0
"""A job whose last `QUICK_RUNS` runs all succeeded in under `QUICK_SECONDS` need not be a job (issue 3)."""

_STATUSES: Final = {502: "502", 503: "503", 504: "504"}
_KINDS: Final = (*_STATUSES.values(), "timeout")

# Timeouts of clients that we do not import: httpx and httpx2 (TimeoutException), trio (TooSlowError),
# requests (Timeout). Builtin TimeoutError covers asyncio, anyio, sockets and aiohttp.
_TIMEOUT_NAMES: Final = frozenset({"TimeoutException", "TooSlowError", "Timeout"})
# A wait for a free connection of our own pool. It says that the pool is small, nothing about the remote side.
_OWN_TIMEOUT_NAMES: Final = frozenset({"PoolTimeout"})


class Spread(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How some measurements are spread. Percentiles are by nearest rank: each is a value that occurred."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """The spread of `values`, or None when there are none."""
        ordered = sorted(values)
        if not ordered:
            return None
        n = len(ordered)
        p50, p95, p99 = (ordered[math.ceil(n * percent / 100) - 1] for percent in (50, 95, 99))
        return cls(count=n, mean=math.fsum(ordered) / n, p50=p50, p95=p95, p99=p99, max=ordered[-1])


class Figures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a `History` holds at one moment; None where nothing was measured yet.

    Attributes:
        runs: runs in the window, whatever their outcome.
        succeeded: those of them that ended in SUCCESS.
        duration_seconds: of the runs that succeeded or ran into their timeout. A run that failed, or was
            cancelled or cut off, does not tell how long the work takes.
        records: records processed by the same runs, as far as they counted any.
        call_seconds: of the last remote calls.
        upstream: answers 502, 503 and 504 and timeouts of the remote side, within the window.
        run_timeouts: runs of the window that were ended by the job's own timeout.
        longest_trigger_seconds: the longest that a trigger kept its caller waiting, since the start.
    """

    runs: int
    succeeded: int
    duration_seconds: Spread | None
    records: Spread | None
    call_seconds: Spread | None
    upstream: dict[str, int]
    run_timeouts: int
    longest_trigger_seconds: float | None

    @property
    def timeouts(self) -> int:
        """What the specification counts: 502, 504 and timeouts. A 503 is shown, but not counted."""
        return self.run_timeouts + sum(self.upstream[kind] for kind in ("502", "504", "timeout"))


class _Ended(NamedTuple):
    seconds: float
    records: int | None
    outcome: str
    upstream: Counter[str]


class History:
    """A bounded record of what a job measured.

    Args:
        window: how many of the last runs to keep. Upstream errors age out with the runs they fell into.
        calls: how many of the last remote calls to keep (32 bytes each).

    Raises:
        ConfigurationError: when either is not a whole number of at least 1.
    """

    __slots__ = (
        "_calls",
        "_lock",
        "_longest_trigger",
        "_quick",
        "_runs",
        "_slowest_quick",
        "_told",
        "_upstream",
    )

    def __init__(self, *, window: int = 100, calls: int = 2_048) -> None:
        for name, value in (("window", window), ("calls", calls)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigurationError(f"{name} is {value!r}: give a whole number of at least 1")
        self._runs: deque[_Ended] = deque(maxlen=window)
        self._calls: deque[float] = deque(maxlen=calls)
        self._upstream: Counter[str] = Counter()
        self._longest_trigger: float | None = None
        self._quick = 0
        self._slowest_quick = 0.0
        self._told = False
        self._lock = threading.Lock()

    def record_call(self, seconds: float) -> None:
        """Take down that one remote call took `seconds`. Cheap: it is meant for every call of a batch.

        What cannot be a duration (negative, NaN, infinite) is dropped: a clock's fault must not fail a job.
        """
        if 0.0 <= seconds < math.inf:
            self._calls.append(seconds)

    def record_error(self, exc: BaseException) -> None:
        """Count a failed call, if it was a 502, 503 or 504 answer or a timeout of the remote side.

        Works on what the exception looks like, so with httpx, httpx2, aiohttp and others. An exception group
        counts each of its leaves; a wrapping exception counts as what it was raised from. Tell each exception
        once: the call's, or the run's when no call has told it already.
        """
        if kinds := list(_kinds(exc)):
            with self._lock:
                self._upstream.update(kinds)

    def record_run(self, duration: float, records: int | None, outcome: str) -> None:
        """Take down the end of a run.

        Args:
            duration: seconds from start to end; what cannot be a duration is dropped with its run.
            records: records processed, or None when the job did not say.
            outcome: "SUCCESS" (in any case), or the run's error code, such as "timeout" or "cancelled".
        """
        if not 0.0 <= duration < math.inf:
            return
        outcome = outcome.lower()
        with self._lock:
            self._runs.append(_Ended(duration, records, outcome, self._upstream))
            self._upstream = Counter()
            if outcome == "success" and duration < QUICK_SECONDS:
                self._quick += 1
                self._slowest_quick = max(self._slowest_quick, duration)
            else:
                self._quick, self._slowest_quick = 0, 0.0

    def record_trigger(self, seconds: float) -> None:
        """Take down for how many seconds a trigger kept its caller waiting. Only the longest is kept."""
        longest = self._longest_trigger
        if 0.0 <= seconds < math.inf and (longest is None or seconds > longest):
            with self._lock:
                self._longest_trigger = max(seconds, self._longest_trigger or 0.0)

    def quick_notice(self, job: str) -> str | None:
        """What to log when the job need not be one: the last 20 runs all succeeded in under a second.

        Args:
            job: the job's path, for the text.

        Returns:
            The text the first time that it is true, None ever after and before.
        """
        if self._told or self._quick < QUICK_RUNS:
            return None
        self._told = True
        return (
            f"the last {QUICK_RUNS} runs of {job!r} all ended in under {QUICK_SECONDS:g} s (the slowest in "
            f"{self._slowest_quick:.3f} s): a plain endpoint that answers in place would do; "
            f"`jobs.assess({job!r})` gives the figures"
        )

    def figures(self) -> Figures:
        """The figures as they stand now. Costs about a millisecond: it sorts what is kept."""
        with self._lock:
            runs = list(self._runs)
            upstream = sum((run.upstream for run in runs), self._upstream.copy())
        telling = [run for run in runs if run.outcome in ("success", "timeout")]
        return Figures(
            runs=len(runs),
            succeeded=sum(run.outcome == "success" for run in runs),
            duration_seconds=Spread.of(run.seconds for run in telling),
            records=Spread.of(run.records for run in telling if run.records),
            call_seconds=Spread.of(_copy(self._calls)),
            upstream={kind: upstream[kind] for kind in _KINDS},
            run_timeouts=sum(run.outcome == "timeout" for run in runs),
            longest_trigger_seconds=self._longest_trigger,
        )


def _copy(calls: deque[float]) -> Sequence[float]:
    """The calls as a list, although other threads may append meanwhile (record_call takes no lock)."""
    while True:
        try:
            return list(calls)
        except RuntimeError:  # "deque mutated during iteration"
            continue


def _kinds(exc: BaseException) -> Iterator[str]:
    """What an exception, or each leaf of a group, says of the remote side.

    Where it says nothing itself, what it was raised from is asked, as a traceback would show it.
    """
    seen: set[int] = set()
    waiting: list[BaseException] = [exc]
    while waiting:
        current = waiting.pop()
        if id(current) in seen:  # a cycle of causes, or one error in two branches of a group
            continue
        seen.add(id(current))
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)
            continue
        names = {cls.__name__ for cls in type(current).__mro__}
        if names & _OWN_TIMEOUT_NAMES:
            continue
        if isinstance(current, TimeoutError) or names & _TIMEOUT_NAMES:
            yield "timeout"
        elif (status := _status(current)) is not None:
            if status in _STATUSES:
                yield _STATUSES[status]
        elif origin := current.__cause__ or (None if current.__suppress_context__ else current.__context__):
            waiting.append(origin)


def _status(exc: BaseException) -> int | None:
    """The HTTP status that an exception carries: of its response (httpx, requests) or its own (aiohttp)."""
    try:
        status = getattr(getattr(exc, "response", None), "status_code", None)
        if status is None:
            status = getattr(exc, "status", None)
    except Exception:  # a property of a stranger's class may raise what it likes
        return None
    return int(status) if isinstance(status, int) else None
