"""Memory of the store while a million tenants come by, with a cap of 10,000 finished snapshots.

Claims: the memory is flat once the cap is reached, and a kept snapshot costs at most 1 KB beyond the summary
that the job returned. A dict that keeps every tenant's snapshot, as in the specification's trap no. 2,
stands beside it for the first part of the way.

    python -m benchmarks.bounded_state [--quick] [--json FILE]
"""

from __future__ import annotations

import gc
import sys
import tracemalloc

import anyio

from asynctask.keys import Key
from asynctask.run import Run
from asynctask.snapshot import Snapshot, Status
from asynctask.stores.memory import MemoryStore
from benchmarks._harness import Samples, finish, parser, table

CAP = 10_000


def heap() -> int:
    """Bytes that Python objects take now."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def pass_by(store: MemoryStore, first: int, count: int) -> None:
    """Let `count` tenants run a job that returns no summary, each once."""
    for i in range(first, first + count):
        run = Run(Key("check", "check", f"tenant-{i}"))
        await store.claim(run)
        run.finish(Status.SUCCESS)
        await store.settle(run)


async def unbounded(kept: dict[Key, Snapshot], count: int) -> None:
    """The same with a dict and no eviction."""
    for i in range(count):
        run = Run(Key("check", "check", f"tenant-{i}"))
        kept[run.claim_key] = run.finish(Status.SUCCESS)


async def measure(tenants: int, samples: Samples) -> list[list[str]]:
    store = MemoryStore(cap=CAP)
    tracemalloc.start()
    before = heap()
    rows, done = [], 0
    for target in [CAP, *(tenants * part // 4 for part in (1, 2, 3, 4))]:
        await pass_by(store, done, target - done)
        done = target
        used = heap() - before
        samples.add("MemoryStore", {f"bytes after {done:,}": used})
        rows.append(
            ["MemoryStore", f"{done:,}", f"{store.kept:,}", f"{used / 1e6:.2f}", f"{used / store.kept:,.0f}"]
        )
    del store
    before = heap()
    kept: dict[Key, Snapshot] = {}
    await unbounded(kept, tenants // 10)
    used = heap() - before
    samples.add("dict", {f"bytes after {len(kept):,}": used})
    rows.append(
        [
            "dict, never cleaned",
            f"{len(kept):,}",
            f"{len(kept):,}",
            f"{used / 1e6:.2f}",
            f"{used / len(kept):,.0f}",
        ]
    )
    tracemalloc.stop()
    return rows


def main() -> int:
    options = parser(__doc__, repeats=1).parse_args()
    samples = Samples()
    rows = anyio.run(measure, 40_000 if options.quick else 1_000_000, samples)
    print(table(["store", "tenants seen", "kept", "MB", "bytes for each kept"], rows))
    finish(options, samples, "cachetools", "msgspec")
    return 0


if __name__ == "__main__":
    sys.exit(main())
