"""Admission: how many runs may be under way, and what a refusal says."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from asynctask.admission import RETRY_AFTER, Admission
from asynctask.errors import CapacityError, ConfigurationError, TenantLimitError
from asynctask.keys import Key


def test_the_process_is_full_at_its_limit() -> None:
    """503 with Retry-After, and a place that is given back can be taken again."""
    admission = Admission(2, None)
    admission.take("a")
    admission.take("a")
    with pytest.raises(CapacityError, match="2 runs are under way") as caught:
        admission.take("b")
    assert (caught.value.status, caught.value.retry_after) == (503, RETRY_AFTER)
    admission.give_back("a")
    admission.take("b")


def test_a_tenant_is_full_at_its_limit_and_others_are_not() -> None:
    """429, for that tenant alone."""
    admission = Admission(10, 1)
    admission.take("a")
    with pytest.raises(TenantLimitError, match="1 runs are under way for this tenant") as caught:
        admission.take("a")
    assert (caught.value.status, caught.value.retry_after) == (429, RETRY_AFTER)
    admission.take("b")
    admission.give_back("a")
    admission.take("a")


def test_a_refusal_takes_no_place() -> None:
    """However often it is tried."""
    admission = Admission(2, 1)
    admission.take("a")
    for _ in range(5):
        with pytest.raises(TenantLimitError):
            admission.take("a")
    admission.take("b")
    with pytest.raises(CapacityError):
        admission.take("c")


def test_a_tenant_that_has_nothing_under_way_leaves_no_trace() -> None:
    """The specification's trap #2: a map of all tenants ever seen grows for ever."""
    admission = Admission(10, 5)
    for n in range(1000):
        admission.take(f"t{n}")
        admission.give_back(f"t{n}")
    key = Key("job", "job", "a")
    admission.begin_claim(key)
    admission.end_claim(key)
    assert not any(isinstance(kept, dict) and kept for kept in vars(admission).values())


@pytest.mark.parametrize("limit", [0, -1, 1.0, True, "5", None])
def test_an_unfit_limit_is_refused(limit: Any) -> None:
    """A whole number of at least 1; for the tenant's also None."""
    with pytest.raises(ConfigurationError, match=f"max_running={limit!r}"):
        Admission(limit, None)
    if limit is not None:
        with pytest.raises(ConfigurationError, match=f"max_running_per_tenant={limit!r}"):
            Admission(1, limit)


@pytest.mark.anyio
async def test_waiting_for_the_answer_to_a_claim() -> None:
    """Who found no place waits as long as a claim of the same key is unanswered, and no longer."""
    admission = Admission(1, None)
    key, other = Key("job", "job", "a"), Key("job", "job", "b")
    order: list[str] = []

    async def wait() -> None:
        await admission.answered(key)
        order.append("heard")

    await admission.answered(key)
    admission.begin_claim(key)
    admission.begin_claim(key)
    async with anyio.create_task_group() as group:
        await admission.answered(other)
        group.start_soon(wait)
        group.start_soon(wait)
        for _ in range(5):
            await checkpoint()
        order.append("answered")
        admission.end_claim(key)
    admission.end_claim(key)
    await admission.answered(key)
    assert order == ["answered", "heard", "heard"]
