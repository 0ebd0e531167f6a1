"""Several worker processes with the store of one process."""

from __future__ import annotations

from tests.server.harness import Server

WARNING = r"WARNING\|asynctask\|.*MemoryStore is in use in one of 2 worker processes.*RedisStore"


def test_two_workers_with_the_memory_store_warn() -> None:
    """Each says that it has runs of its own, and what to do about it."""
    with Server("plain", "--workers", "2") as server:
        server.wait_for(WARNING, count=2)


def test_one_worker_does_not_warn() -> None:
    """Neither without the option nor with the option set to one."""
    for arguments in ((), ("--workers", "1")):
        with Server("plain", *arguments) as server:
            assert server.request("GET", "/api/held/status").status == 200
            assert "MemoryStore" not in server.stop()
