"""Is async warranted? The specification's trigger condition, as a pure function of a few figures.

An operation is *in scope* when any one of four holds: it processes at least 1,000 records; its batch of
remote calls takes more than 5 s one by one; it has already produced a 502, a 504 or a timeout; users say that
it hangs. In scope is not yet a verdict, since the specification wants the synchronous way made fast first:

- `sync`: not in scope, or bounded concurrency brings it under 5 s. Answer in the request.
- `wait`: from 5 to 10 s. The endpoint of a job, answered in place when asked with `Prefer: wait`.
- `job`: above 10 s, or timeouts were seen. Trigger it, and poll its status.

Where it is in scope but nothing tells how long it takes, the verdict is `wait`, which serves either case.
Where nothing is known at all (a job that has not run yet), it is `sync`, and the words say what is missing:
nothing warrants a job until something has been measured.

No I/O, no clock, and nothing of the package but its errors and the `History` that measurements come in.
"""

from __future__ import annotations

import math
import reprlib
from typing import Final, TypeGuard

import msgspec
from msgspec.structs import replace

from asynctask.assessment import (
    Assessment,
    Verdict,
    batch_in_words,
    sentence,
    time_in_words,
    verdict_reason,
)
from asynctask.errors import ConfigurationError
from asynctask.history import Figures, History

__all__ = ["Assessment", "Condition", "Figures", "History", "Verdict", "assess", "time_in_words"]

_MOST_COUNT: Final = 10**12
_MOST_SECONDS: Final = 1e9


