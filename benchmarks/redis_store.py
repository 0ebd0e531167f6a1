"""The Redis store beside a bare script call and beside SAQ, on one Redis of its own.

    python -m benchmarks.redis_store [--quick] [--json FILE]

Three questions, each with its reference in the same turn:

- What do claim, read and settle cost beside the round trip of a script that does nothing, by the same client?
  And beside the least that a store can do, a script that gets or sets as many bytes?
- How many no-op runs a second, from trigger to terminal, beside SAQ's from enqueue to finish?
- How long does it take to renew the leases of 1,000 runs, in one pipeline?
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import statistics
from contextlib import asynccontextmanager
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING, Any

import saq
import uvloop

from asynctask.jobs import Jobs
from asynctask.keys import Key
from asynctask.run import Run
from asynctask.snapshot import Status, encode
from asynctask.stores.redis import RedisStore
from asynctask.stores.redis.scripts import Script
from benchmarks._harness import Samples, finish, parser, table, turns
from demo.redis_server import RedisServer

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Awaitable, Callable

    Case = Callable[[], Awaitable[dict[str, float]]]

AT_ONCE = 16
"""Calls under way at the same time where the rate is measured."""
RENEWED = 1000
ROUND_TRIP_GOAL, RATE_GOAL, RENEWAL_GOAL = 1.5, 2.0, 50.0
NOTHING, GET, SET = (
    Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
    for text in (
        "return 1",
        "return redis.call('GET', KEYS[1])",
        "redis.call('SET', KEYS[1], ARGV[1]) return 1",
    )
)

_keys = count()


def fresh_key() -> Key:
    """A key that nothing has run for."""
    return Key("bench/{n}", f"bench/{next(_keys)}", "bench")


async def timed(step: Callable[[int], Awaitable[object]], calls: int) -> dict[str, float]:
    """Latency of calls one after the other, and the rate of as many with some under way at once."""
    seconds = []
    for number in range(calls):
        began = perf_counter()
        await step(number)
        seconds.append(perf_counter() - began)
    numbers = iter(range(calls, 2 * calls))

    async def caller() -> None:
        for number in numbers:
            await step(number)

    began = perf_counter()
    await asyncio.gather(*(caller() for _ in range(AT_ONCE)))
    rate = calls / (perf_counter() - began)
    cuts = statistics.quantiles(seconds, n=100)
    return {"p50": 1e6 * cuts[49], "p99": 1e6 * cuts[98], "rate": rate}


@asynccontextmanager
async def round_trips(url: str, calls: int) -> AsyncIterator[dict[str, Case]]:
    """The cases of the first question."""
    async with RedisStore(url, prefix="bench", lease=600.0) as store:
        client = store._server._client
        for script in (NOTHING, GET, SET):
            await client.execute_command("SCRIPT", "LOAD", script.text)
        read_key = fresh_key()
        snapshot = encode((await store.claim(Run(read_key))).snapshot)

        def bare(script: Script, *arguments: bytes) -> Case:
            async def case() -> dict[str, float]:
                return await timed(
                    lambda _: client.execute_command("EVALSHA", script.sha, 1, "bench:x", *arguments), calls
                )

            return case

        async def read() -> dict[str, float]:
            return await timed(lambda _: store.read(read_key), calls)

        async def join() -> dict[str, float]:
            runs = [Run(read_key) for _ in range(2 * calls)]
            return await timed(lambda number: store.claim(runs[number]), calls)

        async def claim_and_settle() -> dict[str, float]:
            runs = [Run(fresh_key()) for _ in range(2 * calls)]
            claimed = await timed(lambda number: store.claim(runs[number]), calls)
            for run in runs:
                run.finish(Status.SUCCESS, result={"groups": 7})
            settled = await timed(lambda number: store.settle(runs[number]), calls)
            return {**claimed, **{f"settle {name}": value for name, value in settled.items()}}

        yield {
            "nothing": bare(NOTHING),
            "set": bare(SET, snapshot),
            "get": bare(GET),
            "read": read,
            "claim: join": join,
            "claim: start": claim_and_settle,
        }


@asynccontextmanager
async def whole_runs(url: str, runs: int) -> AsyncIterator[dict[str, Case]]:
    """The cases of the second question."""
    jobs = Jobs(store=RedisStore(url, prefix="bench"), max_running=runs)
    executed: list[Run] = []

    @jobs.job("bench/{n}")
    async def noop(run: Run) -> None:
        executed.append(run)

    logging.getLogger("saq").setLevel(logging.ERROR)
    queue = saq.Queue.from_url(url)
    left = 0
    empty = asyncio.Event()

    async def done(_: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            empty.set()

    async def nothing(_: Any) -> None:
        return None

    worker = saq.Worker(queue, functions=[("nothing", nothing)], concurrency=AT_ONCE, after_process=done)

    async def ours() -> dict[str, float]:
        executed.clear()
        keys = iter([str(next(_keys)) for _ in range(runs)])

        async def caller() -> None:
            for key in keys:
                await jobs.trigger("bench/{n}", tenant="bench", params={"n": key})

        began = perf_counter()
        await asyncio.gather(*(caller() for _ in range(AT_ONCE)))
        while len(executed) < runs:
            await asyncio.sleep(0)
        for run in executed:
            await run.finished.wait()
        return {"rate": runs / (perf_counter() - began)}

    async def theirs() -> dict[str, float]:
        nonlocal left
        left = runs
        empty.clear()
        numbers = iter(range(runs))

        async def caller() -> None:
            for _ in numbers:
                await queue.enqueue("nothing")

        began = perf_counter()
        await asyncio.gather(*(caller() for _ in range(AT_ONCE)))
        await empty.wait()
        return {"rate": runs / (perf_counter() - began)}

    async with jobs:
        working = asyncio.create_task(worker.start())
        try:
            yield {"SAQ": theirs, "asynctask": ours}
        finally:
            await worker.stop()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await queue.disconnect()


@asynccontextmanager
async def renewals(url: str) -> AsyncIterator[dict[str, Case]]:
    """The case of the third question, done by hand instead of by the lease's thread."""
    async with RedisStore(url, prefix="bench", lease=600.0) as store:
        runs = [Run(fresh_key()) for _ in range(RENEWED)]
        for run in runs:
            await store.claim(run)
            run.total = 1000
        holds = [store._keeper.find(run.run_id) for run in runs]
        client = store._server.connect_blocking(5.0)

        def renew() -> float:
            for run in runs:
                run.advance()
            began = perf_counter()
            calls = [hold.renewal(hold.run.snapshot()) for hold in holds if hold is not None]
            answers = store._server.pipeline(client, calls)
            seconds = perf_counter() - began
            assert len([answer for answer in answers if answer > 0]) == RENEWED
            return 1000 * seconds

        async def case() -> dict[str, float]:
            return {"ms": await asyncio.to_thread(renew)}

        yield {"1,000 renewals": case}
        client.close()


