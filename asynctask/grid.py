"""The size × latency grid of `python -m asynctask assess --grid`: what is computed, and how it is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from asynctask.condition import Condition, Verdict, time_in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES: Final[tuple[int, ...]] = (10, 100, 1_000, 3_000, 10_000, 30_000, 100_000)
LATENCIES: Final[tuple[float, ...]] = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0)

_WIDTH: Final = 7  # of a time; with its mark and the line a column takes 10, so that 7 fit into 80
_MARKS: Final[dict[Verdict, str]] = {"sync": "  ", "wait": " w", "job": " J"}
COLOURS: Final[dict[Verdict, str]] = {"sync": "\033[32m", "wait": "\033[33m", "job": "\033[31m"}
_BOLD, _REVERSE, _PLAIN = "\033[1m", "\033[7m", "\033[0m"


class Cell(msgspec.Struct, frozen=True, rename="camel"):
    """One size at one latency (seconds): how many seconds the batch takes, and the verdict."""

    records: int
    latency_seconds: float
    seconds: float
    verdict: Verdict


def cells(
    condition: Condition, at_once: int, *, records: int | None = None, latency: float | None = None
) -> list[list[Cell]]:
    """Compute the grid, a list for each size.

    Args:
        condition: whose thresholds decide.
        at_once: calls under way at the same time.
        records: a size that must be among the rows.
        latency: seconds, must be among the columns: takes the place of the nearest, for the width is full.
    """
    sizes, latencies = set[int](SIZES), set[float](LATENCIES)
    if records is not None:
        sizes.add(records)
    if latency is not None and latency not in latencies:
        latencies.remove(min(latencies, key=lambda known: abs(known - latency)))
        latencies.add(latency)
    return [[_cell(condition, size, each, at_once) for each in sorted(latencies)] for size in sorted(sizes)]


def _cell(condition: Condition, records: int, latency: float, at_once: int) -> Cell:
    found = condition.assess(records=records, latency=latency, at_once=at_once)
    return Cell(records, latency, found.concurrent_seconds or 0.0, found.verdict)


def draw(
    grid: Sequence[Sequence[Cell]],
    condition: Condition,
    at_once: int,
    *,
    chosen: tuple[int, float] | None = None,
    colour: bool = False,
) -> str:
    """Draw the grid as text, with the line between `sync` and the rest in it.

    Args:
        grid: what `cells` computed.
        condition: whose thresholds decided.
        at_once: the concurrency, for the heading.
        chosen: the (records, latency) to point at.
        colour: whether to use terminal colours; letters and the line say the same without.
    """

    label = max(len(f"{row[0].records:,}") for row in grid)
    lines = [
        f"Time at {at_once:,} at once, by records (down) and latency of one call (across):",
        "",
        " " * label + "".join(f" {_time(cell.latency_seconds):>{_WIDTH}}  " for cell in grid[0]).rstrip(),
    ]
    reach = len(grid[0])
    for row in grid:
        before, reach = reach, sum(cell.verdict == "sync" for cell in row)
        if reach < before:
            lines.append(" " * label + paint(_step(reach, before, len(row)), _BOLD, colour))
        text = f"{row[0].records:>{label},}"
        for column, cell in enumerate(row):
            here = chosen == (cell.records, cell.latency_seconds)
            time = f"{'>' * here + _time(cell.seconds):>{_WIDTH}}{_MARKS[cell.verdict]}"
            text += paint("┃", _BOLD, colour) if column == reach else " "
            text += paint(time, COLOURS[cell.verdict] + _REVERSE * here, colour)
        lines.append(text.rstrip())
    return "\n".join([*lines, "", *_legend(condition, chosen, colour)])


def _step(reach: int, before: int, columns: int) -> str:
    """The line between two rows, the upper of which is `sync` in `before` columns, the lower in `reach`."""
    run = "━" * ((before - reach) * (_WIDTH + 3) - 1)
    return " " * (reach * (_WIDTH + 3)) + "┏" + run + ("┛" if before < columns else "")


def _legend(condition: Condition, chosen: tuple[int, float] | None, colour: bool) -> list[str]:
    limit, most = time_in_words(condition.sync_below), time_in_words(condition.job_above)
    keys: list[tuple[str, str, str]] = [
        ("┃", _BOLD, f"the {limit} line: above and left of it, answer in the request"),
        ("w", COLOURS["wait"], f"{limit} to {most}: answer in place with `Prefer: wait`"),
        ("J", COLOURS["job"], f"above {most}: make it a job"),
    ]
    if chosen is not None:
        keys.append((">", _REVERSE, "the operation that was asked about"))
    return [f"  {paint(sign, code, colour)}  {text}" for sign, code, text in keys]


def _time(seconds: float) -> str:
    return time_in_words(seconds, exact=False)


def paint(text: str, code: str, colour: bool) -> str:
    """`text` in a terminal colour, or as it is."""
    return f"{code}{text}{_PLAIN}" if colour else text