class Condition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The thresholds of the decision; the defaults are the specification's.

    Attributes:
        records: this many records in one operation put it in scope.
        sync_below: seconds under which an operation stays synchronous, and beyond which a batch that is
            done one by one is in scope.
        job_above: seconds above which it must be a job.
        at_once: the concurrency assumed when none is given; `Run.map` has the same default.
        efficiency: the share of the ideal time (calls × latency / concurrency) that a good client reaches.
            0.97 is what raw sockets reach; plain httpx reaches less (see benchmarks/README.md): give what
            yours does.

    Raises:
        ConfigurationError: when a threshold makes no sense; the message says what to give.
    """

    records: int = 1_000
    sync_below: float = 5.0
    job_above: float = 10.0
    at_once: int = 20
    efficiency: float = 0.97

    def __post_init__(self) -> None:
        _check_count("records", self.records, 1)
        _check_count("at_once", self.at_once, 1)
        for name, value in (("sync_below", self.sync_below), ("job_above", self.job_above)):
            _check_seconds(name, value)
        if not 0 < self.sync_below <= self.job_above:
            raise ConfigurationError(
                f"sync_below is {self.sync_below!r} and job_above is {self.job_above!r}: "
                "give 0 < sync_below <= job_above, in seconds"
            )
        if not _is_number(self.efficiency) or not 0 < self.efficiency <= 1:
            raise ConfigurationError(f"efficiency is {_show(self.efficiency)}: give a share above 0, up to 1")

    def estimate(self, calls: int, latency: float, at_once: int) -> float:
        """How long a batch takes: waves of `at_once` calls, each as long as one call, over the efficiency.

        Args:
            calls: remote calls in all.
            latency: of one call, in seconds.
            at_once: how many are under way at the same time; 1 is one by one.

        Returns:
            Seconds.
        """
        at_once = min(at_once, calls)
        if at_once <= 1:
            return calls * latency
        return -(-calls // at_once) * latency / self.efficiency

    def at_once_for_sync(self, calls: int, latency: float) -> int | None:
        """The smallest concurrency that brings a batch under `sync_below`; None when none does."""
        if self.estimate(calls, latency, 1) < self.sync_below:
            return 1
        waves = math.ceil(self.sync_below * self.efficiency / latency) - 1
        if waves < 1:
            return None
        at_once = max(2, -(-calls // waves))
        while at_once <= calls and self.estimate(calls, latency, at_once) >= self.sync_below:
            at_once += 1  # the division above was a rounding error too low
        return at_once if at_once <= calls else None

    def assess(
        self,
        *,
        records: int | None = None,
        latency: float | None = None,
        calls: int | None = None,
        at_once: int | None = None,
        timeouts_seen: int = 0,
        users_say_it_hangs: bool = False,
        history: History | None = None,
    ) -> Assessment:
        """Decide whether an operation should be answered in the request, waited for, or made a job.

        Whatever is left out is unknown. What a history has measured replaces what was given: `records` and
        `latency` serve until there is a measurement.

        Args:
            records: records that one operation processes.
            latency: of a single remote call, in seconds.
            calls: remote calls in all, when they are not one for each record (4 a record, or 1 for 100).
            at_once: calls under way at the same time; by default `self.at_once`.
            timeouts_seen: how often a 502, a 504 or a timeout has been seen.
            users_say_it_hangs: whether users say so.
            history: what the job measured of itself.

        Raises:
            ConfigurationError: when a figure is not one (negative, NaN, infinite, a text); it is a
                ValueError, and says what to give.
        """
        for name, count, least in (("records", records, 0), ("calls", calls, 0), ("at_once", at_once, 1)):
            if count is not None:
                _check_count(name, count, least)
        if latency is not None:
            _check_seconds("latency", latency)
        _check_count("timeouts_seen", timeouts_seen, 0)
        if not isinstance(users_say_it_hangs, bool):
            raise ConfigurationError(f"users_say_it_hangs is {_show(users_say_it_hangs)}: give True or False")

        figures = None if history is None else history.figures()
        measured: float | None = None
        if figures is not None:
            timeouts_seen += figures.timeouts
            if figures.duration_seconds is not None:
                measured = figures.duration_seconds.p95
            if figures.call_seconds is not None:
                latency = figures.call_seconds.mean
            if figures.records is not None:
                records, calls = int(figures.records.max), None
        if calls is None and latency is not None:
            calls = 1 if records is None else records

        sequential = needed = taken = None
        if calls is not None and latency is not None:
            sequential = calls * latency
            needed = self.at_once_for_sync(calls, latency)
            taken = self.estimate(calls, latency, at_once or self.at_once)
        if measured is not None:
            taken = measured

        found = Assessment(
            verdict="sync",
            in_scope=False,
            reasons=(),
            words="",
            records=records,
            calls=calls,
            latency_seconds=latency,
            at_once=None if measured is not None else at_once or self.at_once,
            sequential_seconds=sequential,
            concurrent_seconds=taken,
            at_once_for_sync=needed,
            timeouts_seen=timeouts_seen,
            users_say_it_hangs=users_say_it_hangs,
            measured=figures,
        )
        scope = self._scope(found)
        found = replace(found, in_scope=bool(scope), verdict=self._verdict(bool(scope), taken, timeouts_seen))
        return replace(
            found,
            reasons=(*scope, verdict_reason(found, self.sync_below, self.job_above)),
            words=sentence(found, self.sync_below),
        )

    def _scope(self, found: Assessment) -> list[str]:
        """Those of the four conditions that hold, in words."""
        reasons = []
        limit = time_in_words(self.sync_below)
        if found.records is not None and found.records >= self.records:
            reasons.append(f"{found.records:,} records, at least {self.records:,}")
        one_by_one, taken = found.sequential_seconds, found.concurrent_seconds
        if one_by_one is not None and one_by_one > self.sync_below:
            time = time_in_words(one_by_one)
            reasons.append(f"{batch_in_words(found)} is {time} one by one, above {limit}")
        elif found.at_once is None and taken is not None and taken > self.sync_below:
            # Not a batch of remote calls, or not one that was timed: the run as a whole is the one slow call.
            reasons.append(f"its runs take {time_in_words(taken)}, above {limit}")
        if found.timeouts_seen:
            times = "once" if found.timeouts_seen == 1 else f"{found.timeouts_seen:,} times"
            reasons.append(f"a 502, a 504 or a timeout was seen {times}")
        if found.users_say_it_hangs:
            reasons.append("users say that it hangs")
        return reasons

    def _verdict(self, in_scope: bool, seconds: float | None, timeouts_seen: int) -> Verdict:
        if not in_scope:
            return "sync"
        if timeouts_seen:
            return "job"
        if seconds is None:
            return "wait"
        if seconds < self.sync_below:
            return "sync"
        return "wait" if seconds <= self.job_above else "job"


def _check_count(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MOST_COUNT:
        raise ConfigurationError(
            f"{name} is {_show(value)}: give a whole number from {least:,} to {_MOST_COUNT:,}"
        )


def _check_seconds(name: str, value: object) -> None:
    if not _is_number(value) or not 0 <= value <= _MOST_SECONDS:
        raise ConfigurationError(
            f"{name} is {_show(value)}: give seconds, a number from 0 to {_MOST_SECONDS:,.0f}"
        )


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _show(value: object) -> str:
    try:
        return reprlib.repr(value)
    except Exception:  # an integer of thousands of digits, a stranger's __repr__
        return f"a {type(value).__name__}"


SPECIFICATION: Final = Condition()
"""The thresholds as the specification sets them."""

assess: Final = SPECIFICATION.assess
"""`Condition.assess` with the specification's thresholds: a pure function."""
