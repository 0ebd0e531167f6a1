"""Many at once, over real HTTP, on three workers."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import anyio
import pytest

from tests.faults.client import over
from tests.faults.history import Answer
from tests.faults.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.faults]

TRIGGERS = 1000


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Workers with the store's own defaults: a machine that is this busy needs a lease that is no toy."""
    with Stage(tmp_path, lease=15.0, timeout=3.0) as stage:
        yield stage
        stage.check(0.0)


@pytest.fixture
def enough_files() -> Iterator[None]:
    """Let this process hold a thousand connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in (-1, resource.RLIM_INFINITY) and hard < 2 * TRIGGERS:
        pytest.skip(f"this machine allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * TRIGGERS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_thousand_triggers_of_one_key(stage: Stage, enough_files: None) -> None:
    """A thousand concurrent triggers over three workers: a thousand times 202, one run, one execution."""
    key, answers = "work/storm", list[Answer]()

    async def trigger(number: int) -> None:
        client = stage.client(f"storm {number}")
        answers.append(await client.trigger(number % 3, key, steps=60, pause=0.25, patience=60.0))

    async with anyio.create_task_group() as group:
        for number in range(TRIGGERS):
            group.start_soon(trigger, number)
    assert {answer.status for answer in answers} == {202}
    assert len(answers) == TRIGGERS
    assert len({answer.run for answer in answers}) == 1
    assert sum(answer.started is True for answer in answers) == 1
    assert len([e for e in stage.history.entries() if e.key == key and e.what == "start"]) == 1
    client = stage.client("storm")
    assert (await client.cancel(1, key)).status == 202
    done = await client.watch(key, stage.reachable, until=over, limit=30.0)
    assert done.run == answers[0].run
