"""Several workers of the demo: one Redis for the state of the jobs and for the lists they make."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
from typing import TYPE_CHECKING

import msgspec
import redis.asyncio
import uvicorn

from asynctask.errors import ConfigurationError, StoreUnavailableError
from asynctask.stores.redis import RedisStore
from demo.duplicates import Found
from demo.options import Settings

if TYPE_CHECKING:
    import socket

VARIABLE = "ASYNCTASK_DEMO"
"""The environment variable that hands the settings to the worker processes."""


class RedisShelf:
    """A shelf that all workers see; a list is kept for a day."""

    def __init__(self, url: str) -> None:
        self._redis = redis.asyncio.Redis.from_url(url)

    async def put(self, tenant: str, found: Found) -> None:
        await self._redis.set(f"demo:duplicates:{tenant}", msgspec.json.encode(found), ex=86_400)

    async def get(self, tenant: str) -> Found | None:
        kept = await self._redis.get(f"demo:duplicates:{tenant}")
        return msgspec.json.decode(kept, type=Found) if kept else None

    async def aclose(self) -> None:
        await self._redis.aclose()


def check(settings: Settings) -> None:
    """Read from the Redis once: a worker would wait for one that is away, but a mistyped URL never comes.

    Raises:
        AsyncTaskError: the server cannot be reached or used; the message says why.
    """

    async def connect() -> None:
        store = RedisStore(settings.redis or "")
        try:
            async with store:
                await store.list("")
        except StoreUnavailableError:
            raise ConfigurationError(
                f"{store!r} does not answer: start it, or give another --redis"
            ) from None

    logging.disable()  # the store's own warning would be a second line
    try:
        asyncio.run(connect())
    finally:
        logging.disable(logging.NOTSET)


def serve_workers(settings: Settings, listener: socket.socket) -> None:
    """Serve by worker processes that share one listening socket, until SIGINT or SIGTERM.

    Args:
        settings: `workers` says how many; `redis` must name a server.
        listener: a socket that listens already.
    """
    os.environ[VARIABLE] = msgspec.json.encode(settings).decode()
    uvicorn.run(
        "app:from_environment",
        factory=True,
        workers=settings.workers,
        fd=listener.fileno(),
        lifespan="on",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=2,
    )


def settings_of_worker() -> Settings:
    """The settings that `serve_workers` left behind; from here on this worker ends with its parent."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def watch() -> None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)  # which uvicorn takes for the order to end

        threading.Thread(target=watch, daemon=True).start()
    return msgspec.json.decode(os.environ[VARIABLE], type=Settings)
