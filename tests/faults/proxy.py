"""A network that fails: TCP proxies between the workers and Redis, in a process of their own.

    python -m tests.faults.proxy TARGET COUNT

prints the ports of its proxies, and then obeys lines like `1 blackhole 0.3` on its standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

Mode = Literal["pass", "blackhole", "mute", "slow", "late", "reset"]
"""`pass` forwards; `blackhole` swallows both directions; `mute` forwards requests and drops the answers;
`slow` delays answers; `late` delays requests, and delivers them also when who sent them has given up; `reset`
resets every connection."""


class Network:
    """The proxies, as the test holds them.

    Args:
        target: the port of the server behind them.
        count: how many there are.
    """

    def __init__(self, target: int, count: int) -> None:
        self._command = [sys.executable, "-m", "tests.faults.proxy", str(target), str(count)]
        self.ports: list[int] = []

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, text=True, bufsize=1)
        self.ports = [int(port) for port in self._answer().split()]
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        with self._process:
            self._process.kill()

    def set(self, number: int, mode: Mode, seconds: float = 0.3) -> None:
        """Change how the network of one worker behaves, for connections there are and for new ones.

        Args:
            number: of the worker.
            mode: how.
            seconds: by how much `slow` and `late` delay.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number} {mode} {seconds}\n")
        assert self._answer() == "ok"

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


class Proxy:
    """One proxy.

    Args:
        target: the port of the server behind it.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._mode: str = "pass"
        self._seconds = 0.3
        self._pairs: set[Pair] = set()

    async def start(self) -> int:
        """Listen, and return where."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        return port

    def set(self, mode: str, seconds: float) -> None:
        """Change how it behaves."""
        self._mode, self._seconds = mode, seconds
        for pair in list(self._pairs):
            # What lost bytes cannot be healed: the other side would misread the rest.
            if mode == "reset" or pair.torn:
                pair.reset()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pair = Pair(writer)
        self._pairs.add(pair)
        try:
            while self._mode == "blackhole":  # the connection is made, and that is all
                pair.torn = True
                await asyncio.sleep(0.02)
            if self._mode == "reset" or pair.torn:
                return
            far_reader, pair.far = await asyncio.open_connection("127.0.0.1", self._target)
            requests = asyncio.ensure_future(self._pump(pair, reader, pair.far, "blackhole", "late"))
            answers = asyncio.ensure_future(self._pump(pair, far_reader, writer, "mute", "slow"))
            await asyncio.wait([requests, answers], return_when=asyncio.FIRST_COMPLETED)
            if self._mode == "late":
                await asyncio.sleep(self._seconds)
            for task in (requests, answers):
                task.cancel()
            await asyncio.gather(requests, answers, return_exceptions=True)
        except OSError:
            pass
        finally:
            self._pairs.discard(pair)
            pair.reset()

    async def _pump(
        self,
        pair: Pair,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        swallow: Mode,
        delay: Mode,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if self._mode in ("blackhole", swallow):
                    pair.torn = True
                elif self._mode == delay:
                    asyncio.get_running_loop().call_later(self._seconds, _write, writer, data)
                else:
                    writer.write(data)
                    await writer.drain()


class Pair:
    """The two connections of one client.

    Args:
        near: to the client.
    """

    def __init__(self, near: asyncio.StreamWriter) -> None:
        self.near = near
        self.far: asyncio.StreamWriter | None = None
        self.torn = False
        """Whether bytes were lost."""

    def reset(self) -> None:
        """End both at once, with RST instead of FIN."""
        for writer in (self.near, self.far):
            if writer is not None and not writer.is_closing():
                with contextlib.suppress(OSError):
                    found: socket.socket = writer.get_extra_info("socket")
                    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    if not writer.is_closing():
        writer.write(data)


async def main(target: int, count: int) -> None:
    """Run the proxies until standard input ends."""
    proxies = [Proxy(target) for _ in range(count)]
    print(*[await proxy.start() for proxy in proxies], flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        number, mode, seconds = line.split()
        proxies[int(number)].set(mode, float(seconds))
        print("ok", flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
