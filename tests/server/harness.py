"""A real uvicorn process on a free port, whose log tells when something has happened."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60.0
"""After how many seconds a thing that should have happened is given up."""


@dataclass
class Answer:
    """A response as it came over the socket."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


class Connection:
    """One connection that stays open between requests."""

    def __init__(self, port: int) -> None:
        self._http = HTTPConnection("127.0.0.1", port, timeout=LIMIT)
        self._http.connect()
        self._http.auto_open = 0  # a closed connection is an error, not a reason to open another

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> None:
        """Send a request without waiting for its answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._http.request(method, path, body, named)

    def answer(self) -> Answer:
        """Wait for the answer to the request that was sent."""
        response = self._http.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, response.read())

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """Send a request and wait for its answer."""
        self.ask(method, path, body, **headers)
        return self.answer()

    def close(self) -> None:
        """Close the connection, whatever is under way on it."""
        self._http.close()


class Server:
    """A uvicorn process that serves an application of `tests.server.apps`, as a context manager.

    Args:
        app: the application's name there.
        arguments: more for uvicorn's command line.
    """

    def __init__(self, app: str, *arguments: str) -> None:
        self._command = [sys.executable, "-m", "uvicorn", f"tests.server.apps:{app}"]
        self._command += ["--host", "127.0.0.1", "--port", "0", "--no-use-colors", *arguments]
        self._news = threading.Condition()
        self._connections: list[Connection] = []
        self.lines: list[str] = []

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self._command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        try:
            self.port = int(self.wait_for(r"running on http://127\.0\.0\.1:(\d+)")[1])
            self.wait_for(r"Application startup complete")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        for connection in self._connections:
            connection.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self.lines.append("")  # the end, for whoever still waits
            self._news.notify_all()

    def found(self, pattern: str) -> list[re.Match[str]]:
        """Return the matches of a pattern in the log so far, one a line."""
        return [match for line in self.lines if (match := re.search(pattern, line))]

    def wait_for(self, pattern: str, count: int = 1) -> re.Match[str]:
        """Wait until so many lines of the log match, and return the last match."""
        with self._news:
            in_time = self._news.wait_for(
                lambda: len(self.found(pattern)) >= count or self.lines[-1:] == [""], LIMIT
            )
            matches = self.found(pattern)
        if not in_time or len(matches) < count:
            raise AssertionError(f"{pattern!r} is not in the log:\n" + "\n".join(self.lines))
        return matches[count - 1]

    def connect(self) -> Connection:
        """Open a connection that lasts until the server is left."""
        self._connections.append(Connection(self.port))
        return self._connections[-1]

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """Send a request on a connection of its own."""
        connection = Connection(self.port)
        try:
            return connection.request(method, path, body, **headers)
        finally:
            connection.close()

    def settled(self, path: str, **headers: str) -> dict[str, Any]:
        """Wait, by long polls, until nothing is RUNNING under `path`, and return that snapshot."""
        for _ in range(int(LIMIT)):
            answer = self.request("GET", f"{path}/status", None, **headers)
            if answer.status == 200 and answer.json["status"] != "RUNNING":
                return dict(answer.json)
            headers |= {"Prefer": "wait=1", "If_None_Match": answer.headers["etag"]}
        raise AssertionError(f"{path} does not end")

    def stop(self) -> str:
        """Send SIGTERM, wait for the process to end, and return its whole log."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(LIMIT) in (0, -signal.SIGTERM), self.lines
        self._reader.join()
        return "\n".join(self.lines)
