"""A real nginx in front of an application, with a configuration and a directory of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks._harness import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MISSING = (
    "nginx is not installed, and this benchmark is about it: apt-get install nginx (or brew install nginx)"
)

_MAIN = """
worker_processes 1;
pid nginx.pid;
error_log error.log warn;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    upstream application {{ server 127.0.0.1:{application}; keepalive 16; }}
{servers}}}
"""
_SERVER = """
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://application;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_read_timeout {timeout}ms;
        }}
    }}
"""


def find_nginx() -> str | None:
    """Where nginx is, also where the search path of a plain user does not lead; None when it is absent."""
    path = os.environ.get("PATH", os.defpath)
    return shutil.which("nginx", path=f"{path}:/usr/sbin:/usr/local/sbin:/opt/homebrew/bin")


def version(nginx: str) -> str:
    """What nginx calls itself, such as `nginx/1.22.1`."""
    told = subprocess.run([nginx, "-v"], capture_output=True, text=True, check=True).stderr
    return told.split(": ")[-1].strip()


@contextlib.contextmanager
def gateway(nginx: str, application: int, timeouts: Sequence[float]) -> Iterator[list[str]]:
    """Run nginx until the block ends.

    Args:
        nginx: the program.
        application: the port of the application on 127.0.0.1.
        timeouts: a `proxy_read_timeout` in seconds for each address wanted; nginx's own default is 60.

    Returns:
        The addresses, in that order.
    """
    ports = [free_port() for _ in timeouts]
    servers = "".join(
        _SERVER.format(port=port, timeout=round(1_000 * timeout))
        for port, timeout in zip(ports, timeouts, strict=True)
    )
    with tempfile.TemporaryDirectory(prefix="gateway-") as directory:
        os.chmod(directory, 0o755)  # nginx's workers may be another user than its master
        prefix = Path(directory)
        (prefix / "nginx.conf").write_text(_MAIN.format(application=application, servers=servers))
        command = [nginx, "-p", str(prefix), "-c", "nginx.conf", "-g", "daemon off;"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                for port in ports:
                    _await_port(process, port)
                yield [f"http://127.0.0.1:{port}" for port in ports]
            finally:
                process.terminate()  # the master; it takes its worker with it
                process.wait(10)


def _await_port(process: subprocess.Popen[str], port: int) -> None:
    for _ in range(100):
        if process.poll() is not None:
            told = process.stderr.read() if process.stderr is not None else ""
            raise RuntimeError(f"nginx ended with {process.returncode}: {told.strip()}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"nginx does not answer on port {port} after 5 s")
