"""Progress: what a run has counted, and since when.

Changed by the job's body, read by pollers in any thread. Every visible change raises `version`, so that
one version stands for one picture only.
"""

from __future__ import annotations

import math
from time import monotonic, time

from asynctask.messages import clean
from asynctask.snapshot import timestamp

MAX_COUNT = 2**53 - 1
"""Largest count that JSON carries exactly (RFC 8259, section 6)."""


class Progress:
    """The counters of one run. `Run` is the only subclass; the parts are apart to be read apart."""

    __slots__ = (
        "_changed_at",
        "_failed",
        "_message",
        "_next_mark",
        "_own_total",
        "_processed",
        "_started_at",
        "_started_text",
        "_started_wall",
        "_total",
        "_version",
    )

    def __init__(self) -> None:
        self._processed = 0
        self._failed = 0
        self._total: int | None = None
        self._own_total = True  # until the body sets one, `map` counts its items into it
        self._message: str | None = None
        self._version = 1
        self._next_mark: float = math.inf
        self._started_at = self._changed_at = monotonic()
        self._started_wall = time()
        self._started_text = timestamp(self._started_wall)

    def advance(self, n: int = 1, *, failed: int = 0) -> None:
        """Count items as processed. Costs a fraction of a microsecond; never raises, never goes back.

        Args:
            n: how many more items are done, whether they succeeded or failed.
            failed: how many of these failed.
        """
        if failed or n.__class__ is not int or n < 1:
            n, failed = _count(n), _count(failed)
            if not n and not failed:
                return
            self._failed += failed
        self._processed += n
        self._changed_at = monotonic()
        self._version += 1
        if self._processed >= self._next_mark:
            self._next_mark = self._mark_after(self._processed)
            self._passed_quarter()

    @property
    def total(self) -> int | None:
        """How many items there are; None, the default, shows an indeterminate progress."""
        return self._total

    @total.setter
    def total(self, value: int | None) -> None:
        self._own_total = False
        self._set_total(None if value is None else _count(value))

    @property
    def message(self) -> str | None:
        """What the job is doing, for the visitor; cleaned like an error message (see `messages.clean`)."""
        return self._message

    @message.setter
    def message(self, value: str | None) -> None:
        text = None if value is None else clean(str(value))
        if text != self._message:
            self._message = text
            self._touch()

    @property
    def seconds(self) -> float:
        """How long the run has taken, until its latest change, by a clock that never jumps."""
        return self._changed_at - self._started_at

    def _touch(self) -> None:
        self._changed_at = monotonic()
        self._version += 1

    def _set_total(self, value: int | None) -> None:
        if value != self._total:
            self._total = value
            self._touch()
        self._next_mark = self._mark_after(self._processed)

    def _mark_after(self, processed: int) -> float:
        """Return the count at which the next quarter of the progress is logged."""
        if not self._total:
            return math.inf
        quarter = processed * 4 // self._total + 1
        return math.ceil(self._total * quarter / 4) if quarter < 4 else math.inf

    def _passed_quarter(self) -> None:
        """Be told that 25, 50 or 75 percent were passed."""

    def _display(self, moment: float) -> str:
        # Wall-clock time is read once, at the start: a clock set back cannot end a run before it began.
        return timestamp(self._started_wall + (moment - self._started_at))


def _count(value: object) -> int:
    """Make a count of whatever a job passes: whole, at least 0, at most what JSON carries exactly."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return 0
    return max(0, min(int(number), MAX_COUNT))
