"""Faults of all kinds in an order that a seed decides, under load; the invariants are checked afterwards.

`ASYNCTASK_SEED=7 pytest tests/faults/test_chaos.py` replays the order of one seed. What then happens
depends on the timing of the machine as well, so the history that was written is what a failure is read
from.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest

from tests.faults.client import over
from tests.faults.stage import LEASE, TIMEOUT, long_form, seeds

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.proxy import Mode
    from tests.faults.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.faults, pytest.mark.timeout(300)]

SECONDS = 60.0 if long_form() else 10.0
KEYS = 4
MODES: list[Mode] = ["blackhole", "mute", "slow", "late", "reset"]


class Chaos:
    """Does one fault after the other, several at a time.

    Args:
        stage: to whom.
        seed: what decides on their order.
    """

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._random = random.Random(seed)
        self._busy: set[int] = set()  # the workers that something is being done to; -1 for Redis
        self.done: list[str] = []

    async def act(self, until: float) -> None:
        """Do faults until then, and end each."""
        faults = [self.kill, self.terminate, self.pause, self.network, self.network, self.redis, self.memory]
        async with anyio.create_task_group() as group:
            while time.monotonic() < until:
                fault, victim = self._random.choice(faults), self._random.randrange(3)
                seconds = self._random.uniform(0.1, 1.2 * LEASE)
                await anyio.sleep(self._random.uniform(0.0, 0.4))
                if fault in (self.redis, self.memory):
                    victim = -1
                # One worker is always left alone, so that there is somebody to ask.
                if victim not in self._busy and len(self._busy - {-1, victim}) < 2 - (victim == -1):
                    self._busy.add(victim)
                    self.done.append(f"{fault.__name__} {victim}")
                    group.start_soon(self._one, fault, victim, seconds, self._random.choice(MODES))

    async def _one(
        self, fault: Callable[[int, float, Mode], object], victim: int, seconds: float, mode: Mode
    ) -> None:
        try:
            await fault(victim, seconds, mode)  # type: ignore[misc]
        finally:
            self._busy.discard(victim)

    async def kill(self, victim: int, seconds: float, mode: Mode) -> None:
        await anyio.to_thread.run_sync(self._stage.kill, victim)
        await anyio.sleep(seconds)
        await anyio.to_thread.run_sync(self._stage.start, victim)

    async def terminate(self, victim: int, seconds: float, mode: Mode) -> None:
        await anyio.to_thread.run_sync(self._stage.end, victim)
        await anyio.to_thread.run_sync(self._stage.start, victim)

    async def pause(self, victim: int, seconds: float, mode: Mode) -> None:
        began = self._stage.pause(victim)
        await anyio.sleep(seconds)
        self._stage.go_on(victim, began)

    async def network(self, victim: int, seconds: float, mode: Mode) -> None:
        began = time.monotonic()
        self._stage.network.set(victim, mode, TIMEOUT * 1.2 if mode == "late" else TIMEOUT / 4)
        await anyio.sleep(seconds)
        self._stage.network.set(victim, "pass")
        self._stage.history.fault(mode, victim, began=began)

    async def redis(self, victim: int, seconds: float, mode: Mode) -> None:
        began = await anyio.to_thread.run_sync(self._stage.kill_redis)
        await anyio.sleep(seconds / 3)
        await anyio.to_thread.run_sync(self._stage.revive_redis, began)

    async def memory(self, victim: int, seconds: float, mode: Mode) -> None:
        began = time.monotonic()
        with self._stage.look() as redis:
            redis.config_set("maxmemory", 1)
            await anyio.sleep(seconds)
            redis.config_set("maxmemory", 0)
        self._stage.history.fault("full", -1, began=began)


@pytest.mark.parametrize("seed", seeds())
async def test_chaos(stage: Stage, seed: int) -> None:
    """Whatever fails in whatever order, no promise is broken, and when it is over everything ends."""
    until = time.monotonic() + SECONDS
    chaos, finished = Chaos(stage, seed), dict[str, int]()

    async def user(number: int) -> None:
        key, order = f"work/chaos-{seed}-{number % KEYS}", random.Random(1000 * seed + number)
        client = stage.client(f"user {seed}.{number}")
        while time.monotonic() < until:
            reachable = stage.reachable()
            if not reachable:
                await anyio.sleep(0.1)
                continue
            worker = order.choice(reachable)
            await client.trigger(worker, key, steps=order.randint(2, 30), patience=2.0)
            for _ in range(order.randint(1, 20)):
                if (reachable := stage.reachable()) and over(
                    answer := await client.status(order.choice(reachable), key, patience=1.0)
                ):
                    finished[str(answer.code or answer.state)] = (
                        finished.get(str(answer.code or answer.state), 0) + 1
                    )
                    break
                await anyio.sleep(0.05)

    async with anyio.create_task_group() as group:
        group.start_soon(chaos.act, until)
        for number in range(2 * KEYS):
            group.start_soon(user, number)
    await anyio.to_thread.run_sync(stage.heal)
    client = stage.client(f"judge {seed}")
    for number in range(KEYS):
        await client.watch(
            f"work/chaos-{seed}-{number}",
            stage.reachable,
            until=lambda answer: answer.state != "RUNNING",
            limit=LEASE + 10,
        )
    print(f"seed {seed}: {len(chaos.done)} faults: {', '.join(chaos.done)}; ends seen: {finished}")
    assert finished.get("SUCCESS", 0) > 0, finished
