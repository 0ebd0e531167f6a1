"""Records: under which keys they lie, and what picture they give. Pure: no I/O, no clock."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from asynctask.errors import ConfigurationError
from asynctask.keys import Key
from asynctask.snapshot import MESSAGES, Code, Snapshot, Status, decode, timestamp

_PLAIN = re.compile(r"[A-Za-z0-9._~/-]*")
_PREFIX = re.compile(r"[A-Za-z0-9._:/-]{1,100}")


Seen = bytes | list[Any]
"""What a script gives of a record (see `look` in `scripts`)."""


class Names(NamedTuple):
    """Where the record of a key lies."""

    record: str
    """Its hash."""
    listing: str
    """The sorted set of its tenant's records."""


class Naming:
    """Makes the names of an application's records.

    Texts from outside are percent-encoded, so that none holds a colon or a brace and no two keys meet. All
    names of a tenant share one hash tag, the part in braces, so that they lie on one node of a cluster.

    Args:
        prefix: what all names begin with.

    Raises:
        ConfigurationError: the prefix holds something else than letters, digits, `.`, `_`, `-`, `:` and `/`.
    """

    def __init__(self, prefix: str) -> None:
        if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
            raise ConfigurationError(
                f"prefix={prefix!r} must be 1 to 100 letters, digits, '.', '_', '-', ':' or '/'"
            )
        self._prefix = prefix
        self.of: Callable[[Key], Names] = lru_cache(maxsize=1024)(self._names)
        """Returns the names for a key."""
        self.cancels: str = f"{prefix}:cancels"
        """The sorted set in which cancellations are announced to all instances."""

    def _names(self, key: Key) -> Names:
        index = self.index(key.tenant)
        return Names(f"{index}:{_quote(key.job)}:{_quote(key.path)}", index)

    def index(self, tenant: str) -> str:
        """Return the name of a tenant's index."""
        # With an empty tag the whole name would be hashed, hence the "t".
        return f"{self._prefix}:{{t:{_quote(tenant)}}}"


@lru_cache(maxsize=1024)
def _quote(text: str) -> str:
    """Percent-encode all that is not a letter, a digit or one of `._~/-`, of which most texts consist."""
    return text if _PLAIN.fullmatch(text) else quote(text, safe="/")


def picture(seen: Seen) -> Snapshot:
    """Make the snapshot that every reader of a record sees.

    Args:
        seen: the published snapshot, or with it what others changed since, as `look` in `scripts` gives it.

    Raises:
        msgspec.DecodeError: it is no snapshot that is in there.
    """
    if isinstance(seen, bytes):
        return decode(seen)
    state, snap, bump, lost, cancel = seen[:5]
    snapshot = decode(snap)
    changes = int(bump)
    more: dict[str, Any] = {}
    if cancel:
        more["cancel_requested"] = True
    if state == b"L":
        changes += 1
        more.update(_loss(snapshot, int(lost)))
    return msgspec.structs.replace(snapshot, version=snapshot.version + changes, **more)


def _loss(snapshot: Snapshot, at: int) -> dict[str, Any]:
    """Say how a lost run ended; a function of the record alone, so that all readers say the same.

    Args:
        snapshot: what its worker published last, by the worker's clock.
        at: when it was found lost, in milliseconds since the epoch, by the server's clock.
    """
    started, updated = _milliseconds(snapshot.started_at, at), _milliseconds(snapshot.updated_at, at)
    finished = max(at, started, updated)  # clocks differ; a run still does not end before it began
    return {
        "status": Status.FAILED,
        "error_code": str(Code.WORKER_LOST),
        "error_message": MESSAGES[Code.WORKER_LOST],
        "updated_at": timestamp(finished / 1000),
        "finished_at": timestamp(finished / 1000),
        "duration_ms": finished - started,
        "poll_after_ms": None,
    }


def _milliseconds(text: str | None, default: int) -> int:
    return default if text is None else round(datetime.datetime.fromisoformat(text).timestamp() * 1000)
