"""The remote API of the benchmarks: a process of its own that answers every GET after a fixed time.

    python -m benchmarks._remote_api [LATENCY in seconds, default 0.05]

It is a bare asyncio protocol, on uvloop where that is installed, so that it costs a small part of what any
client costs. It prints its address when it is ready.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from benchmarks._harness import run

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class Api(asyncio.Protocol):
    """One connection. Requests have no body, so an empty line ends each of them."""

    def __init__(self, latency: float) -> None:
        self._latency = latency
        self._rest = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        *requests, self._rest = (self._rest + data).split(b"\r\n\r\n")
        for _ in requests:
            self._loop.call_later(self._latency, self._answer)

    def _answer(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(ANSWER)


async def main(latency: float) -> None:
    """Serve until the process is ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Api(latency), "127.0.0.1", 0, backlog=4096)
    host, port = server.sockets[0].getsockname()
    print(f"http://{host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.05))
