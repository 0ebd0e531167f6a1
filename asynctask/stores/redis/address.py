"""Where a URL leads, told without the credentials in it."""

from __future__ import annotations

from urllib.parse import urlsplit

from asynctask.errors import ConfigurationError

_EXAMPLE = "redis://user:password@host:6379/0, with special characters percent-encoded"


def place(url: str, *, cluster: bool) -> str:
    """Return host, port and database of a URL, fit to be logged.

    Args:
        url: `redis://`, `rediss://` or `unix://`.
        cluster: whether it names a node of a cluster.

    Raises:
        ConfigurationError: it is none of these, or lacks a part. The text quotes nothing of the URL, since
            what cannot be told apart may hold the password.
    """
    if not isinstance(url, str):
        raise ConfigurationError(f"the URL of Redis must be text like {_EXAMPLE}, not {type(url).__name__}")
    try:
        parts = urlsplit(url)
        port = parts.port or 6379
    except ValueError:
        raise ConfigurationError(f"the URL of Redis cannot be read: write it like {_EXAMPLE}") from None
    if parts.scheme == "unix" and parts.path and not cluster:
        return parts.path
    if parts.scheme not in ("redis", "rediss") or not parts.hostname:
        raise ConfigurationError(
            f"the URL of Redis has another scheme, or no host: write it like {_EXAMPLE}; rediss:// is TLS, "
            "and unix:// for the path of a socket, though not of a cluster"
        )
    number = parts.path.strip("/")
    if number and not number.isdecimal():
        raise ConfigurationError(f"the URL of Redis ends in no database's number: write it like {_EXAMPLE}")
    if cluster and number.strip("0"):
        raise ConfigurationError(
            f"the URL of Redis names database {number}, but a cluster has only database 0: leave it out"
        )
    return f"{parts.hostname}:{port}" + (f"/{number}" if number else "")
