"""The clients that the tests of the transport are run with."""

from __future__ import annotations

from typing import Any

import httpx
import httpx2

from asynctask.remote import PooledTransport

CLIENTS = ["httpx", "httpx2"]


def client_of(kind: str, transport: Any = None, *, timeout: float | None = 30, **options: Any) -> Any:
    """A client of httpx or of httpx2 on a PooledTransport.

    Args:
        kind: which package's.
        transport: the transport; one with `options` by default.
        timeout: seconds for each of connect, read, write and pool; a deadlock, not a fast machine, is what
            the default is to tell.
    """
    package: Any = {"httpx": httpx, "httpx2": httpx2}[kind]
    if transport is None:
        options.setdefault("verify", False)  # most tests speak http: spare them reading the certificates
        transport = PooledTransport(**options)
    return package.AsyncClient(transport=transport, timeout=timeout)
