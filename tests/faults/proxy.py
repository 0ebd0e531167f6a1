"""A network that fails: a TCP proxy between a worker and its Redis, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType
    from typing import Self

T = TypeVar("T")

Mode = Literal["pass", "blackhole", "mute", "slow", "late", "reset"]
"""`pass` forwards; `blackhole` swallows both directions; `mute` forwards requests and drops the answers;
`slow` delays answers; `late` delays requests, and delivers them also when who sent them has given up; `reset`
resets every connection."""


class Proxy:
    """Forwards connections to a port of 127.0.0.1, or does not.

    Args:
        target: the port of the server.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._mode: Mode = "pass"
        self.seconds = 0.3
        """By how much `slow` and `late` delay."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._pairs: set[Pair] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._connected, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def set(self, mode: Mode, seconds: float = 0.3) -> None:
        """Change how the network behaves, for connections there are and for new ones."""

        async def change() -> None:
            self._mode, self.seconds = mode, seconds
            for pair in list(self._pairs):
                # What lost bytes cannot be healed: the other side would misread the rest.
                if mode == "reset" or pair.torn:
                    pair.reset()

        self._do(change())

    def _do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for pair in list(self._pairs):
            pair.reset()
        pending = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

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
                await asyncio.sleep(self.seconds)
            for task in (requests, answers):
                task.cancel()
            await asyncio.gather(requests, answers, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
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
                    continue
                if self._mode == delay:
                    self._loop.call_later(self.seconds, _write, writer, data)
                else:
                    writer.write(data)
                    await writer.drain()


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    if not writer.is_closing():
        writer.write(data)


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
