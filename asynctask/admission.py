"""Admission: how many runs may be under way in this process, in all and for each tenant."""

from __future__ import annotations

from asynctask.errors import CapacityError, ConfigurationError, TenantLimitError

RETRY_AFTER = 5
"""What a refused client is told to wait, in seconds."""


class Admission:
    """Counts runs under way; a claim takes a place before and gives it back after.

    Args:
        limit: most runs in this process.
        tenant_limit: most runs of one tenant in this process; None for no limit of its own.
    """

    def __init__(self, limit: int, tenant_limit: int | None) -> None:
        self._limit = _check("max_running", limit)
        self._tenant_limit = None if tenant_limit is None else _check("max_running_per_tenant", tenant_limit)
        self._total = 0
        self._by_tenant: dict[str, int] = {}

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


def _check(name: str, value: object) -> int:
    if type(value) is not int or value < 1:
        raise ConfigurationError(f"{name}={value!r} must be a whole number of runs, at least 1")
    return value
