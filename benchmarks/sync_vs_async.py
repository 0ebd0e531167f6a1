"""One and the same work as a synchronous answer and as a job, over a grid of sizes and latencies.

Claims: behind a gateway a synchronous endpoint is cut off (504) where the arithmetic says so, records ×
latency when it calls one by one, a hundredth of that at 100 at once; the trigger of a job answers at once in
every cell, its polls are never cut off, and SUCCESS takes no longer than the synchronous answer at 100 at
once.

Everything is real: a remote API in a process of its own, the application under uvicorn, nginx in front of
it. The scale is 1:10. nginx waits 3 s where gateways wait 30 s, the line of 5 s is at 0.5 s, and there are a
tenth of the records; the latency of a call, the 100 at once and the cost of a call are as they are. So
records and seconds are read ten times as large. One case is also run at full size, behind 30 s: 6,000 × 50
ms.

    python -m benchmarks.sync_vs_async [--quick] [--json FILE] [--picture FILE]

Writes its figures to results/sync_vs_async.json and the picture to sync_vs_async.png; with --quick neither,
unless it is told where. `--draw FILE.json` makes table and picture anew from such figures.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import anyio
import httpx

from asynctask.condition import SPECIFICATION
from benchmarks._gateway import MISSING, find_nginx, gateway, version
from benchmarks._grid_app import AT_ONCE
from benchmarks._grid_report import Grid, load, report
from benchmarks._harness import ROOT, Samples, finish, parser, server, turns

SIZES: Final = (10, 30, 100, 300, 600, 1_000, 3_000)
LATENCIES: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
QUICK: Final = ((10, 100), (0.005, 0.05))
SCALE: Final = 10
GATEWAY: Final = 30.0  # seconds that a gateway waits; nginx by default 60, others 30
FULL: Final = (6_000, 0.05)  # the specification's duplicate check

RESULTS: Final = ROOT / "benchmarks" / "results" / "sync_vs_async.json"
PICTURE: Final = ROOT / "benchmarks" / "sync_vs_async.png"

POLL_EVERY: Final = 0.02  # seconds; more often than the server asks for, to see SUCCESS when it comes


class Client:
    """Does the work of a cell in each of the three ways and takes the times, as a browser sees them."""

    def __init__(self, http: httpx.AsyncClient, samples: Samples) -> None:
        self._http = http
        self._samples = samples
        self._runs = 0

    async def synchronous(self, way: str, records: int, latency: float) -> None:
        """`way` is the path: one-by-one or at-once."""
        began = perf_counter()
        response = await self._http.post(f"/{way}", json={"records": records, "latency": latency})
        seconds = perf_counter() - began
        await self._http.get("/settled")
        if response.status_code not in (200, 504):
            raise RuntimeError(f"{way}, {records} × {latency} s: {response.status_code} {response.text}")
        if response.status_code == 200 and response.json() != {"calls": records}:
            raise RuntimeError(f"{way}, {records} × {latency} s: {response.text}")
        cut = float(response.status_code == 504)
        self._samples.add(Grid.case(way, records, latency), {"seconds": seconds, "cut": cut})

    async def job(self, records: int, latency: float) -> None:
        """Trigger, then poll until the run is over."""
        self._runs += 1  # each measurement is a key of its own, so that none joins another's run
        path, cut = f"/api/cells/{self._runs}", 0
        began = perf_counter()
        response = await self._http.post(path, json={"records": records, "latency": latency})
        answered = perf_counter() - began
        cut += response.status_code == 504
        snapshot: dict[str, Any] = {"status": "RUNNING"}
        while snapshot["status"] == "RUNNING":
            response = await self._http.get(f"{path}/status")
            cut += response.status_code == 504
            if response.status_code == 200:
                snapshot = response.json()
            await anyio.sleep(POLL_EVERY)
        seconds = perf_counter() - began - POLL_EVERY
        if snapshot["status"] != "SUCCESS" or snapshot["result"] != {"calls": records}:
            raise RuntimeError(f"job, {records} × {latency} s: {snapshot}")
        self._samples.add(Grid.case("trigger", records, latency), {"seconds": answered, "cut": cut})
        self._samples.add(Grid.case("job", records, latency), {"seconds": seconds, "cut": cut})


async def measure(base: str, grid: Grid, samples: Samples, repeats: int) -> None:
    """Every cell in every way, `repeats` times."""
    async with httpx.AsyncClient(base_url=base, timeout=60) as http:
        client = Client(http, samples)
        for turn, (name, records) in enumerate(turns({f"{n:,}": n for n in grid.sizes}, repeats)):
            _progress(f"{turn + 1} of {repeats * len(grid.sizes)}: {name} records")
            # One by one there is one call under way at a time, so a row's cells hardly disturb each other.
            async with anyio.create_task_group() as tasks:
                for latency in grid.latencies:
                    tasks.start_soon(client.synchronous, "one-by-one", records, latency)
            for latency in grid.latencies:
                await client.synchronous("at-once", records, latency)
                await client.job(records, latency)


async def measure_full(base: str, samples: Samples) -> None:
    """The one case at full size."""
    async with httpx.AsyncClient(base_url=base, timeout=120) as http:
        client = Client(http, samples)
        await client.synchronous("one-by-one", *FULL)
        await client.synchronous("at-once", *FULL)
        await client.job(*FULL)


def run(options: argparse.Namespace, nginx: str) -> tuple[Grid, Samples, str]:
    """Start everything, measure, stop everything."""
    sizes, latencies = QUICK if options.quick else (SIZES, LATENCIES)
    grid = Grid(
        sizes=sizes,
        latencies=latencies,
        at_once=AT_ONCE,
        scale=SCALE,
        gateway=GATEWAY / SCALE,
        line=SPECIFICATION.sync_below / SCALE,
        full=None if options.quick else FULL,
    )
    samples = Samples()
    with (
        server("-m", "benchmarks._slow_api") as remote,
        server("-m", "benchmarks._grid_app", remote) as port,
        gateway(nginx, int(port), [GATEWAY / SCALE, GATEWAY]) as (scaled, full),
    ):
        anyio.run(measure, scaled, grid, samples, 1 if options.quick else options.repeats)
        if not options.quick:
            _progress("6,000 × 50 ms at full size")
            anyio.run(measure_full, full, samples)
        _progress("")
    return grid, samples, version(nginx)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:40}", end="\r", file=sys.stderr, flush=True)


def main() -> int:
    made = parser(__doc__, repeats=3)
    made.add_argument("--picture", type=Path, metavar="FILE", help="write the heat maps there, as PNG")
    made.add_argument(
        "--draw", type=Path, metavar="FILE", help="measure nothing; take the figures from there"
    )
    options = made.parse_args()
    if not options.quick:
        RESULTS.parent.mkdir(exist_ok=True)
        options.json = options.json or RESULTS
        options.picture = options.picture or PICTURE
    if options.draw is not None:
        grid, samples, used = load(options.draw)
    else:
        nginx = find_nginx()
        if nginx is None:
            print(MISSING, file=sys.stderr)
            return 2
        grid, samples, used = run(options, nginx)
        more = {"grid": asdict(grid), "nginx": used}
        finish(options, samples, "httpx", "starlette", "uvicorn", "uvloop", "httptools", **more)
    print(report(grid, samples, used))
    if options.picture is not None:
        from benchmarks._grid_picture import draw  # matplotlib is needed for this alone

        draw(grid, samples, options.picture)
        print(f"written: {options.picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
