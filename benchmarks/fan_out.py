"""A batch of remote calls of 50 ms each: how near every client comes to what arithmetic allows.

    python -m benchmarks.fan_out [--at-once 20 100 500] [--repeats 5] [--json FILE] [--quick]

All clients in turn, several turns; each batch goes through `map_concurrently` to one server that is a
process of its own. Efficiency is the ideal time (requests × latency / concurrency), new connections
included, over the time it took. CPU is the client process's, for each request. Then the storm: 20 requests
at a time are cancelled 0 to 6 ms after their start, on a pool of 10; how many of 10 normal requests are
answered after that?

"no network at all" is httpx on a transport that answers by itself after the 50 ms: no transport can do better
under httpx. The raw streams are the floor without httpx.
"""

from __future__ import annotations

import random
import sys
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import anyio

from asynctask.batch import map_concurrently
from benchmarks import _harness
from benchmarks._clients import CLIENTS, LATENCY, TIMEOUT

if TYPE_CHECKING:
    from benchmarks._clients import Client

REQUESTS = {20: 1000, 100: 3000, 500: 3000}
SLOW = "httpx, one pool"
"""Gets fewer requests where it needs several milliseconds for each: a tenth."""
POOL = 10
POOLLESS = ("httpx, no network at all", "raw asyncio streams")
"""These have no pool to lose a connection from."""
GOALS = [
    ("httpx, PooledTransport", 100, 0.80),
    ("httpx, FastTransport", 100, 0.93),
    ("httpx, FastTransport", 500, 0.55),
]
PACKAGES = ("httpx", "httpcore", "httpx2", "httpx-aiohttp", "aiohttp", "httptools", "anyio", "uvloop")


async def batch(client: Client, url: str, at_once: int, requests: int) -> dict[str, float]:
    """One batch: efficiency, and CPU in microseconds for each request."""

    async def fetch(_: int) -> None:
        status = await client.get(url)
        if status != 200:
            raise RuntimeError(f"the server answered {status}")

    cpu, wall = process_time(), perf_counter()
    try:
        await map_concurrently(fetch, range(requests), max_at_once=at_once)
        cpu, wall = process_time() - cpu, perf_counter() - wall
    finally:
        await client.aclose()
    return {"efficiency": requests * LATENCY / at_once / wall, "cpu_us": cpu / requests * 1e6}


async def storm(client: Client, url: str, seconds: float) -> dict[str, float]:
    """Cancel requests early for so long; then count how many of 10 at once are answered."""
    chance = random.Random(1)
    answered = 0

    async def cancelled() -> None:
        end = perf_counter() + seconds
        while perf_counter() < end:
            with anyio.move_on_after(chance.uniform(0, 0.006)):
                await client.get(url)

    async def normal() -> None:
        nonlocal answered
        try:
            status = await client.get(url)
        except Exception as exc:  # whatever it is, it was not answered
            print(f"  after the storm: {exc!r}", file=sys.stderr)
        else:
            answered += status == 200

    async with anyio.create_task_group() as group:
        for _ in range(2 * POOL):
            group.start_soon(cancelled)
    async with anyio.create_task_group() as group:
        for _ in range(POOL):
            group.start_soon(normal)
    await client.aclose()
    return {"answered": answered}


def measure(url: str, at_once: list[int], repeats: int, seconds: float, part: float) -> _harness.Samples:
    """All clients at every concurrency, in turn; then the storm, once for each client."""
    samples = _harness.Samples()

    async def one(name: str, count: int) -> dict[str, float]:
        requests = int(REQUESTS.get(count, 3000) * part)
        if name == SLOW and count >= 100:
            requests = max(count, requests // 10)
        return await batch(CLIENTS[name](count, TIMEOUT), url, count, requests)

    async def stormy(name: str) -> dict[str, float]:
        return await storm(CLIENTS[name](POOL, 2.0), url, seconds)

    for count in at_once:
        for name, _ in _harness.turns(CLIENTS, repeats):
            figures = _harness.run(one(name, count))
            samples.add(name, {f"{figure} at {count}": value for figure, value in figures.items()})
    for name in CLIENTS:
        if name not in POOLLESS:
            samples.add(name, _harness.run(stormy(name)))
    return samples


def report(samples: _harness.Samples, at_once: list[int]) -> str:
    """The tables, and the goals with what became of them."""
    parts = []
    headers = ["client", *(f"C={count}" for count in at_once)]
    for title, figure, form in (
        ("efficiency", "efficiency", ".2f"),
        ("CPU for each request, µs", "cpu_us", ".0f"),
    ):
        rows = [
            [name, *(format(samples[name, f"{figure} at {count}"], form) for count in at_once)]
            for name in CLIENTS
        ]
        parts.append(f"{title}\n\n{_harness.table(headers, rows)}")
    answered: list[list[Any]] = [
        [name, f"{samples[name, 'answered']:.0f} of {POOL}"]
        for name in CLIENTS
        if (name, "answered") in samples
    ]
    parts.append("after the storm\n\n" + _harness.table(["client", "answered"], answered))
    lines = []
    for name, count, goal in GOALS:
        if count in at_once:
            found = samples[name, f"efficiency at {count}"].median
            verdict = "met" if found >= goal else "missed"
            lines.append(f"goal: {name}, C={count}: {goal:.2f} or more; {found:.2f}: {verdict}")
    parts.append("\n".join(lines))
    return "\n\n".join(parts)


def main() -> None:
    """Measure, print the tables, write the JSON."""
    options = _harness.parser(__doc__)
    options.add_argument("--at-once", type=int, nargs="+", default=list(REQUESTS), metavar="C")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.at_once, chosen.repeats = [20, 100], 1
    with _harness.server("-m", "benchmarks._remote_api", str(LATENCY)) as url:
        samples = measure(
            url, chosen.at_once, chosen.repeats, 0.2 if chosen.quick else 4.0, 0.1 if chosen.quick else 1.0
        )
    print(report(samples, chosen.at_once))
    _harness.finish(chosen, samples, *PACKAGES)


if __name__ == "__main__":
    main()
