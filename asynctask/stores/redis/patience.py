"""A timeout that blames the server only for its own silence."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

EXCUSED = 4.0
"""How many times its length a timeout may be put off since the loop was too busy to look for an answer."""

_LOOKS = 8  # how often the time that passes is compared with the time that should have passed


class Patience:
    """Gives up after a while, not counting the time in which the event loop was too busy to see an answer.

    With hundreds of requests at once, one turn of the loop can take longer than a server may. The answers
    are there then, but a timer that fires in the same turn would throw them away.

    A context manager for the current task; at its end it raises `TimeoutError` if it has cancelled it.

    Args:
        seconds: how long to wait.
    """

    __slots__ = (
        "_cancelling",
        "_excuses",
        "_expected",
        "_expired",
        "_left",
        "_loop",
        "_step",
        "_task",
        "_timer",
    )

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._step = seconds / _LOOKS
        self._left = seconds
        self._excuses = EXCUSED * seconds
        self._expired = False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[Any] = task
        self._cancelling = task.cancelling()
        self._look_in(self._step)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._expired:
            # As asyncio.timeout does: a cancellation that somebody else asked for as well goes on its way.
            ours = self._task.uncancel() <= self._cancelling
            if ours and exc_type is asyncio.CancelledError:
                raise TimeoutError("no answer in time") from exc

    def _look_in(self, seconds: float) -> None:
        self._expected = self._loop.time() + seconds
        self._timer = self._loop.call_at(self._expected, self._look)

    def _look(self) -> None:
        late = max(0.0, self._loop.time() - self._expected)
        self._left -= self._step + max(0.0, late - self._excuses)
        self._excuses -= min(late, self._excuses)
        if self._left > 1e-6:
            self._look_in(min(self._step, self._left))
        else:
            self._expired = True
            self._task.cancel()
