"""How the cost of a batch grows: 1,000 to 100,000 items, 10 to 500 at once.

    python -m benchmarks.fan_out_scale [--repeats 3] [--json FILE] [--quick]

Each cell is a batch in a process of its own. In the first table the call is a sleep, so that all the cost
is `map_concurrently`'s and the event loop's; the latency is chosen so that 10,000 calls a second are ideal
at every concurrency. Beside it stands the same as one task for each item behind a semaphore, the usual way
by hand. In the second table the calls go over HTTP, 50 ms each, through httpx on both transports; cells
whose ideal time is above 60 s are left out, and those that take more than 15 s are measured once.

CPU is the process's, for each call. Memory is the highest resident size above that before the batch, the
list of results included. Time is over the ideal one, items × latency / at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import anyio

from asynctask.batch import map_concurrently
from benchmarks import _harness
from benchmarks._clients import CLIENTS, TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ITEMS = (1_000, 10_000, 100_000)
AT_ONCE = (10, 100, 500)
IDEAL_RATE = 10_000
HTTP_LATENCY = 0.05
LONGEST_IDEAL = 60.0
LONG = 15.0
"""A cell that takes more seconds is measured once."""
WAYS = {
    "map_concurrently": "map_concurrently, sleeping",
    "tasks": "a task each, sleeping",
    "httpx, PooledTransport": "map_concurrently, httpx on PooledTransport",
    "httpx, FastTransport": "map_concurrently, httpx on FastTransport",
}


def latency(way: str, at_once: int) -> float:
    """Seconds that one call takes."""
    return HTTP_LATENCY if way in CLIENTS else at_once / IDEAL_RATE


async def a_task_each(fn: Callable[[int], Awaitable[Any]], items: range, at_once: int) -> None:
    """The usual way by hand: as many tasks as items, and a semaphore."""
    slots = asyncio.Semaphore(at_once)

    async def call(item: int) -> Any:
        async with slots:
            return await fn(item)

    await asyncio.gather(*(call(item) for item in items))


async def cell(way: str, items: int, at_once: int, url: str) -> dict[str, float]:
    """One batch in this process."""
    seconds = latency(way, at_once)
    client = CLIENTS[way](at_once, TIMEOUT) if way in CLIENTS else None

    async def call(item: int) -> int:
        if client is None:
            await anyio.sleep(seconds)
            return item
        return await client.get(url)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu, wall = process_time(), perf_counter()
    if way == "tasks":
        await a_task_each(call, range(items), at_once)
    else:
        await map_concurrently(call, range(items), max_at_once=at_once)
    cpu, wall = process_time() - cpu, perf_counter() - wall
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if client is not None:
        await client.aclose()
    return {
        "cpu_us": cpu / items * 1e6,
        "peak_mb": (after - before) / 1024,  # Linux counts in KiB
        "over_ideal": wall / (items * seconds / at_once),
    }


def measure(options: argparse.Namespace, url: str) -> _harness.Samples:
    """All cells in turn, each in a process of its own."""
    samples = _harness.Samples()
    sizes, widths = ((1_000,), (10, 100)) if options.quick else (ITEMS, AT_ONCE)
    cells = {
        f"{way}: {items} items, {at_once} at once": (way, items, at_once)
        for way in WAYS
        for items in sizes
        for at_once in widths
        if items * latency(way, at_once) / at_once <= (2.0 if options.quick else LONGEST_IDEAL)
    }
    for name, (way, items, at_once) in _harness.turns(cells, options.repeats):
        command = [
            sys.executable,
            "-m",
            "benchmarks.fan_out_scale",
            "--cell",
            way,
            str(items),
            str(at_once),
            url,
        ]
        ran = subprocess.run(command, cwd=_harness.ROOT, stdout=subprocess.PIPE, text=True, check=True)
        samples.add(name, json.loads(ran.stdout))
    return samples


def report(samples: _harness.Samples) -> str:
    """A table for the sleeping batches and one for those over HTTP."""
    headers = ["items × at once", "CPU a call, µs", "peak memory, MB", "time over ideal"]
    parts = []
    for way, title in WAYS.items():
        rows = [
            [
                f"{items:,} × {at_once}",
                f"{samples[name, 'cpu_us']:.1f}",
                f"{samples[name, 'peak_mb']:.1f}",
                f"{samples[name, 'over_ideal']:.2f}",
            ]
            for items in ITEMS
            for at_once in AT_ONCE
            if ((name := f"{way}: {items} items, {at_once} at once"), "cpu_us") in samples
        ]
        parts.append(f"{title}\n\n{_harness.table(headers, rows)}")
    return "\n\n".join(parts)


def main() -> None:
    """Measure, print the tables, write the JSON; with `--cell`, run one batch and print its figures."""
    parser = _harness.parser(__doc__, repeats=3)
    parser.add_argument("--cell", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        way, items, at_once, url = options.cell
        print(json.dumps(_harness.run(cell(way, int(items), int(at_once), url))))
        return
    if options.quick:
        options.repeats = 1
    with _harness.server("-m", "benchmarks._remote_api", str(HTTP_LATENCY)) as url:
        samples = measure(options, url)
    print(report(samples))
    _harness.finish(options, samples, "anyio", "uvloop", "httpx", "httpcore", "httpx-aiohttp", "aiohttp")


if __name__ == "__main__":
    main()
