"""The network between a worker and Redis fails, while the others see everything."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio
import pytest

from tests.faults.client import over
from tests.faults.stage import LEASE, TIMEOUT

if TYPE_CHECKING:
    from tests.faults.history import Answer
    from tests.faults.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

LIMIT = 30.0


def runs_of(stage: Stage, key: str) -> dict[str, list[str]]:
    """What was executed for a key: for each run, how often it ended and how."""
    found: dict[str, list[str]] = {}
    for entry in stage.history.entries():
        if entry.key == key:
            found.setdefault(entry.run, []).extend([entry.how] * (entry.what == "end"))
    return found


async def test_short_blackhole(stage: Stage) -> None:
    """A worker cut off for less than its lease goes on, and its outcome counts."""
    client = stage.client("short blackhole")
    run = await client.trigger(0, "work/short-blackhole", steps=40)
    began = time.monotonic()
    stage.network.set(0, "blackhole")
    await anyio.sleep(LEASE / 4)
    stage.network.set(0, "pass")
    stage.history.fault("blackhole", 0, began=began)
    done = await client.watch("work/short-blackhole", lambda: [1, 2], until=over, limit=LIMIT)
    assert (done.run, done.state) == (run.run, "SUCCESS")


async def test_long_blackhole(stage: Stage) -> None:
    """A worker cut off for longer stops its job by itself before another may start one; then all heals."""
    client, key = stage.client("long blackhole"), "work/long-blackhole"
    first = await client.trigger(0, key, steps=1000)
    began = time.monotonic()
    stage.network.set(0, "blackhole")
    away = await client.status(0, key)
    assert (away.status, away.code) == (503, "store_unavailable")
    lost = await client.watch(key, lambda: [1, 2], until=over, limit=LIMIT)
    assert (lost.run, lost.code) == (first.run, "worker_lost")
    second = await client.trigger(1, key, steps=20)
    assert second.started
    assert runs_of(stage, key)[str(first.run)] == ["worker_lost"]  # it had stopped before
    done = await client.watch(key, lambda: [1, 2], until=over, limit=LIMIT)
    assert (done.run, done.state) == (second.run, "SUCCESS")
    stage.network.set(0, "pass")
    stage.history.fault("blackhole", 0, began=began)
    back = await client.watch(key, lambda: [0], until=lambda a: a.status == 200, limit=LIMIT)
    assert back.run == second.run


async def test_lost_answers(stage: Stage) -> None:
    """A claim that was executed though its answer was lost: 503, nothing executed, and the key is soon
    free."""
    client, key = stage.client("lost answers"), "work/lost-answers"
    await client.status(0, key)  # so that there is a connection to send the claim on
    began = time.monotonic()
    stage.network.set(0, "mute")
    refused = await client.trigger(0, key, steps=3)
    assert (refused.status, refused.code) == (503, "store_unavailable")
    joined = await client.trigger(1, key, steps=3)
    stage.network.set(0, "pass")
    stage.history.fault("mute", 0, began=began)
    assert joined.status == 202
    done = await client.watch(key, lambda: [1, 2], until=over, limit=LEASE + 1)
    if joined.started:
        assert done.state == "SUCCESS"
    else:
        assert (done.run, done.code) == (joined.run, "worker_lost")
    assert len(runs_of(stage, key)) == int(joined.started is True)


async def test_lost_answer_is_asked_for_again(stage: Stage) -> None:
    """If the network heals in time, the repeated claim is recognised: one run, executed once."""
    client, key = stage.client("lost once"), "work/lost-once"
    answers: list[Answer] = []
    await client.status(0, key)  # so that there is a connection to send the claim on

    async def trigger() -> None:
        answers.append(await client.trigger(0, key, steps=5))

    began = time.monotonic()
    stage.network.set(0, "mute")
    async with anyio.create_task_group() as group:
        group.start_soon(trigger)
        with stage.look() as redis:
            while not redis.exists("asynctask:{t:}:work/%7Bname%7D:work/lost-once"):
                assert time.monotonic() < began + TIMEOUT / 2, "the claim was not sent in time"
                await anyio.sleep(0.01)
        stage.network.set(0, "pass")
    stage.history.fault("mute", 0, began=began)
    (answer,) = answers
    assert (answer.status, answer.started) == (202, True)
    done = await client.watch(key, stage.reachable, until=over, limit=LIMIT)
    assert (done.run, done.state) == (answer.run, "SUCCESS")
    assert runs_of(stage, key) == {answer.run: ["returned"]}


async def test_late_requests(stage: Stage) -> None:
    """A claim that arrives after its sender has given up executes nothing, and is given up in turn."""
    client, key = stage.client("late"), "work/late"
    began = time.monotonic()
    stage.network.set(0, "late", 1.5 * TIMEOUT)
    refused = await client.trigger(0, key, steps=3)
    assert refused.status == 503
    await anyio.sleep(TIMEOUT)
    stage.network.set(0, "pass")
    stage.history.fault("late", 0, began=began)
    await client.watch(key, lambda: [1, 2], until=lambda a: a.state != "RUNNING", limit=LEASE + TIMEOUT + 1)
    assert runs_of(stage, key) == {}
    again = await client.trigger(0, key, steps=3)
    assert again.started
    await client.watch(key, stage.reachable, until=over, limit=LIMIT)


async def test_late_outcome(stage: Stage) -> None:
    """An outcome that was sent in time and arrives when another run has the key does not touch that run."""
    client, key = stage.client("late outcome"), "work/late-outcome"
    first = await client.trigger(0, key, steps=30, pause=0.05)
    assert first.started
    await client.watch(key, lambda: [1, 2], until=lambda a: a.version > 2, limit=LIMIT)
    began, delay = time.monotonic(), LEASE + 1.5
    stage.network.set(0, "late", delay)
    lost = await client.watch(key, lambda: [1, 2], until=over, limit=LIMIT)
    if lost.state == "SUCCESS":
        return  # so slow a machine that the run had ended before its network was late
    second = await client.trigger(1, key, steps=60, pause=0.05)
    assert second.started
    await anyio.sleep(max(0.0, began + delay + 0.5 - time.monotonic()))
    stage.network.set(0, "pass")
    stage.history.fault("late", 0, began=began)
    done = await client.watch(key, lambda: [1, 2], until=over, limit=LIMIT)
    assert (done.run, done.state) == (second.run, "SUCCESS")


async def test_slow_network(stage: Stage) -> None:
    """Answers that take a while are only slow: nothing fails, and no run is lost."""
    client, key = stage.client("slow"), "work/slow"
    began = time.monotonic()
    stage.network.set(0, "slow", TIMEOUT / 20)  # a new connection takes several answers
    run = await client.trigger(0, key, steps=50)
    assert (run.status, run.started) == (202, True)
    done = await client.watch(key, lambda: [0], until=over, limit=LIMIT)
    assert (done.run, done.state) == (run.run, "SUCCESS")
    stage.network.set(0, "pass")
    stage.history.fault("slow", 0, began=began)


async def test_resets(stage: Stage) -> None:
    """Connections that are reset again and again are replaced; no run is lost and nobody notices."""
    client, key = stage.client("resets"), "work/resets"
    run = await client.trigger(0, key, steps=40)
    assert run.started
    for _ in range(8):
        began = time.monotonic()
        stage.network.set(0, "reset")
        stage.network.set(0, "pass")
        stage.history.fault("reset", 0, began=began)
        assert (await client.status(0, key)).status == 200
        await anyio.sleep(0.1)
    done = await client.watch(key, stage.reachable, until=over, limit=LIMIT)
    assert (done.run, done.state) == (run.run, "SUCCESS")
