"""The stage of the fault suite: a Redis, three workers, and between each worker and Redis a network that
can fail."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
import redis

from demo.redis_server import RedisServer
from tests.faults.checker import violations
from tests.faults.client import Client
from tests.faults.history import History
from tests.faults.proxy import Network
from tests.faults.worker import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

LEASE = 2.0
TIMEOUT = 0.8
TTL = 2.5
"""How long finished runs are kept, in seconds."""
SECRET = "hunter2/ö:@"
ROOT = Path(__file__).resolve().parents[2]


class Worker:
    """A worker process.

    Args:
        number: of the worker.
        redis_port: where it finds Redis, or what stands before it.
        folder: where its log goes.
        lease: of its store, in seconds.
        timeout: of its store, in seconds.
    """

    def __init__(self, number: int, redis_port: int, folder: Path, *, lease: float, timeout: float) -> None:
        self.number = number
        self._redis_port = redis_port
        self._lease, self._timeout = lease, timeout
        self.port = _free_port()
        self.paused = False
        self.log = folder / f"worker-{number}.log"
        self._diary = folder / "diary"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def reachable(self) -> bool:
        """Whether it can answer."""
        return self.process is not None and not self.paused

    def start(self, *, wait: bool = True) -> None:
        """Start the process; with `wait`, until it listens."""
        settings = Settings(
            redis=f"redis://:{quote(SECRET, safe='')}@127.0.0.1:{self._redis_port}/0",
            port=self.port,
            diary=str(self._diary),
            lease=self._lease,
            timeout=self._timeout,
            ttl=TTL,
        )
        command = [sys.executable, "-m", "tests.faults.worker", msgspec.json.encode(settings).decode()]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        if wait:
            self.wait()

    def wait(self) -> None:
        """Wait until it listens."""
        assert self.process is not None
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert self.process.poll() is None, (
                    f"worker {self.number} ended: {self.log.read_text()[-2000:]}"
                )
                assert time.monotonic() < deadline, f"worker {self.number} does not listen"
                time.sleep(0.05)
            else:
                return

    def end(self, number: signal.Signals) -> int:
        """Send a signal that ends it, and return its pid when it has."""
        process, self.process = self.process, None
        if process is None:
            return 0
        if self.paused:
            process.send_signal(signal.SIGCONT)
            self.paused = False
        process.send_signal(number)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"worker {self.number} did not end within 15 s of {number.name}") from None
        return process.pid


class Stage:
    """Everything that a scenario needs. A context manager.

    Args:
        folder: where diary, history and logs go.
        lease: of the workers' stores, in seconds.
        timeout: of the workers' stores, in seconds.
    """

    def __init__(self, folder: Path, *, lease: float = LEASE, timeout: float = TIMEOUT) -> None:
        self._lease, self._timeout = lease, timeout
        self.folder = folder
        self.history = History(folder / "diary", folder / "history.jsonl")
        self._stack = ExitStack()
        self.server = RedisServer("--requirepass", SECRET, "--appendonly", "yes")
        self.workers: list[Worker] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.server)
            self.network = stack.enter_context(Network(self.server.port, 3))
            self.workers = [
                Worker(number, port, self.folder, lease=self._lease, timeout=self._timeout)
                for number, port in enumerate(self.network.ports)
            ]
            stack.callback(self._end)
            self.start_all()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._stack.close()

    def _end(self) -> None:
        for worker in self.workers:
            if worker.process is not None:
                worker.process.kill()
                worker.process.wait()

    # -- clients -----------------------------------------------------------------------------------------

    def client(self, name: str) -> Client:
        """Make a client."""
        return Client(name, self.history, lambda: [worker.port for worker in self.workers])

    def reachable(self) -> list[int]:
        """The numbers of the workers that can answer."""
        return [worker.number for worker in self.workers if worker.reachable]

    # -- faults ------------------------------------------------------------------------------------------

    def kill(self, number: int) -> None:
        """Kill a worker as a crash would."""
        began = time.monotonic()
        self.history.fault("kill", number, began=began, pid=self.workers[number].end(signal.SIGKILL))

    def end(self, number: int) -> None:
        """End a worker in order."""
        began = time.monotonic()
        self.history.fault("terminate", number, began=began, pid=self.workers[number].end(signal.SIGTERM))

    def start(self, number: int) -> None:
        """Start a worker that was ended."""
        if self.workers[number].process is None:
            self.workers[number].start()

    def start_all(self) -> None:
        """Start all workers that were ended."""
        ended = [worker for worker in self.workers if worker.process is None]
        for worker in ended:
            worker.start(wait=False)
        for worker in ended:
            worker.wait()

    def pause(self, number: int) -> float:
        """Stop a worker in its tracks; returns when."""
        worker = self.workers[number]
        assert worker.process is not None
        worker.paused, began = True, time.monotonic()
        worker.process.send_signal(signal.SIGSTOP)
        return began

    def go_on(self, number: int, began: float) -> None:
        """Let a worker go on that was paused then."""
        worker = self.workers[number]
        if worker.process is not None and worker.paused:
            # Noted first: whatever it does from now on is within the pause that the checker knows.
            self.history.fault("pause", number, began=began, pid=worker.process.pid)
            worker.process.send_signal(signal.SIGCONT)
            worker.paused = False

    def kill_redis(self) -> float:
        """Kill Redis as a crash would; returns when."""
        began = time.monotonic()
        self.server.kill()
        return began

    def revive_redis(self, began: float, *, forget: bool = False) -> None:
        """Start Redis again that was killed then, with what it wrote or without."""
        if forget:
            shutil.rmtree(self.server.directory / "appendonlydir", ignore_errors=True)
            (self.server.directory / "appendonly.aof").unlink(missing_ok=True)
        self.server.start()
        self.history.fault("memory lost" if forget else "redis restarted", -1, began=began)

    def look(self) -> Any:
        """A client that looks at Redis past the workers."""
        return redis.Redis(port=self.server.port, password=SECRET, protocol=2, decode_responses=True)

    # -- afterwards --------------------------------------------------------------------------------------

    def heal(self) -> None:
        """End all faults."""
        self.server.start()
        with self.look() as client:
            client.config_set("maxmemory", 0)
        for worker in self.workers:
            self.network.set(worker.number, "pass")
            self.go_on(worker.number, time.monotonic())
        self.start_all()

    def check(self, since: float) -> None:
        """See that every invariant was kept.

        Args:
            since: when the scenario began.

        Raises:
            AssertionError: names each violation, and where the history lies.
        """
        history = self.history
        answers = [answer for answer in history.answers if answer.began > since]
        entries = [entry for entry in history.entries() if entry.t > since]
        faults = [fault for fault in history.faults if fault.until > since]
        found = violations(answers, faults, entries, lease=self._lease)
        found += [f"secret told: {text[:200]}" for text in self._texts() if "hunter2" in text]
        assert not found, "\n".join([*found[:20], f"{len(found)} in all; the history is {history.log}"])

    def _texts(self) -> Iterator[str]:
        yield from (answer.body for answer in self.history.answers)
        for worker in self.workers:
            yield from worker.log.read_text().splitlines()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def long_form() -> bool:
    """Whether the long form was asked for: `ASYNCTASK_FAULTS=long`."""
    return os.environ.get("ASYNCTASK_FAULTS") == "long"


def seeds() -> list[int]:
    """The seeds to use: that of `ASYNCTASK_SEED`, else 1, and in the long form 1 to 5."""
    given = os.environ.get("ASYNCTASK_SEED")
    if given is not None:
        return [int(given)]
    return list(range(1, 6)) if long_form() else [1]
