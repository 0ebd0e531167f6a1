"""What `sync_vs_async.py` found, as Markdown."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from asynctask.condition import Condition, time_in_words
from benchmarks._harness import Samples, table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAYS: Final = {
    "one-by-one": "Synchronous, one by one",
    "at-once": "Synchronous, 100 at once",
    "trigger": "Job: the trigger is answered",
    "job": "Job: SUCCESS is seen",
}
IDEAL: Final = Condition(efficiency=1.0)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What was measured: sizes in records, times in seconds, the limits at their scale."""

    sizes: tuple[int, ...]
    latencies: tuple[float, ...]
    at_once: int
    scale: int
    gateway: float
    line: float
    full: tuple[int, float] | None

    @staticmethod
    def case(way: str, records: int, latency: float) -> str:
        """The name of a cell among the samples."""
        return f"{way}, {records} x {latency:g}"

    def cells(self) -> Iterator[tuple[int, float]]:
        return ((records, latency) for records in self.sizes for latency in self.latencies)

    def ideal(self, way: str, records: int, latency: float) -> float:
        """How long the work takes at least."""
        return IDEAL.estimate(records, latency, 1 if way == "one-by-one" else self.at_once)


def is_cut(grid: Grid, samples: Samples, way: str, cell: tuple[int, float]) -> bool:
    """Whether half of a synchronous cell's turns or more ended in a 504; a job has no limit to run into."""
    return way in ("one-by-one", "at-once") and samples[grid.case(way, *cell), "cut"].median > 0


def load(path: Path) -> tuple[Grid, Samples, str]:
    """Read back what an earlier run has written."""
    body = json.loads(path.read_text())
    samples = Samples()
    for case, figures in body["samples"].items():
        for name, figure in figures.items():
            for value in figure["values"]:
                samples.add(case, {name: value})
    return msgspec.convert(body["grid"], Grid), samples, body["nginx"]


def report(grid: Grid, samples: Samples, nginx: str) -> str:
    """The findings in words, then a table for each way."""
    parts = [
        f"Behind {nginx}, which waits {grid.gateway:g} s for a gateway's {grid.gateway * grid.scale:g} s; "
        f"the 5 s line is at {grid.line:g} s. Records and seconds are read {grid.scale} times as large; the "
        "latency of a call is as it is.",
        "\n".join(f"- {finding}" for finding in [*_cut(grid, samples), *_speed(grid, samples)]),
    ]
    if grid.full is not None:
        parts.append(_full(grid, samples, *grid.full))
    parts += [_grid_table(grid, samples, way) for way in WAYS]
    return "\n\n".join(parts)


def _cut(grid: Grid, samples: Samples) -> Iterator[str]:
    for way in ("one-by-one", "at-once"):
        found = {cell for cell in grid.cells() if is_cut(grid, samples, way, cell)}
        theory = {cell for cell in grid.cells() if grid.ideal(way, *cell) >= grid.gateway}
        count = len(list(grid.cells()))
        text = f"{WAYS[way]}: 504 in {len(found)} of {count} cells, arithmetic says {len(theory)}"
        other = sorted(found ^ theory)
        where = ", ".join(f"{n:,} × {time_in_words(latency)}" for n, latency in other)
        yield text + (f"; they differ at {where}" if other else ", the same ones")
    cut = sum(samples[grid.case("job", *cell), "cut"].high for cell in grid.cells())
    yield f"Job: {cut:.0f} times 504, trigger and polls together"


def _speed(grid: Grid, samples: Samples) -> Iterator[str]:
    slowest = max(samples[grid.case("trigger", *cell), "seconds"].high for cell in grid.cells())
    usual = statistics.median(samples[grid.case("trigger", *cell), "seconds"].median for cell in grid.cells())
    yield f"Trigger of the job: answered in {time_in_words(usual)} (median), {time_in_words(slowest)} at most"
    whole = [cell for cell in grid.cells() if not samples[grid.case("at-once", *cell), "cut"].high]
    longer = [
        samples.ratio(grid.case("job", *cell), grid.case("at-once", *cell), "seconds").median
        for cell in whole
    ]
    big = [
        ratio for cell, ratio in zip(whole, longer, strict=True) if grid.ideal("at-once", *cell) >= grid.line
    ]
    yield _ratios("SUCCESS of the job over the synchronous answer at 100 at once", longer, "in all cells")
    yield _ratios("the same", big, f"where that takes {grid.line:g} s or more")
    efficiency = [
        grid.ideal("job", *cell) / samples[grid.case("job", *cell), "seconds"].median
        for cell in grid.cells()
        if grid.ideal("job", *cell) >= grid.line
    ]
    yield _ratios("ideal time over the job's", efficiency, f"where the ideal is {grid.line:g} s or more")


def _ratios(what: str, ratios: list[float], where: str) -> str:
    if not ratios:
        return f"{what}: no cell {where}"
    middle, low, high = statistics.median(ratios), min(ratios), max(ratios)
    return f"{what}: {middle:.2f} ({low:.2f} to {high:.2f}) {where}"


def _full(grid: Grid, samples: Samples, records: int, latency: float) -> str:
    rows = []
    for way, title in WAYS.items():
        figures = grid.case(way, records, latency)
        cut = bool(samples[figures, "cut"].high)
        seconds = samples[figures, "seconds"].median
        rows.append([title, f"{seconds:.3f} s", "504" if cut else "200" if way != "trigger" else "202"])
    head = f"At full size, {records:,} × {time_in_words(latency)} behind a gateway that waits "
    return head + f"{grid.gateway * grid.scale:g} s:\n\n" + table(["", "answered after", "status"], rows)


def _grid_table(grid: Grid, samples: Samples, way: str) -> str:
    rows = []
    for records in grid.sizes:
        row = [f"{records:,}"]
        for latency in grid.latencies:
            case = grid.case(way, records, latency)
            seconds = samples[case, "seconds"].median
            cut = is_cut(grid, samples, way, (records, latency))
            row.append("504" if cut else time_in_words(seconds, exact=False))
        rows.append(row)
    return f"{WAYS[way]}:\n\n" + table(["records", *map(time_in_words, grid.latencies)], rows)
