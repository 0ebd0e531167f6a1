"""A worker process: an application with one job, which keeps a diary outside Redis.

    python -m tests.faults.worker '{"redis": "redis://…", "port": 8001, "diary": "/tmp/diary", …}'

The job does steps; it writes its start, each step and its end to the diary, one JSON line each, with the
time by a clock that all processes of the machine share. It also keeps the loop busy when it is told to.
"""

from __future__ import annotations

import logging
import os
import sys
import time

import anyio
import msgspec
import uvicorn
from starlette.applications import Starlette

from asynctask.asgi import routes
from asynctask.jobs import Jobs
from asynctask.run import Run
from asynctask.stores.redis import RedisStore


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is told."""

    redis: str
    port: int
    diary: str
    lease: float
    timeout: float
    ttl: float


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is told."""

    steps: int = 10
    pause: float = 0.05
    """Seconds before each step."""
    block: float = 0.0
    """Seconds for which the second step blocks the event loop."""


def application(settings: Settings) -> Starlette:
    """The application of one worker."""
    diary = os.open(settings.diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    store = RedisStore(settings.redis, lease=settings.lease, timeout=settings.timeout, ttl=settings.ttl)
    jobs = Jobs(store=store, shutdown_grace=0.3)

    @jobs.job("work/{name}", cancelable=True)
    async def work(run: Run, payload: Work) -> dict[str, int]:
        def note(what: str, **more: object) -> None:
            entry = {
                "what": what,
                "t": time.monotonic(),
                "pid": os.getpid(),
                "key": run.key,
                "run": run.run_id,
            }
            os.write(diary, msgspec.json.encode({**entry, **more}) + b"\n")  # one write: whole or not at all

        note("start")
        run.total = payload.steps
        try:
            for number in range(payload.steps):
                if payload.block and number == 1:
                    time.sleep(payload.block)  # this is the fault
                await anyio.sleep(payload.pause)
                note("step", number=number)
                run.advance()
        except BaseException:
            note("end", how=str(run.cancel_code))
            raise
        note("end", how="returned")
        return {"steps": payload.steps}

    return Starlette(routes=routes(jobs), lifespan=jobs.lifespan)


def main() -> None:
    """Serve until SIGTERM."""
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    uvicorn.run(
        application(settings),
        host="127.0.0.1",
        port=settings.port,
        lifespan="on",
        log_config=None,
        access_log=False,
        backlog=2048,
        timeout_graceful_shutdown=2,
    )


if __name__ == "__main__":
    main()
