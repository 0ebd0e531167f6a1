"""Clients over real HTTP, one connection a request, that write down whatever they are told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import TYPE_CHECKING, Any

import msgspec

from tests.faults.history import Answer, snapshot_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.faults.history import History

PATIENCE = 3.0
"""Seconds that a client waits for an answer."""
LOOK_EVERY = 0.04
"""Seconds between two looks of a poller."""


async def request(
    port: int, method: str, path: str, payload: object = None, *, patience: float = PATIENCE
) -> tuple[int, dict[str, str], str]:
    """Send one request to 127.0.0.1 and read its answer.

    Raises:
        OSError: there was none.
    """
    body = b"" if payload is None else msgspec.json.encode(payload)
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
    )
    if body:
        head += "Content-Type: application/json\r\n"
    writer = None
    try:
        async with asyncio.timeout(patience):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.encode() + b"\r\n" + body)
            raw = await reader.read()
    finally:
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    top, _, text = raw.partition(b"\r\n\r\n")
    first, *lines = top.decode("latin-1").split("\r\n")
    if not first.startswith("HTTP/1.1 ") or not text:
        raise ConnectionResetError("the answer broke off")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if len(text) < int(headers.get("content-length", 0)):
        raise ConnectionResetError("the answer broke off")
    return int(first.split()[1]), headers, text.decode()


class Client:
    """One client, which asks one thing after the other.

    Args:
        name: as it appears in the history.
        history: where its answers go.
        ports: gives the ports of the workers, by their number.
    """

    def __init__(self, name: str, history: History, ports: Callable[[], Sequence[int]]) -> None:
        self.name = name
        self._history = history
        self._ports = ports

    async def trigger(self, worker: int, key: str, *, patience: float = PATIENCE, **work: Any) -> Answer:
        """Trigger a key's job at a worker."""
        return await self._ask(worker, "trigger", "POST", f"/{key}", key, work, patience)

    async def status(self, worker: int, key: str, *, patience: float = PATIENCE) -> Answer:
        """Read a key's status at a worker."""
        return await self._ask(worker, "status", "GET", f"/{key}/status", key, None, patience)

    async def cancel(self, worker: int, key: str) -> Answer:
        """Cancel a key's run at a worker."""
        return await self._ask(worker, "cancel", "POST", f"/{key}/cancel", key, None, PATIENCE)

    async def list(self, worker: int) -> Answer:
        """List all runs at a worker."""
        return await self._ask(worker, "list", "GET", "/", "", None, PATIENCE)

    async def watch(
        self, key: str, workers: Callable[[], Sequence[int]], *, until: Callable[[Answer], bool], limit: float
    ) -> Answer:
        """Poll a key, each time at another worker, until an answer is what was waited for.

        Raises:
            AssertionError: it did not come within the limit, in seconds.
        """
        deadline, turn, last = time.monotonic() + limit, 0, None
        while time.monotonic() < deadline:
            reachable = workers()
            if reachable:
                last = await self.status(reachable[turn % len(reachable)], key, patience=1.0)
                if last.status == 200 and until(last):
                    return last
            turn += 1
            await asyncio.sleep(LOOK_EVERY)
        raise AssertionError(f"{self.name} waited {limit:g} s in vain for {key}; it was told last: {last}")

    async def _ask(
        self, worker: int, verb: Any, method: str, path: str, key: str, payload: object, patience: float
    ) -> Answer:
        began = time.monotonic()
        try:
            port = self._ports()[worker]
            status, headers, text = await request(port, method, path, payload, patience=patience)
            body = json.loads(text) if "json" in headers.get("content-type", "") else {}
        except (OSError, asyncio.IncompleteReadError) as exc:
            status, headers, text, body = 0, {}, f"{type(exc).__name__}: {exc}", {}
        answer = Answer(
            began=began,
            ended=time.monotonic(),
            client=self.name,
            worker=worker,
            verb=verb,
            key=key,
            status=status,
            retry_after=headers.get("retry-after"),
            body=text + json.dumps(headers),
            **snapshot_fields(body),
        )
        self._history.add(answer)
        return answer


def over(answer: Answer) -> bool:
    """Whether the run has ended."""
    return answer.state in ("SUCCESS", "FAILED")
