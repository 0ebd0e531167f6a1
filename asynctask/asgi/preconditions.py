"""What a request's headers ask for: conditional requests, preferences, and whether a POST may be ours."""

from __future__ import annotations

import re
from collections.abc import Iterable

from asynctask.asgi.wire import Refusal
from asynctask.errors import ConfigurationError

RawHeaders = Iterable[tuple[bytes, bytes]]

# What stands between commas, those in quoted text apart.
_PREFERENCE = re.compile(rb'(?:[^,"]|"(?:\\.|[^"\\])*"?)+')
_TAG = re.compile(rb'(?:W/)?("[^"]*")')
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:.]+\]|[^/?#@:*\s]+)(?::\d+)?")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def header(headers: RawHeaders, name: bytes) -> bytes | None:
    """Return a header's value, its lines joined by commas (RFC 9110, section 5.3); None if it is absent."""
    found = None
    for key, value in headers:
        if key == name:
            found = value if found is None else found + b", " + value
    return found


def preferred_wait(headers: RawHeaders, cap: float) -> float | None:
    """Return for how many seconds `Prefer: wait=N` (RFC 7240) asks us to wait, capped; None if it does not.

    Of several only the first counts, and one that makes no sense is ignored, as section 2 demands.
    """
    value = header(headers, b"prefer")
    for preference in () if value is None else _PREFERENCE.findall(value):
        name, _, seconds = preference.partition(b";")[0].partition(b"=")
        if name.strip().lower() == b"wait":
            seconds = seconds.strip()
            if seconds[:1] == seconds[-1:] == b'"':
                seconds = seconds[1:-1]
            return min(float(seconds), cap) if seconds.isdigit() else None
    return None


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
        if isinstance(allowed, str) or not isinstance(allowed, Iterable):
            raise ConfigurationError(f"allowed_origins={allowed!r} must be a list of origins: [{allowed!r}]")
        self._allowed = frozenset(map(_check_origin, allowed))

    def check(self, headers: RawHeaders) -> None:
        """Raise a 403 unless the request comes from this site, an allowed one, or no browser at all."""
        site = header(headers, b"sec-fetch-site")
        if site in (b"same-origin", b"none"):
            return
        raw = header(headers, b"origin")
        origin = None if raw is None else _plain(raw.decode("latin-1"))
        if origin in self._allowed or (origin is None and site is None):
            return
        if site is None and origin is not None and _same_host(origin, header(headers, b"host")):
            return
        raise Refusal(
            403,
            "cross_site",
            f"this request was sent by a page of {(origin or 'another site')[:200]}; if it may trigger jobs, "
            "add its origin to routes(…, allowed_origins=[…])",
        )


def _check_origin(origin: str) -> str:
    if not isinstance(origin, str) or not _ORIGIN.fullmatch(origin.lower()):
        raise ConfigurationError(
            f"allowed_origins holds {origin!r}, which is no origin: write scheme, host and port only, "
            "like 'https://app.example.com'"
        )
    return _plain(origin)


def _plain(origin: str) -> str:
    """Write an origin as browsers do: in lower case, without the default port of its scheme."""
    origin = origin.lower()
    return origin.removesuffix(_DEFAULT_PORTS.get(origin.partition(":")[0], ""))


def _same_host(origin: str, host: bytes | None) -> bool:
    """Compare without the scheme, which a proxy that ends TLS changes."""
    scheme, _, place = origin.partition("://")
    if not place or host is None:
        return False
    return place == host.decode("latin-1").lower().removesuffix(_DEFAULT_PORTS.get(scheme, ""))
