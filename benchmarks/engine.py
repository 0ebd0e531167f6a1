"""What the engine costs in one process: a no-op run, `run.advance()`, triggers under load, the import.

Claims, each beside its reference in the same run:

- a no-op run, trigger to terminal snapshot, costs at most 2.5 × anyio's bare `start_soon`;
- `run.advance()` costs at most 0.3 µs (an empty method call stands beside it);
- with 1,000 runs under way, the p99 of a trigger is at most 3 × what it is with none;
- importing the package takes at most 1.3 × importing what it depends on.

    python -m benchmarks.engine [--quick] [--json FILE]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable
from time import perf_counter

import anyio

from asynctask import Jobs, Run
from asynctask.keys import Key
from benchmarks._harness import ROOT, Samples, finish, parser, table, turns

RUNS = 1_000
"""How many runs are under way while triggers are timed."""


async def bare_start_soon(n: int) -> float:
    """Start `n` no-op tasks in a task group, one after the other, and wait for each. Seconds for each."""

    async def noop(done: anyio.Event) -> None:
        done.set()

    async with anyio.create_task_group() as group:
        began = perf_counter()
        for _ in range(n):
            done = anyio.Event()
            group.start_soon(noop, done)
            await done.wait()
        seconds = perf_counter() - began
    return seconds / n


async def noop_run(n: int) -> float:
    """Trigger a no-op job `n` times and wait for each terminal snapshot. Seconds for each."""
    jobs = Jobs()

    @jobs.job("noop")
    async def noop(run: Run) -> None:
        return None

    async with jobs:
        began = perf_counter()
        for _ in range(n):
            await jobs.trigger("noop")
            await jobs.wait("noop")
        return (perf_counter() - began) / n


class _Plain:
    def advance(self, n: int = 1, *, failed: int = 0) -> None:
        return None


async def empty_call(n: int) -> float:
    """Call an empty method of the same signature. Seconds for each."""
    return _timed(_Plain().advance, n)


async def advance(n: int) -> float:
    """Call `run.advance()`. Seconds for each."""
    run = Run(Key("job", "job", ""))
    run.total = n
    return _timed(run.advance, n)


def _timed(call: Callable[[], None], n: int) -> float:
    began = perf_counter()
    for _ in range(n):
        call()
    return (perf_counter() - began) / n


async def trigger_p99(others: int, n: int) -> float:
    """Trigger `n` different keys while `others` runs wait for I/O. The p99 in seconds."""
    jobs = Jobs(max_running=2 * RUNS + n, shutdown_grace=0)

    @jobs.job("held/{name}")
    async def held(run: Run) -> None:
        # Each run does what I/O-bound jobs do: it wakes up now and then, counts, and waits again.
        while True:
            await anyio.sleep(0.5)
            run.advance()

    @jobs.job("noop/{name}")
    async def noop(run: Run) -> None:
        return None

    seconds = []
    async with jobs:
        for i in range(others):
            await jobs.trigger("held/{name}", params={"name": str(i)})
        await anyio.sleep(0.6)
        for i in range(n):
            began = perf_counter()
            await jobs.trigger("noop/{name}", params={"name": str(i)})
            seconds.append(perf_counter() - began)
            await anyio.sleep(0)
    return statistics.quantiles(seconds, n=100)[98]


async def idle_trigger(n: int) -> float:
    return await trigger_p99(0, n)


async def busy_trigger(n: int) -> float:
    return await trigger_p99(RUNS, n)


DEPENDENCIES = "import starlette.routing, starlette.staticfiles, anyio, cachetools, httptools, httpx, msgspec"
PACKAGE = "import asynctask, asynctask.asgi"


def import_seconds(code: str) -> Callable[[int], Awaitable[float]]:
    """Return a case that imports in a fresh process; seconds within it, the fastest of `n`."""
    script = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"

    async def case(n: int) -> float:
        found = []
        for _ in range(n):
            ran = subprocess.run(
                [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
            )
            found.append(float(ran.stdout))
        return min(found)

    return case


Case = Callable[[int], Awaitable[float]]
GROUPS: list[tuple[str, str, dict[str, Case], float, int]] = [
    ("no-op run", "µs", {"bare start_soon": bare_start_soon, "no-op run": noop_run}, 2.5, 3_000),
    ("run.advance()", "µs", {"empty method": empty_call, "run.advance()": advance}, 0.3, 300_000),
    (
        "trigger, p99",
        "µs",
        {"no other run": idle_trigger, f"{RUNS:,} runs under way": busy_trigger},
        3.0,
        2_000,
    ),
    (
        "import",
        "ms",
        {"dependencies": import_seconds(DEPENDENCIES), "asynctask": import_seconds(PACKAGE)},
        1.3,
        5,
    ),
]
"""Claim, unit, reference and case, goal (a ratio; for advance microseconds), repetitions in a turn."""


def main() -> int:
    options = parser(__doc__, repeats=7).parse_args()
    samples = Samples()
    rows = []
    for claim, unit, cases, goal, n in GROUPS:
        count = max(2, n // 10) if options.quick else n
        scale = {"µs": 1e6, "ms": 1e3}[unit]
        for name, case in turns(cases, 1 if options.quick else options.repeats):
            samples.add(name, {"value": scale * anyio.run(case, count)})
        reference, subject = cases
        ratio = samples.ratio(subject, reference, "value")
        absolute = claim == "run.advance()"
        reached = (samples[subject, "value"].median if absolute else ratio.median) <= goal
        rows.append(
            [
                claim,
                f"{reference}: {samples[reference, 'value']:.2f} {unit}",
                f"{samples[subject, 'value']:.2f} {unit}",
                f"{ratio:.2f}",
                f"≤ {goal:g} {'µs' if absolute else '×'}",
                "yes" if reached else "no",
            ]
        )
    print(table(["claim", "reference", "measured", "ratio", "goal", "reached"], rows))
    finish(options, samples, "anyio", "msgspec", "cachetools")
    return 0


if __name__ == "__main__":
    sys.exit(main())
