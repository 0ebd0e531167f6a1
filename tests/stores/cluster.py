"""A real three-node cluster on loopback, put together by the commands that every server knows."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import redis

from demo.redis_server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOTS = 16_384


def _bus_port(port: int) -> str:
    # By default it is the port plus 10,000, which may be beyond the last one.
    return str(port + 10_000 if port + 10_000 < 65_536 else port - 10_000)


@contextmanager
def three_nodes() -> Iterator[list[RedisServer]]:
    """Start three primaries that share all slots, and wait until each says that the cluster is whole."""
    with ExitStack() as stack:
        nodes: list[RedisServer] = []
        for _ in range(3):
            node = RedisServer("--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
            node.add_options("--cluster-port", _bus_port(node.port))
            nodes.append(stack.enter_context(node))
        clients: list[Any] = [
            stack.enter_context(redis.Redis(port=node.port, protocol=2, decode_responses=True))
            for node in nodes
        ]
        for number, (node, client) in enumerate(zip(nodes, clients, strict=True)):
            first, last = number * SLOTS // 3, (number + 1) * SLOTS // 3
            client.execute_command("CLUSTER", "ADDSLOTS", *range(first, last))
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number:
                clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, _bus_port(node.port))
        deadline = time.monotonic() + 30
        while not all(_whole(client) for client in clients):
            assert time.monotonic() < deadline, "the cluster did not come together within 30 s"
            time.sleep(0.05)
        yield nodes


def _whole(client: Any) -> bool:
    about = client.cluster("INFO")
    return bool(about["cluster_state"] == "ok" and about["cluster_known_nodes"] == "3")
