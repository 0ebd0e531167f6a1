"""Jobs that wait at a gate, and stores that answer late or not at all."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel

from asynctask import Jobs, MemoryStore, Run, StoreUnavailableError
from asynctask.stores.base import Claim
from asynctask.testing import Gate


class Shop:
    """Jobs that wait at a gate, and what they were called with."""

    def __init__(self, **options: Any) -> None:
        self.gate = Gate()
        self.calls: list[tuple[str, Any]] = []
        self.jobs = Jobs(**{"shutdown_grace": 0, **options})

        @self.jobs.job("check")
        async def check(run: Run) -> str:
            self.calls.append((run.tenant, None))
            await self.gate.wait()
            return run.tenant

        @self.jobs.job("import/{file}")
        async def load(run: Run, payload: dict[str, int]) -> dict[str, Any]:
            self.calls.append((run.tenant, payload))
            await self.gate.wait()
            return {"file": run.params["file"], **payload}


class Remote(MemoryStore):
    """A memory store that answers late, as one behind a network does."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = anyio.Event()
        self.asked = 0

    async def claim(self, run: Run) -> Claim:
        self.asked += 1
        await self.answers.wait()
        return await super().claim(run)

    def peek(self, key: object) -> None:
        return None


class Away(MemoryStore):
    """A store that cannot be reached."""

    async def claim(self, run: Run) -> Claim:
        await anyio.lowlevel.checkpoint()
        raise StoreUnavailableError("the store is away")
