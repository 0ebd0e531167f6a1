"""What a Redis store refuses before it reaches any server."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import trio

from asynctask.errors import ConfigurationError
from asynctask.stores.redis import RedisStore
from asynctask.stores.redis.connection import check


def test_too_old_server_is_refused() -> None:
    """A server older than 6.2 is a clear error that names its version."""
    with pytest.raises(ConfigurationError, match=r"here:1 is version 6\.0\.16; RedisStore needs 6\.2"):
        check({"redis_version": "6.0.16"}, "here:1")
    for version in ("6.2.0", "7.0.15", "7.2.4", "10.1", "255.255.255"):
        check({"redis_version": version}, "here:1")


def test_trio_is_refused_with_its_reason() -> None:
    """On trio the store says that it needs asyncio, rather than fail somewhere within redis-py."""

    async def enter() -> None:
        async with RedisStore("redis://127.0.0.1:1"):
            pass

    with pytest.raises(ConfigurationError, match="asyncio only"):
        trio.run(enter)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"ttl": 0}, "ttl=0"),
        ({"ttl": float("nan")}, "ttl=nan"),
        ({"ttl": float("inf")}, "ttl=inf"),
        ({"ttl": "3600"}, "ttl='3600'"),
        ({"lease": True}, "lease=True"),
        ({"lease": -1}, "lease=-1"),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": 10.0}, "timeout=10.0 must be at most half of lease=15.0"),
        ({"progress_deadline": 0}, "progress_deadline=0"),
        ({"max_connections": 0}, "max_connections=0"),
        ({"max_connections": 2.5}, "max_connections=2.5"),
        ({"prefix": "a{b"}, "prefix='a{b'"),
    ],
)
def test_unfit_options(options: dict[str, Any], named: str) -> None:
    """An unfit option is refused when the store is made, with its value."""
    with pytest.raises(ConfigurationError) as caught:
        RedisStore("redis://127.0.0.1", **options)
    assert named in str(caught.value)


@pytest.mark.parametrize("cluster", [False, True])
@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:6379",
        "http://user:hunter2@host",
        "redis://",
        "redis://user:hunter2@",
        "redis://user:hunter2/x@host:6379/0",
        "redis://user:hunter2@host:port",
        "redis://:hunter2@host:6379/zero",
        "redis://:hunter2[@host",
        None,
        7,
    ],
)
def test_unfit_urls(url: object, cluster: bool) -> None:
    """An unfit URL is refused when the store is made, without a word of it: it may hold a password."""
    with pytest.raises(ConfigurationError, match="the URL of Redis") as caught:
        RedisStore(url, cluster=cluster)  # type: ignore[arg-type]
    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter2" not in str(error)
        error = error.__cause__
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_cluster_has_one_database() -> None:
    """A cluster's URL with the number of a database is refused, and so is a socket's path."""
    with pytest.raises(ConfigurationError, match="database 3"):
        RedisStore("redis://host/3", cluster=True)
    with pytest.raises(ConfigurationError):
        RedisStore("unix:///tmp/s", cluster=True)


def test_place_is_all_that_a_store_shows_of_its_url() -> None:
    """Its repr has host, port and database, and no credentials."""
    assert repr(RedisStore("redis://user:hunter2@host/2")) == "<RedisStore at host:6379/2>"
    assert repr(RedisStore("rediss://:hunter2@[::1]:7000")) == "<RedisStore at ::1:7000>"


def test_missing_extra_is_named() -> None:
    """Without redis-py the import says what to install."""
    code = "import sys; sys.modules['redis'] = None; import asynctask; import asynctask.stores.redis"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'starlette-asynctask[redis]'" in done.stderr.splitlines()[-1]
