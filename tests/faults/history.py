"""What happened: every answer that a client got, every fault, and what the workers wrote in their diary."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from pathlib import Path


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What a client was told, or that it was told nothing (`status` 0)."""

    began: float
    ended: float
    client: str
    """Who asked. One client asks one thing after the other."""
    worker: int
    verb: Literal["trigger", "status", "cancel", "list"]
    key: str
    status: int
    retry_after: str | None = None
    run: str | None = None
    version: int = 0
    state: str | None = None
    """The snapshot's status."""
    code: str | None = None
    """The snapshot's `errorCode`, or the problem's `code`."""
    started: bool | None = None
    body: str = ""


class Fault(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something that was done to a worker, to Redis (worker -1) or to the network between them."""

    at: float
    what: str
    worker: int
    pid: int = 0
    until: float = 0.0
    """When it was over."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the workers' diary."""

    what: Literal["start", "step", "end"]
    t: float
    pid: int
    key: str
    run: str
    number: int = -1
    how: str = ""


class History:
    """Collects answers and faults.

    Args:
        diary: the file that the workers write.
        log: where all is written, one JSON line each, to be read after a failure.
    """

    def __init__(self, diary: Path, log: Path) -> None:
        self.answers: list[Answer] = []
        self.faults: list[Fault] = []
        self.diary = diary
        self.log = log
        self.log.write_bytes(b"")

    def add(self, event: Answer | Fault) -> None:
        """Note an event."""
        if isinstance(event, Answer):
            self.answers.append(event)
        else:
            self.faults.append(event)
        with self.log.open("ab") as file:
            file.write(msgspec.json.encode(event) + b"\n")

    def fault(self, what: str, worker: int, *, began: float, pid: int = 0) -> None:
        """Note a fault that began then and is over now."""
        self.add(Fault(at=began, what=what, worker=worker, pid=pid, until=time.monotonic()))

    def entries(self) -> list[Entry]:
        """What the workers have written so far, in the order of time."""
        lines = self.diary.read_bytes().splitlines() if self.diary.exists() else []
        return sorted((msgspec.json.decode(line, type=Entry) for line in lines), key=lambda entry: entry.t)

    def of(self, key: str, verb: str | None = None) -> list[Answer]:
        """The answers about a key, in order."""
        return [a for a in self.answers if a.key == key and verb in (None, a.verb)]


def snapshot_fields(body: dict[str, Any]) -> dict[str, Any]:
    """What an answer keeps of a snapshot or a problem."""
    return {
        "run": body.get("runId"),
        "version": body.get("version", 0),
        "state": body.get("status") if isinstance(body.get("status"), str) else None,
        "code": body.get("errorCode") or body.get("code"),
        "started": body.get("started"),
    }
