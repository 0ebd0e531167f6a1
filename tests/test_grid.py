"""The size × latency table, and the 5 s line in it."""

import itertools
import re

import pytest

from asynctask.condition import Condition
from asynctask.grid import LATENCIES, SIZES, Cell, cells, draw

CONDITION = Condition()


def test_a_small_grid_as_it_is_drawn() -> None:
    """The line runs between the cells under 5 s and the others; letters say the verdict without colour."""
    grid = [row[3:6] for row in cells(CONDITION, 100)[2:5]]
    drawn = draw(grid, CONDITION, 100, chosen=(3_000, 0.2)).splitlines()
    assert drawn == [
        "Time at 100 at once, by records (down) and latency of one call (across):",
        "",
        "        100 ms    200 ms    500 ms",
        "                          ┏━━━━━━━━━",
        " 1,000     1 s     2.1 s  ┃  5.2 s w",
        "                ┏━━━━━━━━━┛",
        " 3,000   3.1 s  ┃ >6.2 s w    15 s J",
        "      ┏━━━━━━━━━┛",
        "10,000┃   10 s J    21 s J    52 s J",
        "",
        "  ┃  the 5 s line: above and left of it, answer in the request",
        "  w  5 s to 10 s: answer in place with `Prefer: wait`",
        "  J  above 10 s: make it a job",
        "  >  the operation that was asked about",
    ]


@pytest.mark.parametrize("at_once", [1, 7, 20, 100, 10_000])
def test_the_line_separates_exactly_the_synchronous_cells(at_once: int) -> None:
    """Read back from the text: left of the line every cell is `sync`, right of it none."""
    grid = cells(CONDITION, at_once)
    drawn = draw(grid, CONDITION, at_once).splitlines()[3:]
    rows = [line for line in drawn if re.match(r" *[\d,]+[ ┃]", line)]
    assert len(rows) == len(grid)
    reaches = [sum(cell.verdict == "sync" for cell in row) for row in grid]
    steps = [line for line in drawn if "┏" in line]
    assert len(steps) == len({len(grid[0]), *reaches}) - 1
    for cells_of_row, line in zip(grid, rows, strict=True):
        left = line[7:].split("┃")[0]
        sync = [cell for cell in cells_of_row if cell.verdict == "sync"]
        assert sync == list(cells_of_row[: len(sync)])
        assert all(cell.seconds <= 5.0 for cell in sync)
        assert all(cell.seconds >= 5.0 for cell in cells_of_row[len(sync) :])
        assert len(re.findall(r"(µs|ms|s|min|h|d)(?= |$)", left)) == len(sync)
        assert ("┃" in line) == (len(sync) < len(cells_of_row))


@pytest.mark.parametrize(("records", "latency"), [(None, None), (1, 1e-5), (6_000, 0.05), (9_999_999, 5.0)])
@pytest.mark.parametrize("at_once", [1, 20, 10_000])
def test_it_fits_eighty_columns(records: int | None, latency: float | None, at_once: int) -> None:
    """No line is longer than a terminal is wide, up to ten million records."""
    grid = cells(CONDITION, at_once, records=records, latency=latency)
    chosen = None if records is None or latency is None else (records, latency)
    assert max(map(len, draw(grid, CONDITION, at_once, chosen=chosen).splitlines())) <= 80


def test_what_was_asked_about_is_in_the_grid() -> None:
    """An own size is a row more; an own latency takes the place of the nearest, for the width is full."""
    grid = cells(CONDITION, 20, records=6_000, latency=0.06)
    assert [row[0].records for row in grid] == sorted({*SIZES, 6_000})
    assert [cell.latency_seconds for cell in grid[0]] == sorted({*LATENCIES, 0.06} - {0.05})
    assert Cell(6_000, 0.06, CONDITION.estimate(6_000, 0.06, 20), "job") in itertools.chain(*grid)


def test_colour_adds_nothing_but_colour() -> None:
    """Without the escape sequences the coloured table is the plain one."""
    grid = cells(CONDITION, 100, records=6_000)
    plain = draw(grid, CONDITION, 100, chosen=(6_000, 0.05))
    coloured = draw(grid, CONDITION, 100, chosen=(6_000, 0.05), colour=True)
    assert "\033[31m" in coloured
    stripped = re.sub(r"\033\[\d+m", "", coloured)
    assert [line.rstrip() for line in stripped.splitlines()] == plain.splitlines()