async def measure(options: argparse.Namespace, url: str) -> Samples:
    """Run all cases in turn."""
    samples = Samples()
    repeats = 1 if options.quick else options.repeats
    calls, runs = (200, 200) if options.quick else (2000, 2000)
    for cases in (round_trips(url, calls), whole_runs(url, runs), renewals(url)):
        async with cases as named:
            for case in named.values():
                await case()  # once for the pools and caches
            for name, case in turns(named, repeats):
                samples.add(name, await case())
    return samples


def report(samples: Samples) -> None:
    """Print the tables."""
    rows = []
    for label, case, prefix, least in [
        ("bare EVALSHA", "nothing", "", "nothing"),
        ("… that gets a snapshot", "get", "", "get"),
        ("… that sets a snapshot", "set", "", "set"),
        ("read", "read", "", "get"),
        ("claim, joining", "claim: join", "", "set"),
        ("claim, starting", "claim: start", "", "set"),
        ("settle", "claim: start", "settle ", "set"),
    ]:
        p50, p99, rate = (samples[case, prefix + figure] for figure in ("p50", "p99", "rate"))
        over = [f"{p50.median / samples[name, 'p50'].median:.2f}" for name in ("nothing", least)]
        rows.append((label, f"{p50:.0f}", f"{p99:.0f}", f"{rate:,.0f}", *over))
    headers = [
        "one round trip",
        "p50 µs",
        "p99 µs",
        f"per second, {AT_ONCE} at once",
        "× bare",
        "× get or set",
    ]
    print(table(headers, rows))
    print(f"Goal: claim and read at most {ROUND_TRIP_GOAL} × a bare EVALSHA.\n")
    saqs, ours = (f"{samples[name, 'rate']:,.0f}" for name in ("SAQ", "asynctask"))
    ratio = f"{samples.ratio('asynctask', 'SAQ', 'rate'):.2f}"
    whole = [("SAQ", saqs, "1"), ("asynctask", ours, ratio)]
    print(table(["no-op, trigger to terminal", "runs per second", "× SAQ"], whole))
    print(f"Goal: at least {RATE_GOAL} × SAQ.\n")
    print(table(["one pipeline", "ms"], [("1,000 renewals", f"{samples['1,000 renewals', 'ms']:.1f}")]))
    print(f"Goal: under {RENEWAL_GOAL:.0f} ms.")


def main() -> None:
    """Measure and print."""
    options = parser(__doc__).parse_args()
    with RedisServer() as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        samples = runner.run(measure(options, server.url))
    report(samples)
    finish(options, samples, "redis", "saq", "uvloop")


if __name__ == "__main__":
    main()
