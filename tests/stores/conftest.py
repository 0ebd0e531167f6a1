"""Servers that the tests of the stores share, and the stores that the contract is tested on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from asynctask.stores.memory import MemoryStore
from asynctask.stores.redis import RedisStore
from demo.redis_server import RedisServer, find_redis, find_valkey
from tests.stores.cluster import three_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from asynctask.stores.base import Store


class Case(NamedTuple):
    """A store and the event loop that it runs on."""

    store: str
    backend: str


CASES = [
    Case("memory", "asyncio"),
    Case("memory", "trio"),
    Case("redis", "asyncio"),  # redis-py's asynchronous client is asyncio's alone
    Case("valkey", "asyncio"),
    Case("cluster", "asyncio"),
]


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A Redis."""
    if find_redis() is None:
        pytest.skip("no redis-server on the PATH")
    with RedisServer(binary=find_redis()) as server:
        yield server


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[RedisServer]:
    """A Valkey."""
    with RedisServer(binary=find_valkey()) as server:
        yield server


@pytest.fixture(scope="session")
def cluster() -> Iterator[list[RedisServer]]:
    """A cluster of three nodes."""
    with three_nodes() as nodes:
        yield nodes


@pytest.fixture
def server(request: pytest.FixtureRequest) -> RedisServer:
    """Whatever server there is, a Redis if possible."""
    name = "valkey_server" if find_redis() is None else "redis_server"
    found: RedisServer = request.getfixturevalue(name)
    return found


class Instances:
    """Makes stores that share their state, as the instances of one application do.

    A MemoryStore is shared by being the same one.
    """

    def __init__(self, make: Callable[[float], Store], *, shared: bool) -> None:
        self._make = make
        self._shared = shared

    def __call__(self, count: int = 2, *, ttl: float = 60.0) -> list[Store]:
        if self._shared:
            return [self._make(ttl)] * count
        return [self._make(ttl) for _ in range(count)]


@pytest.fixture(params=CASES, ids=lambda case: "-".join(case))
def case(request: pytest.FixtureRequest) -> Case:
    """Each store on each event loop that it promises to run on."""
    found: Case = request.param
    return found


@pytest.fixture
def instances(case: Case, request: pytest.FixtureRequest) -> Instances:
    """Makes the stores of a case, with nothing in them."""
    if case.store == "memory":
        return Instances(lambda ttl: MemoryStore(ttl=ttl), shared=True)
    prefix = "test:" + request.node.name.translate(str.maketrans("[]", "--"))
    if case.store == "cluster":
        nodes: list[RedisServer] = request.getfixturevalue("cluster")
        url = nodes[0].url
    else:
        url = request.getfixturevalue(f"{case.store}_server").url
    return Instances(
        lambda ttl: RedisStore(url, cluster=case.store == "cluster", prefix=prefix, ttl=ttl), shared=False
    )
