"""The duplicate check itself: ask the remote API about each title, group equal answers, keep the list."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Protocol, Self

import httpx
import msgspec

from asynctask import PooledTransport

if TYPE_CHECKING:
    from collections.abc import Iterable


class Product(msgspec.Struct, frozen=True):
    """One line of a catalogue; `id` is its number, from 1."""

    id: int
    title: str


class Fingerprint(msgspec.Struct, frozen=True):
    """The remote API's answer."""

    fingerprint: str


class Group(msgspec.Struct, frozen=True):
    """Products that are one and the same to the remote API."""

    fingerprint: str
    products: list[Product]


class Found(msgspec.Struct, frozen=True):
    """What one check found: the list that is too long for a job's summary."""

    run_id: str
    products: int
    groups: list[Group]

    @property
    def summary(self) -> dict[str, int]:
        """The counts: products checked, groups of equal ones, and how many could be deleted."""
        surplus = sum(len(group.products) - 1 for group in self.groups)
        return {"products": self.products, "groups": len(self.groups), "duplicates": surplus}


def find(run_id: str, titles: Iterable[str], prints: Iterable[str]) -> Found:
    """Group the products whose fingerprints are equal, in the catalogue's order.

    Args:
        run_id: of the check that this is the result of.
        titles: of the products.
        prints: the fingerprint of each.
    """
    same: defaultdict[str, list[Product]] = defaultdict(list)
    count = 0
    for count, (title, fingerprint) in enumerate(zip(titles, prints, strict=True), start=1):
        same[fingerprint].append(Product(count, title))
    groups = [Group(fingerprint, products) for fingerprint, products in same.items() if len(products) > 1]
    return Found(run_id, count, groups)


class RemoteApi:
    """The client's side of `demo.remote_api`; an async context manager that closes its connections.

    Args:
        url: where the service listens.
        max_connections: open at the same time, over all jobs and requests of this process.
    """

    def __init__(self, url: str, *, max_connections: int) -> None:
        self._url = httpx.URL(f"{url}/fingerprint")  # parsed once, not for each of 6,000 calls
        self._client = httpx.AsyncClient(
            transport=PooledTransport(max_connections=max_connections),
            headers={"Content-Type": "application/json"},
            # Waiting for a connection that other tenants' checks hold is no fault: no limit on that.
            timeout=httpx.Timeout(90.0, connect=5.0, pool=None),
        )

    async def fingerprint(self, title: str) -> str:
        """The remote API's name for the product that `title` stands for.

        Raises:
            httpx.HTTPStatusError: the service answered with an error.
            httpx.TransportError: it did not answer.
        """
        response = await self._client.post(self._url, content=msgspec.json.encode({"title": title}))
        response.raise_for_status()
        return msgspec.json.decode(response.content, type=Fingerprint).fingerprint

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *details: Any) -> None:
        await self._client.__aexit__(*details)


class Shelf(Protocol):
    """Where the latest list of each tenant lies: a table of the application's own, not the job's state."""

    async def put(self, tenant: str, found: Found) -> None:
        """Keep `found` in place of what was there."""

    async def get(self, tenant: str) -> Found | None:
        """What was put last, None before the first check."""

    async def aclose(self) -> None:
        """Let go of connections."""


class MemoryShelf:
    """A shelf for one process; two tenants' lists at most."""

    def __init__(self) -> None:
        self._found: dict[str, Found] = {}

    async def put(self, tenant: str, found: Found) -> None:
        self._found[tenant] = found

    async def get(self, tenant: str) -> Found | None:
        return self._found.get(tenant)

    async def aclose(self) -> None:
        pass
