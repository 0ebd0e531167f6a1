"""The demo as a process: its command line, its log, and how it ends."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import httpx
import pytest

from demo import remote_api
from tests.demo_process import CHECK, ROOT, Demo, running_demo

if TYPE_CHECKING:
    from collections.abc import Iterator


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "app.py", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that it ended with; fails if there is more, or another status than 2."""
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("app.py: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--port=70000"], "--port: '70000' is not a whole number from 0 to 65535"),
        (["--port=http"], "--port: 'http' is not a whole number"),
        (["--records=0"], "--records: '0' is not a whole number from 1 to"),
        (["--records", "-5"], "--records: '-5'"),
        (["--latency=nan"], "--latency: 'nan' is not a number of seconds from 0 to 60"),
        (["--latency=-1"], "--latency"),
        (["--max-at-once=0"], "--max-at-once: '0'"),
        (["--gateway-limit=inf"], "--gateway-limit: 'inf'"),
        (["--rec=5"], "unrecognized arguments: --rec=5"),
        (["file.csv"], "unrecognized arguments: file.csv"),
        (["--title-column=a"], "--title-column says how to read a file: name one by --catalogue"),
        (["--catalogue=none.csv"], "none.csv: cannot be read: No such file"),
        (["--catalogue="], "Is a directory"),
        (["--catalogue=tests"], "tests: cannot be read: Is a directory"),
        (["--catalogue=line\nbreak.csv"], "line break.csv: cannot be read"),
        ([f"--catalogue={sys.executable}"], "is not a text file"),
        (["--catalogue=/dev/zero"], "is larger than"),
        (["--host=not.a.host.invalid"], "cannot listen on 'not.a.host.invalid'"),
        (["--host=.."], "cannot listen on '..'"),
    ],
)
def test_mistakes_are_one_line(options: list[str], says: str) -> None:
    """Every bad value and every bad file ends the demo with one clear line and exit status 2."""
    assert says in refused(run(*options))


def test_port_in_use() -> None:
    """A port that is taken is said in one line, which tells how to choose another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused(run(f"--port={port}"))
    assert f"cannot listen on 127.0.0.1 port {port}: address already in use" in line
    assert "make demo PORT=" in line


def test_help() -> None:
    """--help names every option and its default."""
    done = run("--help")
    assert done.returncode == 0
    for option in (
        "host",
        "port",
        "records",
        "latency",
        "max-at-once",
        "catalogue",
        "title-column",
        "gateway-limit",
    ):
        assert f"--{option}" in done.stdout
    assert "default: 6000" in done.stdout


@pytest.fixture
def busy() -> Iterator[Demo]:
    """A demo in the middle of a long check."""
    with running_demo("--records=100", "--latency=30", "--max-at-once=100") as demo:
        assert demo.http.post(CHECK).status_code == 202
        yield demo


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_it_in_order(busy: Demo, number: signal.Signals) -> None:
    """In mid-run, with a request held open, a signal ends it with status 0, no traceback, the run FAILED."""
    answers: list[httpx.Response] = []
    asked = threading.Event()

    def hold() -> None:
        with httpx.Client(base_url=busy.url, headers=busy.http.headers, trust_env=False) as client:
            tag = client.get(f"{CHECK}/status").headers["etag"]
            asked.set()
            answers.append(client.get(f"{CHECK}/status", headers={"Prefer": "wait=10", "If-None-Match": tag}))

    holder = threading.Thread(target=hold)
    holder.start()
    asked.wait(timeout=30)
    log = busy.stop(number)
    holder.join(timeout=30)
    assert busy.process.returncode == 0, log
    assert "Traceback" not in log
    assert re.search(r"\[duplicates/check [0-9a-f]{32} acme\] .*interrupted", log, re.DOTALL), log
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{busy.remote}/stats", trust_env=False)


def test_remote_api_does_not_outlive_a_killed_demo(busy: Demo) -> None:
    """Killed so that it can clean up nothing, the demo leaves no process behind."""
    host, port = busy.remote.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        busy.stop(signal.SIGKILL)
        assert connection.recv(1) == b""  # ends when the remote API does


def test_log_tells_job_run_and_tenant() -> None:
    """Start, progress and end are logged, each line with the job, the run and the tenant."""
    with running_demo("--records=40", "--latency=0") as demo:
        run_id = demo.finished()["runId"]
        log = demo.stop()
    lines = [line for line in log.splitlines() if f"[duplicates/check {run_id} acme]" in line]
    assert "started" in lines[0]
    assert any("at 20 of 40" in line for line in lines)
    assert "SUCCESS" in lines[-1]
    assert log.count("HTTP Request") == 0


def test_remote_api_is_calm(capfd: pytest.CaptureFixture[str]) -> None:
    """A call that is cut off half way, as a cancelled check leaves them, is no error of the remote API's."""
    with remote_api.running(0.0) as url:
        host, port = url.removeprefix("http://").split(":")
        for _ in range(5):
            with socket.create_connection((host, int(port)), timeout=30) as connection:
                connection.sendall(b"POST /fingerprint HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        for body, status in (
            (b'{"title":"Mug"}', 200),
            (b"", 400),
            (b"{}", 400),
            (b"\xff", 400),
            (b"[" * 2**21, 413),
        ):
            assert httpx.post(f"{url}/fingerprint", content=body, trust_env=False).status_code == status
        assert httpx.get(f"{url}/stats", trust_env=False).json() == {"calls": 1, "peak": 1}
    assert capfd.readouterr().err == ""


def test_remote_api_by_hand() -> None:
    """A port that is taken is told; --help explains the options."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SystemExit, match="2"):
        remote_api.main([f"--port={taken.getsockname()[1]}"])
    with pytest.raises(SystemExit, match="0"):
        remote_api.main(["--help"])
