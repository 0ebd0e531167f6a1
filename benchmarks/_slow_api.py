"""A remote API that is slow and nothing else: `GET /0.05` is answered after 50 ms.

A process of its own, without a framework, so that it costs the benchmark as little as a real remote host
would. `python -m benchmarks._slow_api` prints its address when it is ready.
"""

from __future__ import annotations

import asyncio
from typing import cast

import uvloop

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n"
_ANSWER = _HEAD + b'{"ok":true}'
_REFUSAL = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"


class SlowApi(asyncio.Protocol):
    """HTTP/1.1 with keep-alive for clients that send one GET at a time, which is all that is needed here."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._received.endswith(b"\r\n\r\n"):
            return
        path = self._received.split(b" ", 2)[1]
        self._received = b""
        try:
            self._loop.call_later(float(path[1:]), self._send, _ANSWER)
        except ValueError:
            self._send(_REFUSAL)

    def _send(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)


async def main() -> None:
    """Serve on a free port until the process is ended."""
    server = await asyncio.get_running_loop().create_server(SlowApi, "127.0.0.1", 0, backlog=2_048)
    host, port = server.sockets[0].getsockname()
    print(f"http://{host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
