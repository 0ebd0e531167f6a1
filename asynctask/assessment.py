"""Assessment: what was decided, with its numbers, and in words as people say them.

Public home: `asynctask.condition`, where the decision is made.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from asynctask.history import Figures

Verdict = Literal["sync", "wait", "job"]

MOST_AT_ONCE: Final = 500
"""The concurrency beyond which it is no longer offered as a cure: it is the most that was measured."""

_UNITS: Final = (  # up to so many seconds: the factor and the unit
    (1e-3, 1e6, "µs"),
    (1.0, 1e3, "ms"),
    (600.0, 1.0, "s"),
    (5_400.0, 1 / 60, "min"),
    (172_800.0, 1 / 3_600, "h"),
)


class Assessment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A verdict with its reasons and numbers; `str()` gives it in words. JSON-ready, None for unknown.

    Attributes:
        verdict: "sync", "wait" or "job".
        in_scope: whether any of the four conditions holds.
        reasons: every condition that holds, then what decided the verdict.
        words: the whole of it in a sentence.
        records: records processed; when measured, the most that a run had.
        calls: remote calls in all.
        latency_seconds: of one call; when measured, the mean.
        at_once: the concurrency that `concurrent_seconds` was estimated for; None when that was measured.
        sequential_seconds: one call after the other.
        concurrent_seconds: with that concurrency; when measured, the 95th percentile of the runs.
        at_once_for_sync: the smallest concurrency that would bring it under the limit for `sync`.
        timeouts_seen: answers 502 and 504 and timeouts, those said and those measured.
        users_say_it_hangs: as said.
        measured: the figures of the history, if one was given.
    """

    verdict: Verdict
    in_scope: bool
    reasons: tuple[str, ...]
    words: str
    records: int | None
    calls: int | None
    latency_seconds: float | None
    at_once: int | None
    sequential_seconds: float | None
    concurrent_seconds: float | None
    at_once_for_sync: int | None
    timeouts_seen: int
    users_say_it_hangs: bool
    measured: Figures | None

    def __str__(self) -> str:
        return self.words


def time_in_words(seconds: float, *, exact: bool = True) -> str:
    """Seconds in a fitting unit and about three digits: 50 ms, 3.1 s, 300 s, 17 min.

    Args:
        seconds: how long.
        exact: show a round number only where the figure is round, for 5 may be a limit that 4.98 is under.
            Without it two digits do, and 7 characters up to a thousand days.
    """
    if seconds == 0:
        return "0 s"
    factor, unit = next(((f, u) for limit, f, u in _UNITS if seconds < limit), (1 / 86_400, "d"))
    value = seconds * factor
    if value >= (100 if exact else 10):
        return f"{value:,.0f} {unit}"
    text = ""
    for digits in (1, 2, 3) if exact and seconds < 600 else (1,):
        text = f"{value:.{digits}f}"
        if not text.endswith("0"):
            break
    return f"{text.rstrip('0').rstrip('.')} {unit}"


def verdict_reason(found: Assessment, limit: float, most: float) -> str:
    """Say what decided the verdict, which is `sync` below `limit` and `job` above `most` seconds."""
    taken = found.concurrent_seconds
    if not found.in_scope:
        known = found.records is not None or taken is not None
        return "none of the four conditions is met" if known else "nothing is known yet"
    if found.timeouts_seen:
        return "what may be cut off must not be answered in the request"
    if taken is None:
        return "how long it takes is unknown"
    where = {
        "sync": f"under {time_in_words(limit)}",
        "wait": f"from {time_in_words(limit)} to {time_in_words(most)}",
        "job": f"above {time_in_words(most)}",
    }[found.verdict]
    return f"{time_in_words(taken)} is {where}"


def sentence(found: Assessment, limit: float) -> str:
    """The whole assessment in a sentence: the numbers, a colon, the conclusion."""
    return f"{_numbers(found)}: {_conclusion(found, limit)}{_cure(found, limit)}"


def batch_in_words(found: Assessment) -> str:
    """The batch as a product: 6,000 × 50 ms."""
    return f"{found.calls:,} × {time_in_words(found.latency_seconds or 0.0)}"


def _numbers(found: Assessment) -> str:
    parts = []
    if found.sequential_seconds is not None:
        parts.append(f"{batch_in_words(found)} is {time_in_words(found.sequential_seconds)} one by one")
    if found.concurrent_seconds is not None:
        taken = time_in_words(found.concurrent_seconds)
        if (
            found.at_once is None
            and found.measured is not None
            and found.measured.duration_seconds is not None
        ):
            runs = found.measured.duration_seconds.count
            last = "its last run" if runs == 1 else f"its last {runs} runs (95th percentile)"
            parts.append(f"{taken} in {last}")
        elif found.at_once is not None and found.at_once > 1 and (found.calls or 0) > 1:
            parts.append(f"{taken} at {found.at_once:,} at once")
    if not parts and found.records is not None:
        parts.append(f"{found.records:,} records of unknown latency")
    return ", ".join(parts) or "nothing is measured yet"


def _conclusion(found: Assessment, limit: float) -> str:
    if not found.in_scope:
        if found.records is None and found.concurrent_seconds is None:
            return "out of scope until something is, stay synchronous"
        return "out of scope, stay synchronous"
    if found.timeouts_seen:
        return "in scope, make it a job, since timeouts were seen"
    if found.concurrent_seconds is None:
        return "in scope, answer in place with `Prefer: wait` until it is known how long it takes"
    if found.verdict == "wait":
        return "in scope, answer in place with `Prefer: wait`"
    if found.verdict == "job":
        return "in scope, make it a job"
    if (found.sequential_seconds or 0.0) >= limit:
        return "in scope, but stay synchronous at that concurrency"
    unexplained = found.users_say_it_hangs and found.at_once is not None
    return "in scope, but stay synchronous" + (
        ", and measure why users say that it hangs" if unexplained else ""
    )


def _cure(found: Assessment, limit: float) -> str:
    """What would make it synchronous, where something would and the verdict is not that already."""
    needed, under = found.at_once_for_sync, time_in_words(limit)
    if found.verdict == "sync" or found.timeouts_seen or found.sequential_seconds is None:
        return ""
    if needed is None or needed > MOST_AT_ONCE:
        return f"; no concurrency up to {MOST_AT_ONCE} brings it under {under}"
    if found.at_once is None:  # measured: it may have run at that concurrency and been slow for other reasons
        return ""
    return f"; {needed:,} at once would bring it under {under}"
