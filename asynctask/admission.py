"""Admission: how many runs may be under way in this process, in all and for each tenant."""

from __future__ import annotations

import anyio

from asynctask.errors import CapacityError, ConfigurationError, TenantLimitError
from asynctask.keys import Key

RETRY_AFTER = 5
"""What a refused client is told to wait, in seconds."""


class Admission:
    """Counts runs under way; a claim takes a place before, which is given back when its run ends.

    Args:
        limit: most runs in this process.
        tenant_limit: most runs of one tenant in this process; None for no limit of its own.
    """

    def __init__(self, limit: int, tenant_limit: int | None) -> None:
        self._limit = _check("max_running", limit)
        self._tenant_limit = None if tenant_limit is None else _check("max_running_per_tenant", tenant_limit)
        self._total = 0
        self._by_tenant: dict[str, int] = {}
        self._claims: dict[Key, int] = {}
        self._answers: dict[Key, anyio.Event] = {}

    def take(self, tenant: str) -> None:
        """Take a place.

        Raises:
            CapacityError: the process is full.
            TenantLimitError: the tenant is.
        """
        of_tenant = self._by_tenant.get(tenant, 0)
        if self._tenant_limit is not None and of_tenant >= self._tenant_limit:
            raise TenantLimitError(
                f"{of_tenant} runs are under way for this tenant, its limit; try again when one ends",
                retry_after=RETRY_AFTER,
            )
        if self._total >= self._limit:
            raise CapacityError(
                f"{self._total} runs are under way, which is this server's limit; try again when one ends",
                retry_after=RETRY_AFTER,
            )
        self._total += 1
        self._by_tenant[tenant] = of_tenant + 1

    def give_back(self, tenant: str) -> None:
        """Give a place back."""
        self._total -= 1
        left = self._by_tenant[tenant] - 1
        if left:
            self._by_tenant[tenant] = left
        else:
            del self._by_tenant[tenant]

    def begin_claim(self, key: Key) -> None:
        """Note that the store is asked for a key."""
        self._claims[key] = self._claims.get(key, 0) + 1

    def end_claim(self, key: Key) -> None:
        """Note that it has answered."""
        left = self._claims[key] - 1
        if left:
            self._claims[key] = left
        else:
            del self._claims[key]
        if (answer := self._answers.pop(key, None)) is not None:
            answer.set()

    async def answered(self, key: Key) -> None:
        """Wait until the store has answered a claim of the key that is under way, if one is."""
        if key in self._claims:
            await self._answers.setdefault(key, anyio.Event()).wait()


def _check(name: str, value: object) -> int:
    if type(value) is not int or value < 1:
        raise ConfigurationError(f"{name}={value!r} must be a whole number of runs, at least 1")
    return value
