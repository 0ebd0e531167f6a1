"""Start the demo as a user does: a process of its own, real sockets, the address read from what it prints."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
ACME = {"Authorization": "Bearer acme-demo"}
GLOBEX = {"Authorization": "Bearer globex-demo"}
CHECK = "/api/duplicates/check"


@dataclass
class Demo:
    """A running demo.

    Attributes:
        process: the demo's own.
        banner: what it printed at its start.
        log: what it writes to standard error.
        url: of the demo.
        remote: of its remote API.
        http: a client of the demo.
    """

    process: subprocess.Popen[str]
    banner: str
    log: IO[str]
    url: str = field(init=False)
    remote: str = field(init=False)
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.url, self.remote = re.findall(r"(http://\S+:\d+)(?:,| \()", self.banner)
        self.http = httpx.Client(base_url=self.url, headers=ACME, timeout=60, trust_env=False)

    def stop(self, number: signal.Signals = signal.SIGINT) -> str:
        """Send a signal, wait for the end and return what was logged."""
        self.process.send_signal(number)
        self.process.wait(timeout=60)
        self.log.seek(0)
        return self.log.read()

    def finished(self, headers: dict[str, str] = ACME) -> dict[str, Any]:
        """The snapshot of a tenant's check once it is over, by long polls."""
        while True:
            answer = self.http.post(CHECK, headers={**headers, "Prefer": "wait=10"})
            if answer.status_code == 200:
                return dict(answer.json())


@contextmanager
def running_demo(*options: str) -> Iterator[Demo]:
    """Run `app.py --port 0` with more options for as long as the block lasts."""
    command = [sys.executable, "app.py", "--port=0", *options]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            banner = ""
            for line in process.stdout:
                banner += line
                if "/sync/duplicates" in line:
                    break
            else:
                log.seek(0)
                raise RuntimeError(f"{' '.join(command)} ended: {log.read()}")
            demo = Demo(process, banner, log)
            with demo.http:
                yield demo
        finally:
            process.terminate()  # in order, so that it ends what it started
            try:
                process.wait(timeout=30)
            finally:
                process.kill()
