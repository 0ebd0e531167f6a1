"""What is said of a server in trouble: to the log, once for each outage, and to whoever asked."""

from __future__ import annotations

import threading
from time import monotonic

from asynctask.context import logger
from asynctask.errors import StoreUnavailableError
from asynctask.messages import describe

RETRY_AFTER = 2
"""What a client is told to wait while Redis is away, in seconds."""

_SAID_AGAIN = 30.0  # seconds after which a trouble that lasts is logged once more


def unavailable(what: str) -> StoreUnavailableError:
    """Return the error to raise. Visitors read it, so it names no place and quotes no error.

    Args:
        what: what has happened to the store.
    """
    return StoreUnavailableError(
        f"the store of runs {what}, and nothing was started; try again in a moment", retry_after=RETRY_AFTER
    )


class Health:
    """Whether a server answers. Told from several threads.

    Args:
        place: where it is, without credentials.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._kind = ""
        self._said_at = 0.0
        self._away = False
        self.streak: int = 0
        """How often it could not be reached since it last was."""

    def failed(self, exc: BaseException, *, away: bool) -> StoreUnavailableError:
        """Note a failure.

        Args:
            exc: what was raised.
            away: whether the server could not be reached, rather than refused to do it.

        Returns:
            What to raise.
        """
        kind, now = type(exc).__name__, monotonic()
        with self._lock:
            news = kind != self._kind or now > self._said_at + _SAID_AGAIN
            if news:
                self._kind, self._said_at = kind, now
            self._away |= away
            self.streak += away
        if news:
            logger.warning("Redis at %s fails: %s: %s", self._place, kind, describe(exc))
        return unavailable("cannot be reached" if away else "refused this")

    def succeeded(self) -> None:
        """Note a success."""
        self.streak = 0
        if self._away:
            with self._lock:
                back, self._away, self._kind = self._away, False, ""
            if back:
                logger.info("Redis at %s answers again", self._place)
