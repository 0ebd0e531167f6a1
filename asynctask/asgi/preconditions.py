"""What a request's headers ask for: conditional requests, preferences, and whether a POST may be ours."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from asynctask.asgi.wire import Refusal
from asynctask.errors import ConfigurationError

RawHeaders = Iterable[tuple[bytes, bytes]]

_WAIT = re.compile(rb"(?:^|[,;])\s*wait\s*=\s*\"?(\d{1,9})\"?\s*(?=[,;]|$)", re.IGNORECASE)
_TAG = re.compile(rb'(?:W/)?("[^"]*")')
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def header(headers: RawHeaders, name: bytes) -> bytes | None:
    """Return a header's value, its lines joined by commas (RFC 9110, section 5.3); None if it is absent."""
    found = None
    for key, value in headers:
        if key == name:
            found = value if found is None else found + b", " + value
    return found


def preferred_wait(headers: RawHeaders, cap: float) -> int | None:
    """Return for how many seconds `Prefer: wait=N` (RFC 7240) asks us to wait, capped; None if it does not.

    Preferences that make no sense are ignored, as the RFC demands.
    """
    value = header(headers, b"prefer")
    match = _WAIT.search(value) if value is not None else None
    return min(int(match[1]), int(cap)) if match else None


def none_match(headers: RawHeaders, etag: bytes) -> bool:
    """Whether `If-None-Match` names this entity tag; the comparison is weak (RFC 9110, section 13.1.2)."""
    value = header(headers, b"if-none-match")
    if value is None:
        return False
    return value == etag or value.strip() == b"*" or etag in _TAG.findall(value)


class SameSite:
    """Refuses POSTs that another site's page made a browser send.

    Such a POST without a body, or with a text/plain one, needs no preflight, so CORS does not stop it.

    Args:
        allowed: origins of other sites that may trigger, like `https://app.example.com`.

    Raises:
        ConfigurationError: an entry is no origin.
    """

    def __init__(self, allowed: Iterable[str]) -> None:
        if isinstance(allowed, str):
            raise ConfigurationError(f"allowed_origins={allowed!r} must be a list of origins: [{allowed!r}]")
        self._allowed = frozenset(map(_check_origin, allowed))

    def check(self, headers: RawHeaders) -> None:
        """Raise a 403 unless the request comes from this site, an allowed one, or no browser at all."""
        site = header(headers, b"sec-fetch-site")
        if site in (b"same-origin", b"none"):
            return
        raw = header(headers, b"origin")
        origin = None if raw is None else raw.decode("latin-1").lower()
        if origin in self._allowed or (origin is None and site is None):
            return
        if site is None and origin is not None and _same_host(origin, header(headers, b"host")):
            return
        raise Refusal(
            403,
            "cross_site",
            f"this request was sent by a page of {origin or 'another site'}; if that page may trigger jobs, "
            "add its origin to routes(…, allowed_origins=[…])",
        )


def _check_origin(origin: str) -> str:
    parts = urlsplit(origin) if isinstance(origin, str) else None
    if parts is None or not parts.scheme or not parts.netloc or parts.path or parts.query or parts.fragment:
        raise ConfigurationError(
            f"allowed_origins holds {origin!r}, which is no origin: write scheme, host and port only, "
            "like 'https://app.example.com'"
        )
    return origin.lower()


def _same_host(origin: str, host: bytes | None) -> bool:
    """Compare without the scheme, which a proxy that ends TLS changes."""
    scheme, _, place = origin.partition("://")
    if not place or host is None:
        return False
    port = _DEFAULT_PORTS.get(scheme, "")
    return place.removesuffix(port) == host.decode("latin-1").lower().removesuffix(port)
