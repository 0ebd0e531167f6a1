"""How many polls and triggers a second one server process answers, beside a bare Starlette JSON route.

Claims: a status poll is at least as fast as the bare route, a 304 faster, the trigger of a job that is
already running at least 0.9 of it. One uvicorn (uvloop, httptools) serves all of them from the same process;
wrk loads them in turn with 50 connections.

    python -m benchmarks.http_polls [--quick] [--json FILE]
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from asynctask import Jobs, Run
from asynctask.asgi import routes
from benchmarks._harness import Samples, finish, free_port, parser, server, table, turns

REFERENCE = "bare route"

jobs = Jobs()


@jobs.job("held")
async def held(run: Run) -> None:
    """Stay RUNNING while the benchmark looks."""
    run.total = 1000
    run.advance(420, failed=2)
    await anyio.sleep_forever()


async def bare(request: Request) -> JSONResponse:
    return JSONResponse({"status": "ok"})


async def by_hand(request: Request) -> JSONResponse:
    """Send what a status poll sends, the way an application without this package would."""
    snapshot = await jobs.status("held")
    body: dict[str, Any] = {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}
    del body["started"]
    return JSONResponse(
        body, headers={"etag": snapshot.etag, "cache-control": "no-store", "retry-after": "1"}
    )


def app() -> Starlette:
    """The server under load."""
    return Starlette(
        routes=[Route("/bare", bare), Mount("/api", routes=routes(jobs)), Route("/by-hand", by_hand)],
        lifespan=jobs.lifespan,
    )


def serve() -> None:
    port = free_port()
    print(f"http://127.0.0.1:{port}", flush=True)
    uvicorn.run(app(), port=port, loop="uvloop", http="httptools", log_level="warning", access_log=False)


def ask(method: str, url: str) -> dict[str, Any]:
    request = urllib.request.Request(url, method=method)
    with urllib.request.urlopen(request, timeout=10) as response:
        return {**json.load(response), "etag": response.headers["etag"]}


def wrk(url: str, seconds: int, *options: str) -> float:
    """Load `url` with 50 connections and return the answers a second."""
    command = ["wrk", "-t1", "-c50", f"-d{seconds}s", *options, url]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Socket errors" in out or "Non-2xx" in out:
        raise RuntimeError(out)
    found = re.search(r"Requests/sec:\s+([\d.]+)", out)
    assert found, out
    return float(found[1])


def main() -> int:
    options = parser(__doc__, repeats=7).parse_args()
    if shutil.which("wrk") is None:
        print("this benchmark needs wrk: apt-get install wrk", file=sys.stderr)
        return 2
    seconds = 1 if options.quick else 3
    samples = Samples()
    with server("-m", "benchmarks.http_polls", "--serve") as base, tempfile.TemporaryDirectory() as folder:
        post = Path(folder, "post.lua")
        post.write_text('wrk.method = "POST"\n')
        for _ in range(100):  # the process prints its address before it listens
            try:
                ask("POST", f"{base}/api/held")
                break
            except OSError:
                subprocess.run(["sleep", "0.05"], check=True)
        etag = ask("GET", f"{base}/api/held/status")["etag"]
        cases = {
            REFERENCE: (f"{base}/bare",),
            "the same answer by hand": (f"{base}/by-hand",),
            "status poll": (f"{base}/api/held/status",),
            "status poll, 304": (f"{base}/api/held/status", "-H", f"If-None-Match: {etag}"),
            "trigger of a running job": (f"{base}/api/held", "-s", str(post)),
        }
        for name, (url, *more) in turns(cases, 1 if options.quick else options.repeats):
            samples.add(name, {"per_second": wrk(url, seconds, *more)})
    rows = [
        [name, f"{samples[name, 'per_second']:,.0f}", f"{samples.ratio(name, REFERENCE, 'per_second'):.2f}"]
        for name in cases
    ]
    print(table(["request", "answers a second", f"of the {REFERENCE}"], rows))
    finish(options, samples, "starlette", "uvicorn", "uvloop", "httptools", "msgspec")
    return 0


if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve()
    else:
        sys.exit(main())
